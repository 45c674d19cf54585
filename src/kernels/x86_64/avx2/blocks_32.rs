//! The formats with blocks of 32: their codes as 32 bytes. The layouts are described in `src/quant`.

use core::arch::x86_64::*;

/// A format with blocks of 32, or of `PARTS` times 32, that begin with their scale.
pub(in crate::kernels::x86_64) trait Blocks32 {
    /// Bytes of a block.
    const BYTES: usize;
    /// Parts of 32 of a block: 1, or an even number.
    const PARTS: usize = 1;
    /// Bytes from the codes of a part to those of the next one.
    const PART_BYTES: usize = 0;
    /// Bits of a code without sign; 8 for codes with a sign (i8).
    const BITS: u32;
    /// What is taken off a code without sign.
    const OFFSET: i16 = 0;
    /// Whether an f16 minimum follows the scale.
    const MIN: bool = false;
    /// Whether two blocks at a time are faster than one.
    const TWO: bool = true;

    /// The codes of a part.
    ///
    /// # Safety
    /// The processor has AVX2; `part` is what [`Blocks32::part`] gives for a part that there is.
    unsafe fn codes(part: *const u8) -> __m256i;

    /// Codes 0 to 15 of this part and of the one behind it, then codes 16 to 31 of both.
    ///
    /// # Safety
    /// As [`Blocks32::codes`], for two parts, of which the first has an even number.
    unsafe fn two(part: *const u8) -> [__m256i; 2];

    /// The scales whose first two bytes these are.
    ///
    /// # Safety
    /// The processor has AVX2 and F16C.
    #[inline(always)]
    unsafe fn scales(bits: __m128i) -> __m256 {
        // SAFETY: the caller promises F16C.
        unsafe { _mm256_cvtph_ps(bits) }
    }

    /// Where part `index` of a row is: the block that it belongs to, and as many bytes on as its codes are behind those of
    /// the first part.
    #[inline(always)]
    fn part(row: *const u8, index: usize) -> *const u8 {
        row.wrapping_add(index / Self::PARTS * Self::BYTES + index % Self::PARTS * Self::PART_BYTES)
    }

    /// The block of part `index` of a row.
    #[inline(always)]
    fn block(row: *const u8, index: usize) -> *const u8 {
        row.wrapping_add(index / Self::PARTS * Self::BYTES)
    }
}

pub(in crate::kernels::x86_64) struct Q8_0;
pub(in crate::kernels::x86_64) struct Q4_0;
pub(in crate::kernels::x86_64) struct Q4_1;
pub(in crate::kernels::x86_64) struct Q5_0;
pub(in crate::kernels::x86_64) struct Q5_1;
pub(in crate::kernels::x86_64) struct Iq4Nl;
pub(in crate::kernels::x86_64) struct Mxfp4;
pub(in crate::kernels::x86_64) struct Q1_0;
pub(in crate::kernels::x86_64) struct Q2_0;

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

impl Blocks32 for Mxfp4 {
    const BYTES: usize = 17;
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the block; its bytes 1..17 are read.
        unsafe { fp4_values(nibbles(block.add(1))) }
    }

    #[inline(always)]
    unsafe fn two(block: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two blocks; bytes 1..17 of both are read.
        unsafe {
            let [low, high] = nibbles_of_two(block.add(1), Self::BYTES);
            [fp4_values(low), fp4_values(high)]
        }
    }

    /// 2^(e - 128) of the lower byte e of each; subnormal for e below 2.
    #[inline(always)]
    unsafe fn scales(bits: __m128i) -> __m256 {
        // SAFETY: the caller promises AVX2, and these only compute on registers.
        unsafe {
            let exponents = _mm256_and_si256(_mm256_cvtepu16_epi32(bits), _mm256_set1_epi32(0xff));
            let normal = _mm256_slli_epi32::<23>(_mm256_sub_epi32(exponents, _mm256_set1_epi32(1)));
            let tiny = _mm256_sllv_epi32(_mm256_set1_epi32(1 << 21), exponents);
            let is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), exponents);
            _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, is_tiny))
        }
    }
}

impl Blocks32 for Q1_0 {
    const BYTES: usize = 18;
    const PARTS: usize = 4;
    const PART_BYTES: usize = 4;
    // Twice the bit.
    const BITS: u32 = 2;
    const OFFSET: i16 = 1;

    #[inline(always)]
    unsafe fn codes(part: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the part, whose four bytes of bits are two bytes behind `part`.
        unsafe { _mm256_and_si256(is_set(part.add(2)), _mm256_set1_epi8(2)) }
    }

    #[inline(always)]
    unsafe fn two(part: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two parts, whose eight bytes of bits are two bytes behind `part`.
        unsafe { is_set_in_two(part.add(2), 4).map(|set| _mm256_and_si256(set, _mm256_set1_epi8(2))) }
    }
}

impl Blocks32 for Q2_0 {
    const BYTES: usize = 18;
    const PARTS: usize = 2;
    const PART_BYTES: usize = 8;
    const BITS: u32 = 2;
    const OFFSET: i16 = 1;

    #[inline(always)]
    unsafe fn codes(part: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the part, whose eight bytes of codes are two bytes behind `part`.
        unsafe {
            let bytes = _mm_loadl_epi64(part.add(2).cast());
            pairs_of_bits(_mm256_broadcastsi128_si256(bytes), _mm256_setr_epi64x(0x0100, 0x0302, 0x0504, 0x0706))
        }
    }

    #[inline(always)]
    unsafe fn two(part: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two parts, whose sixteen bytes of codes are two bytes behind `part`.
        unsafe {
            let bytes = _mm256_broadcastsi128_si256(_mm_loadu_si128(part.add(2).cast()));
            [
                pairs_of_bits(bytes, _mm256_setr_epi64x(0x0100, 0x0302, 0x0908, 0x0b0a)),
                pairs_of_bits(bytes, _mm256_setr_epi64x(0x0504, 0x0706, 0x0d0c, 0x0f0e)),
            ]
        }
    }
}

/// The four codes of 2 bits of two bytes in each lane of 64 bits: the bytes that the numbers in the lower two bytes of the lane
/// of `which` choose.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn pairs_of_bits(bytes: __m256i, which: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let four_each = _mm256_setr_epi64x(
            0x0101_0101_0000_0000,
            0x0909_0909_0808_0808,
            0x0101_0101_0000_0000,
            0x0909_0909_0808_0808,
        );
        let bytes = _mm256_shuffle_epi8(bytes, _mm256_shuffle_epi8(which, four_each));
        // Bits 2 i and 2 i + 1 of byte i: none enters the byte from another that the mask keeps.
        let low = _mm256_and_si256(bytes, _mm256_set1_epi32(0x0030_0003));
        let high = _mm256_and_si256(_mm256_srli_epi32::<2>(bytes), _mm256_set1_epi32(0x3000_0300));
        let codes = _mm256_or_si256(low, high);
        let upper = _mm256_and_si256(_mm256_srli_epi32::<4>(codes), _mm256_set1_epi32(0x0303_0000));
        _mm256_or_si256(_mm256_and_si256(codes, _mm256_set1_epi32(0x0000_0303)), upper)
    }
}

/// The values of MXFP4 for 32 indices below 16.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn fp4_values(indices: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), indices)
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
    unsafe { _mm256_and_si256(is_set(bits), _mm256_set1_epi8(16)) }
}

/// As [`fifth_bits`], for bits 0 to 15 of two blocks, then for their bits 16 to 31.
///
/// # Safety
/// The processor has AVX2; four bytes can be read at both places.
#[inline(always)]
unsafe fn fifth_bits_of_two(bits: *const u8, distance: usize) -> [__m256i; 2] {
    // SAFETY: the caller promises AVX2 and four bytes at both places.
    unsafe { is_set_in_two(bits, distance).map(|set| _mm256_and_si256(set, _mm256_set1_epi8(16))) }
}

/// All bits of byte i where bit i of the 32 is set, otherwise 0.
///
/// # Safety
/// The processor has AVX2; four bytes can be read.
#[inline(always)]
pub(super) unsafe fn is_set(bits: *const u8) -> __m256i {
    // SAFETY: the caller promises AVX2 and four bytes to read.
    unsafe {
        let bits = _mm256_set1_epi32(bits.cast::<i32>().read_unaligned());
        all_bits(bits, _mm256_setr_epi64x(0, ONES, 2 * ONES, 3 * ONES))
    }
}

/// As [`is_set`], for bits 0 to 15 of two blocks, then for their bits 16 to 31.
///
/// # Safety
/// The processor has AVX2; four bytes can be read at both places.
#[inline(always)]
unsafe fn is_set_in_two(bits: *const u8, distance: usize) -> [__m256i; 2] {
    // SAFETY: the caller promises AVX2 and four bytes at both places.
    unsafe {
        let first = _mm256_set1_epi32(bits.cast::<i32>().read_unaligned());
        let second = _mm256_set1_epi32(bits.add(distance).cast::<i32>().read_unaligned());
        let bits = _mm256_blend_epi32::<0xf0>(first, second);
        [
            all_bits(bits, _mm256_setr_epi64x(0, ONES, 0, ONES)),
            all_bits(bits, _mm256_setr_epi64x(2 * ONES, 3 * ONES, 2 * ONES, 3 * ONES)),
        ]
    }
}

/// 1 in each byte.
const ONES: i64 = 0x0101_0101_0101_0101;

/// All bits of byte i where bit i mod 8 of the byte that `byte` chooses is set, otherwise 0.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn all_bits(bits: __m256i, byte: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, byte), bit), bit)
    }
}
