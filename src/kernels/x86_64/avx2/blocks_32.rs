//! The formats with blocks of 32: their codes as 32 bytes. The layouts are described in `src/quant`.

use core::arch::x86_64::*;

/// A format with blocks of 32 that begin with an f16 scale.
pub(in crate::kernels::x86_64) trait Blocks32 {
    /// Bytes of a block.
    const BYTES: usize;
    /// Bits of a code without sign; 8 for codes with a sign (i8).
    const BITS: u32;
    /// What is taken off a code without sign.
    const OFFSET: i16 = 0;
    /// Whether an f16 minimum follows the scale.
    const MIN: bool = false;
    /// Whether two blocks at a time are faster than one.
    const TWO: bool = true;

    /// The codes of a block.
    ///
    /// # Safety
    /// The processor has AVX2; `block` points to [`Blocks32::BYTES`] bytes.
    unsafe fn codes(block: *const u8) -> __m256i;

    /// Codes 0 to 15 of this block and of the one behind it, then codes 16 to 31 of both.
    ///
    /// # Safety
    /// As [`Blocks32::codes`], for two blocks.
    unsafe fn two(block: *const u8) -> [__m256i; 2];
}

pub(in crate::kernels::x86_64) struct Q8_0;
pub(in crate::kernels::x86_64) struct Q4_0;
pub(in crate::kernels::x86_64) struct Q4_1;
pub(in crate::kernels::x86_64) struct Q5_0;
pub(in crate::kernels::x86_64) struct Q5_1;
pub(in crate::kernels::x86_64) struct Iq4Nl;

impl Blocks32 for Q8_0 {
    const BYTES: usize = 34;
    const BITS: u32 = 8;
    const TWO: bool = false;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the block; its bytes 2..34 are read.
        unsafe { _mm256_loadu_si256(block.add(2).cast()) }
    }

    #[inline(always)]
    unsafe fn two(block: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two blocks; bytes 2..34 of both are read.
        unsafe { [both(block.add(2), Self::BYTES), both(block.add(18), Self::BYTES)] }
    }
}

impl Blocks32 for Q4_0 {
    const BYTES: usize = 18;
    const BITS: u32 = 4;
    const OFFSET: i16 = 8;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the block; its bytes 2..18 are read.
        unsafe { nibbles(block.add(2)) }
    }

    #[inline(always)]
    unsafe fn two(block: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two blocks; bytes 2..18 of both are read.
        unsafe { nibbles_of_two(block.add(2), Self::BYTES) }
    }
}

impl Blocks32 for Q4_1 {
    const BYTES: usize = 20;
    const BITS: u32 = 4;
    const MIN: bool = true;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the block; its bytes 4..20 are read.
        unsafe { nibbles(block.add(4)) }
    }

    #[inline(always)]
    unsafe fn two(block: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two blocks; bytes 4..20 of both are read.
        unsafe { nibbles_of_two(block.add(4), Self::BYTES) }
    }
}

impl Blocks32 for Q5_0 {
    const BYTES: usize = 22;
    const BITS: u32 = 5;
    const OFFSET: i16 = 16;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the block; its bytes 2..22 are read.
        unsafe { _mm256_or_si256(nibbles(block.add(6)), fifth_bits(block.add(2))) }
    }

    #[inline(always)]
    unsafe fn two(block: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two blocks; bytes 2..22 of both are read.
        unsafe {
            let [low, high] = nibbles_of_two(block.add(6), Self::BYTES);
            let [fifth_low, fifth_high] = fifth_bits_of_two(block.add(2), Self::BYTES);
            [_mm256_or_si256(low, fifth_low), _mm256_or_si256(high, fifth_high)]
        }
    }
}

impl Blocks32 for Q5_1 {
    const BYTES: usize = 24;
    const BITS: u32 = 5;
    const MIN: bool = true;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the block; its bytes 4..24 are read.
        unsafe { _mm256_or_si256(nibbles(block.add(8)), fifth_bits(block.add(4))) }
    }

    #[inline(always)]
    unsafe fn two(block: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two blocks; bytes 4..24 of both are read.
        unsafe {
            let [low, high] = nibbles_of_two(block.add(8), Self::BYTES);
            let [fifth_low, fifth_high] = fifth_bits_of_two(block.add(4), Self::BYTES);
            [_mm256_or_si256(low, fifth_low), _mm256_or_si256(high, fifth_high)]
        }
    }
}

impl Blocks32 for Iq4Nl {
    const BYTES: usize = 18;
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the block; its bytes 2..18 are read.
        unsafe { values(nibbles(block.add(2))) }
    }

    #[inline(always)]
    unsafe fn two(block: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two blocks; bytes 2..18 of both are read.
        unsafe {
            let [low, high] = nibbles_of_two(block.add(2), Self::BYTES);
            [values(low), values(high)]
        }
    }
}

/// The low nibbles of 16 bytes, then the high ones.
///
/// # Safety
/// The processor has AVX2; 16 bytes can be read.
#[inline(always)]
pub(super) unsafe fn nibbles(bytes: *const u8) -> __m256i {
    // SAFETY: the caller promises AVX2 and 16 bytes to read; no alignment is needed.
    unsafe {
        let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.cast()));
        let shifted = _mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4));
        _mm256_and_si256(shifted, _mm256_set1_epi8(15))
    }
}

/// 16 bytes, and those `distance` bytes behind them.
///
/// # Safety
/// The processor has AVX2; 16 bytes can be read at both places.
#[inline(always)]
unsafe fn both(bytes: *const u8, distance: usize) -> __m256i {
    // SAFETY: the caller promises AVX2 and 16 bytes at both places; no alignment is needed.
    unsafe { _mm256_loadu2_m128i(bytes.add(distance).cast(), bytes.cast()) }
}

/// The low nibbles of 16 bytes and of those `distance` bytes behind them, then the high ones.
///
/// # Safety
/// The processor has AVX2; 16 bytes can be read at both places.
#[inline(always)]
unsafe fn nibbles_of_two(bytes: *const u8, distance: usize) -> [__m256i; 2] {
    // SAFETY: the caller promises AVX2 and 16 bytes at both places.
    unsafe {
        let (bytes, mask) = (both(bytes, distance), _mm256_set1_epi8(15));
        [_mm256_and_si256(bytes, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), mask)]
    }
}

/// The values of IQ4_NL and IQ4_XS for 32 indices below 16.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn values(indices: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let table = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), indices)
    }
}

/// 16 in byte i where bit i of the 32 is set, otherwise 0.
///
/// # Safety
/// The processor has AVX2; four bytes can be read.
#[inline(always)]
unsafe fn fifth_bits(bits: *const u8) -> __m256i {
    // SAFETY: the caller promises AVX2 and four bytes to read.
    unsafe {
        let bits = _mm256_set1_epi32(bits.cast::<i32>().read_unaligned());
        sixteens(bits, _mm256_setr_epi64x(0, ONES, 2 * ONES, 3 * ONES))
    }
}

/// As [`fifth_bits`], for bits 0 to 15 of two blocks, then for their bits 16 to 31.
///
/// # Safety
/// The processor has AVX2; four bytes can be read at both places.
#[inline(always)]
unsafe fn fifth_bits_of_two(bits: *const u8, distance: usize) -> [__m256i; 2] {
    // SAFETY: the caller promises AVX2 and four bytes at both places.
    unsafe {
        let first = _mm256_set1_epi32(bits.cast::<i32>().read_unaligned());
        let second = _mm256_set1_epi32(bits.add(distance).cast::<i32>().read_unaligned());
        let bits = _mm256_blend_epi32::<0xf0>(first, second);
        [
            sixteens(bits, _mm256_setr_epi64x(0, ONES, 0, ONES)),
            sixteens(bits, _mm256_setr_epi64x(2 * ONES, 3 * ONES, 2 * ONES, 3 * ONES)),
        ]
    }
}

/// 1 in each byte.
const ONES: i64 = 0x0101_0101_0101_0101;

/// 16 in byte i where bit i mod 8 of the byte that `byte` chooses is set, otherwise 0.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn sixteens(bits: __m256i, byte: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, byte), bit), bit);
        _mm256_and_si256(set, _mm256_set1_epi8(16))
    }
}
