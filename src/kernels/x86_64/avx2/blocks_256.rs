//! The formats with super-blocks of 256: their codes, 32 at a time, their sub-scales and their sub-minima. The layouts
//! are described in `src/quant`.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::codes::{nibbles, values};
use super::lanes::{fours, halves};

/// A format with super-blocks of 256.
pub(in crate::kernels::x86_64) trait Blocks256 {
    /// Number of bytes of a super-block.
    const BYTES: usize;
    /// Number of bits of a code without sign, or 8 for codes with sign (i8).
    const BITS: u32;
    /// Number of elements of a sub-block: 16 or 32.
    const SUB: usize;
    /// Number that is subtracted from a code without sign: 0 or a power of two.
    const OFFSET: u32 = 0;
    /// Byte offset of the f16 scale in a super-block.
    const SCALE: usize;
    /// Byte offset of the f16 scale of the minima in a super-block, if the format has minima.
    const MIN: Option<usize> = None;
    /// Whether a super-block begins with its two scales, followed by sub-scales and sub-minima of 6 bits, as in Q4_K.
    const SIX_BITS: bool = false;
    /// See [`Blocks32::FEW`](super::blocks_32::Blocks32::FEW).
    const FEW: usize = 1;
    /// Least number of rows of activations, up to [`Blocks256::FEW`], with which the bytes of eight rows are
    /// transposed. With fewer, each row of weights is multiplied alone, and its products are transposed.
    const TRANSPOSED: usize = usize::MAX;
    /// Number of parts that the codes are made of, at most 8.
    const PARTS: usize;
    /// Whether codes 32 j to 32 j + 31 are made of part `j * PARTS / 8` alone.
    const IN_TURNS: bool = false;
    /// Byte offset of the first part in a super-block. As a rule a part has 32 bytes, and the next one follows it.
    const FIRST: usize;

    /// Returns part `k`, below [`Blocks256::PARTS`].
    ///
    /// # Safety
    /// The processor has AVX2; `block` points to [`Blocks256::BYTES`] bytes.
    #[inline(always)]
    unsafe fn part(block: *const u8, k: usize) -> __m256i {
        // SAFETY: the caller promises AVX2 and the super-block, which has the parts one after the other; no alignment
        // is needed.
        unsafe { _mm256_loadu_si256(block.add(Self::FIRST + 32 * k).cast()) }
    }

    /// Returns codes 32 j to 32 j + 31, made of the parts; j is below 8. Byte i of the codes comes from byte i of the
    /// parts.
    ///
    /// # Safety
    /// The processor has AVX2; [`Parts::part`] may be called for all parts of the format.
    unsafe fn codes_of(parts: impl Parts, j: usize) -> __m256i;

    /// Returns codes 32 j to 32 j + 31; j is below 8.
    ///
    /// # Safety
    /// As [`Blocks256::part`].
    #[inline(always)]
    unsafe fn codes(block: *const u8, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2 and the super-block.
        unsafe { Self::codes_of(InBlock::<Self>(block, PhantomData), j) }
    }

    /// Returns the sub-scales and sub-minima of a row. It is not called if [`Blocks256::SIX_BITS`].
    ///
    /// # Safety
    /// As [`Blocks256::part`].
    #[inline(always)]
    unsafe fn subs(_block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2, and this only makes a register.
        Subs::new(unsafe { _mm_setzero_si128() })
    }

    /// Returns the scales of eight rows, and the scales of their minima if the format has minima.
    ///
    /// # Safety
    /// The processor has AVX2 and F16C; each pointer leads to a super-block.
    #[inline(always)]
    unsafe fn scales(block: &[*const u8; 8]) -> [__m256; 2] {
        // SAFETY: the caller promises the instructions and the super-blocks, which have scales at these places.
        unsafe {
            if Self::SIX_BITS {
                return both_halves(block);
            }
            [halves(block, Self::SCALE), Self::MIN.map_or(_mm256_setzero_ps(), |min| halves(block, min))]
        }
    }
}

/// The parts that the codes are made of.
pub(in crate::kernels::x86_64) trait Parts {
    /// # Safety
    /// The processor has AVX2, and part `k` exists.
    unsafe fn part(&self, k: usize) -> __m256i;
}

/// The parts of a super-block in memory.
struct InBlock<F: ?Sized>(*const u8, PhantomData<F>);

impl<F: Blocks256 + ?Sized> Parts for InBlock<F> {
    #[inline(always)]
    unsafe fn part(&self, k: usize) -> __m256i {
        // SAFETY: the caller promises AVX2 and the part; `codes` made `self` from a super-block that exists.
        unsafe { F::part(self.0, k) }
    }
}

/// Sub-scales and sub-minima of a row as i8, for 16 or 32 elements each, in the order of the elements.
pub(in crate::kernels::x86_64) struct Subs {
    pub(super) scales: __m128i,
    pub(super) mins: __m128i,
}

impl Subs {
    /// Returns sub-scales without sub-minima.
    #[inline(always)]
    pub(super) fn new(scales: __m128i) -> Self {
        // SAFETY: every x86-64 has SSE2, and this only makes a register.
        Self { scales, mins: unsafe { _mm_setzero_si128() } }
    }
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
    const FEW: usize = 3;
    const TRANSPOSED: usize = 1;
    const PARTS: usize = 2;
    const IN_TURNS: bool = true;
    const FIRST: usize = 16;

    #[inline(always)]
    unsafe fn codes_of(parts: impl Parts, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, j < 8 and all parts of the format.
        unsafe { bits(parts.part(j / 4), 2 * (j % 4) as i32, 3) }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2 and the super-block; its bytes 0..16 are read.
        unsafe {
            let (bytes, low) = (_mm_loadu_si128(block.cast()), _mm_set1_epi8(15));
            let mins = _mm_and_si128(_mm_srli_epi16::<4>(bytes), low);
            Subs { scales: _mm_and_si128(bytes, low), mins }
        }
    }
}

impl Blocks256 for Q3K {
    const BYTES: usize = 110;
    const BITS: u32 = 3;
    const SUB: usize = 16;
    const OFFSET: u32 = 4;
    const SCALE: usize = 108;
    const PARTS: usize = 3;
    const FIRST: usize = 0;

    #[inline(always)]
    unsafe fn codes_of(parts: impl Parts, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, j < 8 and all parts of the format.
        unsafe {
            let low = bits(parts.part(1 + j / 4), 2 * (j % 4) as i32, 3);
            _mm256_or_si256(low, bits(parts.part(0), j as i32 - 2, 4))
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
            Subs::new(_mm_sub_epi8(scales, _mm_set1_epi8(32)))
        }
    }
}

impl Blocks256 for Q4K {
    const BYTES: usize = 144;
    const BITS: u32 = 4;
    const SUB: usize = 32;
    const SCALE: usize = 0;
    const MIN: Option<usize> = Some(2);
    const SIX_BITS: bool = true;
    const FEW: usize = 3;
    const TRANSPOSED: usize = 2;
    const PARTS: usize = 4;
    const IN_TURNS: bool = true;
    const FIRST: usize = 16;

    #[inline(always)]
    unsafe fn codes_of(parts: impl Parts, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, j < 8 and all parts of the format.
        unsafe { bits(parts.part(j / 2), 4 * (j % 2) as i32, 15) }
    }
}

impl Blocks256 for Q5K {
    const BYTES: usize = 176;
    const BITS: u32 = 5;
    const SUB: usize = 32;
    const SCALE: usize = 0;
    const MIN: Option<usize> = Some(2);
    const SIX_BITS: bool = true;
    const FEW: usize = 2;
    const TRANSPOSED: usize = 2;
    const PARTS: usize = 5;
    const FIRST: usize = 16;

    #[inline(always)]
    unsafe fn codes_of(parts: impl Parts, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, j < 8 and all parts of the format.
        unsafe {
            let low = bits(parts.part(1 + j / 2), 4 * (j % 2) as i32, 15);
            _mm256_or_si256(low, bits(parts.part(0), j as i32 - 4, 16))
        }
    }
}

impl Blocks256 for Q6K {
    const BYTES: usize = 210;
    const BITS: u32 = 6;
    const SUB: usize = 16;
    const OFFSET: u32 = 32;
    const SCALE: usize = 208;
    const FEW: usize = 3;
    const PARTS: usize = 6;
    const FIRST: usize = 0;

    #[inline(always)]
    unsafe fn codes_of(parts: impl Parts, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, j < 8 and all parts of the format.
        unsafe {
            let (half, i) = (j / 4, j % 4);
            let low = bits(parts.part(2 * half + i % 2), 4 * (i / 2) as i32, 15);
            _mm256_or_si256(low, bits(parts.part(4 + half), 2 * i as i32 - 4, 0x30))
        }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2 and the super-block; its bytes 192..208 are read.
        unsafe { Subs::new(_mm_loadu_si128(block.add(192).cast())) }
    }
}

impl Blocks256 for Iq4Xs {
    const BYTES: usize = 136;
    const BITS: u32 = 8;
    const SUB: usize = 32;
    const SCALE: usize = 0;
    const PARTS: usize = 8;
    const FIRST: usize = 8;

    /// Returns the codes themselves as the part. In the file a part has 16 bytes.
    #[inline(always)]
    unsafe fn part(block: *const u8, k: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, the super-block and k < 8; bytes 8..136 are read.
        unsafe { values(nibbles(block.add(Self::FIRST + k * 16))) }
    }

    #[inline(always)]
    unsafe fn codes_of(parts: impl Parts, j: usize) -> __m256i {
        // SAFETY: the caller promises j < 8 and the parts, of which there are eight.
        unsafe { parts.part(j) }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises AVX2 and the super-block; its bytes 2..8 are read.
        unsafe {
            let low = _mm_cvtsi32_si128(block.add(4).cast::<i32>().read_unaligned());
            let low = _mm_and_si128(_mm_unpacklo_epi8(low, _mm_srli_epi16::<4>(low)), _mm_set1_epi8(15));
            // Bits 2 j and 2 j + 1 become the highest bits of lane j.
            let high = _mm_set1_epi16(block.add(2).cast::<i16>().read_unaligned());
            let powers = _mm_setr_epi16(1 << 14, 1 << 12, 1 << 10, 1 << 8, 1 << 6, 1 << 4, 1 << 2, 1);
            let high = _mm_srli_epi16::<10>(_mm_mullo_epi16(high, powers));
            let high = _mm_and_si128(_mm_packus_epi16(high, high), _mm_set1_epi8(0x30));
            Subs::new(_mm_sub_epi8(_mm_or_si128(low, high), _mm_set1_epi8(32)))
        }
    }
}

impl Blocks256 for Tq2_0 {
    const BYTES: usize = 66;
    const BITS: u32 = 2;
    const SUB: usize = 32;
    const OFFSET: u32 = 1;
    const SCALE: usize = 64;
    const TRANSPOSED: usize = 1;
    const PARTS: usize = 2;
    const IN_TURNS: bool = true;
    const FIRST: usize = 0;

    #[inline(always)]
    unsafe fn codes_of(parts: impl Parts, j: usize) -> __m256i {
        // SAFETY: the caller promises AVX2, j < 8 and all parts of the format.
        unsafe { bits(parts.part(j / 4), 2 * (j % 4) as i32, 3) }
    }

    #[inline(always)]
    unsafe fn subs(_: *const u8) -> Subs {
        // SAFETY: every x86-64 has SSE2, and this only makes a register.
        Subs::new(unsafe { _mm_set1_epi8(1) })
    }
}

/// Shifts 32 bytes to the right, or to the left for negative `right`, and returns their bits in `mask`.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn bits(bytes: __m256i, right: i32, mask: i8) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        // The shift is a constant in the callers, so the instruction has it as an immediate.
        let shifted = if right < 0 {
            _mm256_sll_epi16(bytes, _mm_cvtsi32_si128(-right))
        } else {
            _mm256_srl_epi16(bytes, _mm_cvtsi32_si128(right))
        };
        _mm256_and_si256(shifted, _mm256_set1_epi8(mask))
    }
}

/// Returns the sub-scales and the sub-minima of Q4_K and Q5_K, two registers each. A lane has four of one of eight rows.
///
/// # Safety
/// The processor has AVX2; 16 bytes can be read at each place.
#[inline(always)]
pub(super) unsafe fn six_bits(block: &[*const u8; 8]) -> [[__m256i; 2]; 2] {
    // SAFETY: the caller promises AVX2 and 16 bytes of each row.
    unsafe {
        let [_, scales, mins, low] = fours(&block.map(|block| _mm_loadu_si128(block.cast())));
        let lower = |lanes| _mm256_and_si256(lanes, _mm256_set1_epi8(0x0f));
        let upper = |lanes| _mm256_and_si256(_mm256_srli_epi16::<2>(lanes), _mm256_set1_epi8(0x30));
        let first = |lanes| _mm256_and_si256(lanes, _mm256_set1_epi8(0x3f));
        let second = |lanes, low| _mm256_or_si256(lower(low), upper(lanes));
        [[first(scales), second(scales, low)], [first(mins), second(mins, _mm256_srli_epi16::<4>(low))]]
    }
}

/// Returns the first two f16 numbers of eight rows, as f32.
///
/// # Safety
/// The processor has AVX2 and F16C; 16 bytes can be read at each place.
#[inline(always)]
unsafe fn both_halves(block: &[*const u8; 8]) -> [__m256; 2] {
    // SAFETY: the caller promises the instructions and 16 bytes of each row.
    unsafe {
        let [pairs, ..] = fours(&block.map(|block| _mm_loadu_si128(block.cast())));
        let first = _mm256_and_si256(pairs, _mm256_set1_epi32(0xffff));
        let sorted = _mm256_packus_epi32(first, _mm256_srli_epi32::<16>(pairs));
        let sorted = _mm256_permute4x64_epi64::<0b11_01_10_00>(sorted);
        [_mm256_cvtph_ps(_mm256_castsi256_si128(sorted)), _mm256_cvtph_ps(_mm256_extracti128_si256::<1>(sorted))]
    }
}
