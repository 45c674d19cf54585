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

    /// The codes of a block.
    ///
    /// # Safety
    /// The processor has AVX2; `block` points to [`Blocks32::BYTES`] bytes.
    unsafe fn codes(block: *const u8) -> __m256i;
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

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: AVX2; bytes 2..34.
        unsafe { _mm256_loadu_si256(block.add(2).cast()) }
    }
}

impl Blocks32 for Q4_0 {
    const BYTES: usize = 18;
    const BITS: u32 = 4;
    const OFFSET: i16 = 8;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: AVX2; bytes 2..18.
        unsafe { nibbles(block.add(2)) }
    }
}

impl Blocks32 for Q4_1 {
    const BYTES: usize = 20;
    const BITS: u32 = 4;
    const MIN: bool = true;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: AVX2; bytes 4..20.
        unsafe { nibbles(block.add(4)) }
    }
}

impl Blocks32 for Q5_0 {
    const BYTES: usize = 22;
    const BITS: u32 = 5;
    const OFFSET: i16 = 16;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: AVX2; bytes 2..22.
        unsafe { _mm256_or_si256(nibbles(block.add(6)), fifth_bits(block.add(2))) }
    }
}

impl Blocks32 for Q5_1 {
    const BYTES: usize = 24;
    const BITS: u32 = 5;
    const MIN: bool = true;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: AVX2; bytes 4..24.
        unsafe { _mm256_or_si256(nibbles(block.add(8)), fifth_bits(block.add(4))) }
    }
}

impl Blocks32 for Iq4Nl {
    const BYTES: usize = 18;
    const BITS: u32 = 8;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: AVX2; bytes 2..18.
        unsafe { values(nibbles(block.add(2))) }
    }
}

/// The low nibbles of 16 bytes, then the high ones.
///
/// # Safety
/// The processor has AVX2; 16 bytes can be read.
#[inline(always)]
pub(super) unsafe fn nibbles(bytes: *const u8) -> __m256i {
    // SAFETY: the caller has AVX2 and vouches for the bytes.
    unsafe {
        let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.cast()));
        let shifted = _mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4));
        _mm256_and_si256(shifted, _mm256_set1_epi8(15))
    }
}

/// The values of IQ4_NL and IQ4_XS for 32 indices below 16.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn values(indices: __m256i) -> __m256i {
    // SAFETY: the caller has AVX2.
    unsafe {
        let table = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), indices)
    }
}

/// 16 in byte i where bit i of the 32 is set, otherwise 0.
#[inline(always)]
unsafe fn fifth_bits(bits: *const u8) -> __m256i {
    // SAFETY: the caller has AVX2 and vouches for four bytes.
    unsafe {
        let bits = _mm256_set1_epi32(bits.cast::<i32>().read_unaligned());
        let byte = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, byte), bit), bit);
        _mm256_and_si256(set, _mm256_set1_epi8(16))
    }
}
