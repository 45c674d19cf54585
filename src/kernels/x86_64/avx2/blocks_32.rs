//! The formats with blocks of 32. Their codes become 32 bytes. The layouts are described in `src/quant`.

use core::arch::x86_64::*;

use super::codes::{
    fifth_bits, fifth_bits_of_two, fp4_values, is_set, is_set_in_two, nibbles, nibbles_of_two, pairs_of_bits, values,
};
use crate::quant::mxfp4::LEAST_EXPONENT;

/// A format with blocks of 32, or of `PARTS` times 32, that begin with their scale.
pub(in crate::kernels::x86_64) trait Blocks32 {
    /// Number of bytes of a block.
    const BYTES: usize;
    /// Number of parts of 32 of a block: 1, or an even number.
    const PARTS: usize = 1;
    /// Bytes from the codes of a part to the codes of the next part.
    const PART_BYTES: usize = 0;
    /// Number of bits of a code without sign, or 8 for codes with sign (i8).
    const BITS: u32;
    /// Number that is subtracted from a code without sign.
    const OFFSET: i16 = 0;
    /// Whether an f16 minimum follows the scale.
    const MIN: bool = false;
    /// Number of scales of a part: 1, or 2 of a byte each, which only formats of codes with sign and without minima
    /// have.
    const SCALES: usize = 1;
    /// Whether two blocks at a time are faster than one.
    const TWO: bool = true;
    /// Largest number of rows of activations that are multiplied with codes in registers. With more rows it is faster
    /// to unpack the codes to memory. It is 1 for formats that few files have: each further number takes 4 KB of code.
    const FEW: usize = 1;
    /// Byte offset of the 16 bytes that the codes are made of: the first 16 codes of the lower nibbles, the others of
    /// the upper ones. `None` if codes are made of anything else, and for blocks of several parts.
    const NIBBLES: Option<usize> = None;

    /// Returns the codes for nibbles, in formats whose codes are made of nibbles alone.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[inline(always)]
    unsafe fn of_nibbles(nibbles: __m256i) -> __m256i {
        nibbles
    }

    /// Returns the codes of a part.
    ///
    /// # Safety
    /// The processor has AVX2; `part` is at the offset [`Blocks32::part`] of a part that exists.
    #[inline(always)]
    unsafe fn codes(part: *const u8) -> __m256i {
        let at = const { Self::NIBBLES.expect("other formats say what their codes are") };
        // SAFETY: the caller promises AVX2 and the part, whose 16 bytes at `NIBBLES` are read.
        unsafe { Self::of_nibbles(nibbles(part.add(at))) }
    }

    /// Returns codes 0 to 15 of this part and of the next one, then codes 16 to 31 of both.
    ///
    /// # Safety
    /// As [`Blocks32::codes`], for two parts, of which the first has an even index.
    #[inline(always)]
    unsafe fn two(part: *const u8) -> [__m256i; 2] {
        // SAFETY: the caller promises AVX2 and two blocks, whose 16 bytes at `NIBBLES` are read.
        unsafe {
            let Some(at) = Self::NIBBLES else { return [_mm256_setzero_si256(); 2] };
            let [low, high] = nibbles_of_two(part.add(at), Self::BYTES);
            [Self::of_nibbles(low), Self::of_nibbles(high)]
        }
    }

    /// Returns the scales of eight rows, which begin with these two bytes each. Where a part has two scales, these are
    /// the first ones.
    ///
    /// # Safety
    /// The processor has AVX2 and F16C.
    #[inline(always)]
    unsafe fn scales(bits: __m128i) -> __m256 {
        // SAFETY: the caller promises F16C, and this only computes on registers.
        unsafe { _mm256_cvtph_ps(bits) }
    }

    /// Returns the bytes from the start of a row to part `index`: to its block, plus the distance of its codes from the
    /// codes of the block's first part.
    #[inline(always)]
    fn part(index: usize) -> usize {
        index / Self::PARTS * Self::BYTES + index % Self::PARTS * Self::PART_BYTES
    }

    /// Returns the bytes from the start of a row to the block of part `index`, or to the scales of the part.
    #[inline(always)]
    fn block(index: usize) -> usize {
        index / Self::PARTS * Self::BYTES
    }
}

pub(in crate::kernels::x86_64) struct Q8_0;
pub(in crate::kernels::x86_64) struct Q4_0;
pub(in crate::kernels::x86_64) struct Q4_1;
pub(in crate::kernels::x86_64) struct Q5_0;
pub(in crate::kernels::x86_64) struct Q5_1;
pub(in crate::kernels::x86_64) struct Iq4Nl;
pub(in crate::kernels::x86_64) struct Mxfp4;
pub(in crate::kernels::x86_64) struct Nvfp4;
pub(in crate::kernels::x86_64) struct Q1_0;
pub(in crate::kernels::x86_64) struct Q2_0;

impl Blocks32 for Q8_0 {
    const BYTES: usize = 34;
    const BITS: u32 = 8;
    const TWO: bool = false;
    const FEW: usize = 4;

    #[inline(always)]
    unsafe fn codes(block: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the block; its bytes 2..34 are read.
        unsafe { _mm256_loadu_si256(block.add(2).cast()) }
    }
}

impl Blocks32 for Q4_0 {
    const BYTES: usize = 18;
    const BITS: u32 = 4;
    const OFFSET: i16 = 8;
    const FEW: usize = 4;
    const NIBBLES: Option<usize> = Some(2);
}

impl Blocks32 for Q4_1 {
    const BYTES: usize = 20;
    const BITS: u32 = 4;
    const MIN: bool = true;
    const NIBBLES: Option<usize> = Some(4);
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
    const NIBBLES: Option<usize> = Some(2);

    #[inline(always)]
    unsafe fn of_nibbles(nibbles: __m256i) -> __m256i {
        // SAFETY: the caller promises AVX2, and this only computes on registers.
        unsafe { values(nibbles) }
    }
}

impl Blocks32 for Mxfp4 {
    const BYTES: usize = 17;
    const BITS: u32 = 8;
    const NIBBLES: Option<usize> = Some(1);

    #[inline(always)]
    unsafe fn of_nibbles(nibbles: __m256i) -> __m256i {
        // SAFETY: the caller promises AVX2, and this only computes on registers.
        unsafe { fp4_values(nibbles) }
    }

    /// Returns 2^(e - 128) for the lower byte e of each lane, and 0 for e below [`LEAST_EXPONENT`].
    #[inline(always)]
    unsafe fn scales(bits: __m128i) -> __m256 {
        // SAFETY: the caller promises AVX2, and these only compute on registers.
        unsafe {
            let exponents = _mm256_and_si256(_mm256_cvtepu16_epi32(bits), _mm256_set1_epi32(0xff));
            let powers = _mm256_slli_epi32::<23>(_mm256_sub_epi32(exponents, _mm256_set1_epi32(1)));
            let is_tiny = _mm256_cmpgt_epi32(_mm256_set1_epi32(LEAST_EXPONENT.into()), exponents);
            _mm256_castsi256_ps(_mm256_andnot_si256(is_tiny, powers))
        }
    }
}

impl Blocks32 for Nvfp4 {
    const BYTES: usize = 36;
    const PARTS: usize = 2;
    const PART_BYTES: usize = 16;
    const BITS: u32 = 8;
    const SCALES: usize = 2;
    const TWO: bool = false;

    #[inline(always)]
    unsafe fn codes(part: *const u8) -> __m256i {
        // SAFETY: the caller promises AVX2 and the part, whose 16 bytes of codes are four bytes behind `part`.
        unsafe {
            let (bytes, mask) = (_mm_loadu_si128(part.add(4).cast()), _mm_set1_epi8(15));
            // 8 bytes have 16 codes: first the lower nibbles, then the upper ones.
            let (low, high) = (_mm_and_si128(bytes, mask), _mm_and_si128(_mm_srli_epi16::<4>(bytes), mask));
            fp4_values(_mm256_set_m128i(_mm_unpackhi_epi64(low, high), _mm_unpacklo_epi64(low, high)))
        }
    }

    /// Returns half the E4M3 number in the lower byte of each lane, without its sign. A NaN without sign gives 0.
    #[inline(always)]
    unsafe fn scales(bits: __m128i) -> __m256 {
        // SAFETY: the caller promises AVX2, and these only compute on registers.
        unsafe {
            let bytes = _mm256_and_si256(_mm256_cvtepu16_epi32(bits), _mm256_set1_epi32(0xff));
            let numbers = _mm256_and_si256(bytes, _mm256_set1_epi32(0x7f));
            // (1 + m / 8) * 2^(e - 8), and m * 2^-10 where the exponent is 0.
            let normal = _mm256_add_epi32(_mm256_slli_epi32::<20>(numbers), _mm256_set1_epi32(119 << 23));
            let small = _mm256_mul_ps(_mm256_cvtepi32_ps(numbers), _mm256_set1_ps(f32::from_bits(117 << 23)));
            let is_small = _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(8), numbers));
            let halves = _mm256_blendv_ps(_mm256_castsi256_ps(normal), small, is_small);
            _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(bytes, _mm256_set1_epi32(0x7f))), halves)
        }
    }

    /// Returns the bytes to the scales of part `index`. A block begins with the scales of both parts, two bytes each.
    #[inline(always)]
    fn block(index: usize) -> usize {
        index / Self::PARTS * Self::BYTES + index % Self::PARTS * 2
    }
}

impl Blocks32 for Q1_0 {
    const BYTES: usize = 18;
    const PARTS: usize = 4;
    const PART_BYTES: usize = 4;
    // A code is twice the bit.
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
