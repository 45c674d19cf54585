//! The formats with super-blocks of 256: their codes 32 at a time, and their sub-scales and sub-minima. The
//! layouts are described in `src/quant`.

use core::arch::x86_64::*;

use super::codes::{nibbles, values};
use super::lanes::halves;

/// A format with super-blocks of 256.
pub(in crate::kernels::x86_64) trait Blocks256 {
    /// Bytes of a super-block.
    const BYTES: usize;
    /// Bits of a code without sign; 8 for codes with a sign (i8).
    const BITS: u32;
    /// Elements per sub-block: 16 or 32.
    const SUB: usize;
    /// What is taken off a code without sign: 0 or a power of two.
    const OFFSET: u32 = 0;
    /// Where the f16 scale is.
    const SCALE: usize;
    /// Where the f16 scale of the minima is, if there are minima.
    const MIN: Option<usize> = None;
    /// See [`Blocks32::FEW`](super::blocks_32::Blocks32::FEW).
    const FEW: usize = 1;

    /// Codes 32 j to 32 j + 31; j is below 8.
    ///
    /// # Safety
    /// The processor has AVX2; `block` points to [`Blocks256::BYTES`] bytes.
    unsafe fn codes(block: *const u8, j: usize) -> __m256i;

    /// The sub-scales.
    ///
    /// # Safety
    /// As [`Blocks256::codes`].
    unsafe fn subs(block: *const u8) -> Subs;

    /// The scales of eight rows.
    ///
    /// # Safety
    /// The processor has AVX2 and F16C; each points to a super-block.
    #[inline(always)]
    unsafe fn scales(block: &[*const u8; 8]) -> __m256 {
        // SAFETY: the caller promises F16C and the super-blocks, which have a scale at `SCALE`.
        unsafe { halves(block, Self::SCALE) }
    }
}

/// What belongs to 16 elements each, as i16: those of elements 32 j to 32 j + 15 in lane j of the lower half,
/// those of elements 32 j + 16 to 32 j + 31 in lane j of the upper half.
pub(in crate::kernels::x86_64) struct Subs {
    pub(super) scales: __m256i,
    pub(super) mins: __m256i,
}

pub(in crate::kernels::x86_64) struct Q2K;
pub(in crate::kernels::x86_64) struct Q3K;
pub(in crate::kernels::x86_64) struct Q4K;
pub(in crate::kernels::x86_64) struct Q5K;
pub(in crate::kernels::x86_64) struct Q6K;
pub(in crate::kernels::x86_64) struct Iq4Xs;
pub(in crate::kernels::x86_64) struct Tq2_0;

impl Blocks256 for Q2K {
    const BYTES: usize = 84;
    const BITS: u32 = 2;
    const SUB: usize = 16;
    const SCALE: usize = 80;
    const MIN: Option<usize> = Some(82);

    #[inline(always)]
    unsafe fn codes(block: *const u8, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, the super-block and j < 8; bytes 16..80 are read.
        unsafe { bits(block.add(16 + j / 4 * 32), 2 * (j % 4) as i32, 3) }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2 and the super-block; its bytes 0..16 are read.
        unsafe {
            let (bytes, low) = (_mm_loadu_si128(block.cast()), _mm_set1_epi8(15));
            let mins = _mm_and_si128(_mm_srli_epi16::<4>(bytes), low);
            Subs { scales: sixteen(_mm_and_si128(bytes, low)), mins: sixteen(mins) }
        }
    }
}

impl Blocks256 for Q3K {
    const BYTES: usize = 110;
    const BITS: u32 = 3;
    const SUB: usize = 16;
    const OFFSET: u32 = 4;
    const SCALE: usize = 108;

    #[inline(always)]
    unsafe fn codes(block: *const u8, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, the super-block and j < 8; bytes 0..32 and 32..96 are read.
        unsafe {
            let low = bits(block.add(32 + j / 4 * 32), 2 * (j % 4) as i32, 3);
            _mm256_or_si256(low, bits(block, j as i32 - 2, 4))
        }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2 and the super-block; its bytes 96..108 are read.
        unsafe {
            let low = _mm_loadl_epi64(block.add(96).cast());
            let low = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16::<4>(low)), _mm_set1_epi8(15));
            let high = _mm_set1_epi32(block.add(104).cast::<i32>().read_unaligned());
            let high = _mm_and_si128(_mm_srlv_epi32(high, _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
            let scales = _mm_or_si128(low, _mm_slli_epi16::<4>(high));
            Subs { scales: sixteen(_mm_sub_epi8(scales, _mm_set1_epi8(32))), mins: _mm256_setzero_si256() }
        }
    }
}

impl Blocks256 for Q4K {
    const BYTES: usize = 144;
    const BITS: u32 = 4;
    const SUB: usize = 32;
    const SCALE: usize = 0;
    const MIN: Option<usize> = Some(2);
    const FEW: usize = 2;

    #[inline(always)]
    unsafe fn codes(block: *const u8, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, the super-block and j < 8; bytes 16..144 are read.
        unsafe { bits(block.add(16 + j / 2 * 32), 4 * (j % 2) as i32, 15) }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2 and the super-block; its bytes 4..16 are read.
        unsafe { six_bits(block.add(4)) }
    }
}

impl Blocks256 for Q5K {
    const BYTES: usize = 176;
    const BITS: u32 = 5;
    const SUB: usize = 32;
    const SCALE: usize = 0;
    const MIN: Option<usize> = Some(2);
    const FEW: usize = 2;

    #[inline(always)]
    unsafe fn codes(block: *const u8, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, the super-block and j < 8; bytes 16..48 and 48..176 are read.
        unsafe {
            let low = bits(block.add(48 + j / 2 * 32), 4 * (j % 2) as i32, 15);
            _mm256_or_si256(low, bits(block.add(16), j as i32 - 4, 16))
        }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2 and the super-block; its bytes 4..16 are read.
        unsafe { six_bits(block.add(4)) }
    }
}

impl Blocks256 for Q6K {
    const BYTES: usize = 210;
    const BITS: u32 = 6;
    const SUB: usize = 16;
    const OFFSET: u32 = 32;
    const SCALE: usize = 208;
    const FEW: usize = 3;

    #[inline(always)]
    unsafe fn codes(block: *const u8, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, the super-block and j < 8; bytes 0..128 and 128..192 are read.
        unsafe {
            let (half, i) = (j / 4, j % 4);
            let low = bits(block.add(half * 64 + i % 2 * 32), 4 * (i / 2) as i32, 15);
            _mm256_or_si256(low, bits(block.add(128 + half * 32), 2 * i as i32 - 4, 0x30))
        }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2 and the super-block; its bytes 192..208 are read.
        unsafe { Subs { scales: sixteen(_mm_loadu_si128(block.add(192).cast())), mins: _mm256_setzero_si256() } }
    }
}

impl Blocks256 for Iq4Xs {
    const BYTES: usize = 136;
    const BITS: u32 = 8;
    const SUB: usize = 32;
    const SCALE: usize = 0;

    #[inline(always)]
    unsafe fn codes(block: *const u8, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, the super-block and j < 8; bytes 8..136 are read.
        unsafe { values(nibbles(block.add(8 + j * 16))) }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2 and the super-block; its bytes 2..8 are read.
        unsafe {
            let low = _mm256_set1_epi32(block.add(4).cast::<i32>().read_unaligned());
            let low = _mm256_srlv_epi32(low, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
            let high = _mm256_set1_epi32(i32::from(block.add(2).cast::<u16>().read_unaligned()) << 4);
            let high = _mm256_srlv_epi32(high, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
            let low = _mm256_and_si256(low, _mm256_set1_epi32(0x0f));
            let scales = _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi32(0x30)));
            let scales = _mm256_sub_epi32(scales, _mm256_set1_epi32(32));
            let eight = _mm_packs_epi32(_mm256_castsi256_si128(scales), _mm256_extracti128_si256::<1>(scales));
            Subs { scales: _mm256_broadcastsi128_si256(eight), mins: _mm256_setzero_si256() }
        }
    }
}

impl Blocks256 for Tq2_0 {
    const BYTES: usize = 66;
    const BITS: u32 = 2;
    const SUB: usize = 32;
    const OFFSET: u32 = 1;
    const SCALE: usize = 64;

    #[inline(always)]
    unsafe fn codes(block: *const u8, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, the super-block and j < 8; bytes 0..64 are read.
        unsafe { bits(block.add(j / 4 * 32), 2 * (j % 4) as i32, 3) }
    }

    #[inline(always)]
    unsafe fn subs(_: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2, and these only make registers.
        unsafe { Subs { scales: _mm256_set1_epi16(1), mins: _mm256_setzero_si256() } }
    }
}

/// Those bits of `mask` of 32 bytes that are there after a shift to the right, or for negative numbers to the left.
///
/// # Safety
/// The processor has AVX2; 32 bytes can be read.
#[inline(always)]
unsafe fn bits(bytes: *const u8, right: i32, mask: i8) -> __m256i {
    // SAFETY: the caller promises AVX2 and 32 bytes to read; no alignment is needed.
    unsafe {
        let bytes = _mm256_loadu_si256(bytes.cast());
        // The shift is a constant where this is used, and the instruction then one with an immediate.
        let shifted = if right < 0 {
            _mm256_sll_epi16(bytes, _mm_cvtsi32_si128(-right))
        } else {
            _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(right))
        };
        _mm256_and_si256(shifted, _mm256_set1_epi8(mask))
    }
}

/// Sixteen i8 in the order of [`Subs`]: even ones, then odd ones.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn sixteen(bytes: __m128i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        _mm256_cvtepi8_epi16(_mm_shuffle_epi8(bytes, order))
    }
}

/// The sub-scales and sub-minima of Q4_K and Q5_K: eight each, the same for both halves of a sub-block.
///
/// # Safety
/// The processor has AVX2; 12 bytes can be read.
#[inline(always)]
unsafe fn six_bits(bytes: *const u8) -> Subs {
    // SAFETY: the caller promises AVX2 and 12 bytes, three words of any alignment.
    unsafe {
        let word = |i: usize| bytes.cast::<u32>().add(i).read_unaligned();
        let (scales, mins, low) = (word(0), word(1), word(2));
        let eight = |first: u32, low: u32| {
            let second = low & 0x0f0f_0f0f | first >> 2 & 0x3030_3030;
            let bytes = u64::from(first & 0x3f3f_3f3f) | u64::from(second) << 32;
            _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(_mm_cvtsi64_si128(bytes as i64)))
        };
        Subs { scales: eight(scales, low), mins: eight(mins, low >> 4) }
    }
}
