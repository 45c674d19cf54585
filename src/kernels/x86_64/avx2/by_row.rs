//! Super-blocks that are unpacked row by row, to [`Plain`]: the formats with a codebook, and TQ1_0. The same code
//! multiplies all of them.

use core::arch::x86_64::*;

use super::blocks_256::{Blocks256, Parts, Subs};
use super::codebook::{
    ONE_EACH, bytes_twice, eight_times, eights, even_signs, first_digits, four_entries, four_times, fours, half,
    in_bytes, in_order, load, odd, odd_from_nibbles, packed, put, put_dwords, sevens, shifted, signed, signed_bytes,
    three_times, with_low_bytes,
};
use crate::quant::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};

/// A format that is unpacked row by row, in two steps. A codebook is read where indices say that were computed before. So
/// that nobody waits for these, the first step is done for eight rows, and then the second one.
pub(in crate::kernels::x86_64) trait ByRow {
    /// Number of bytes of a super-block.
    const BYTES: usize;

    /// Unpacks the scale and the sub-scales of a super-block to `plain`, and what its codes are made of to `found`.
    ///
    /// # Safety
    /// The processor has AVX2 and F16C; [`Self::BYTES`] bytes are readable at `block`.
    unsafe fn find(block: *const u8, plain: &mut Plain, found: &mut Found);

    /// Unpacks the codes of a super-block.
    ///
    /// # Safety
    /// As [`ByRow::find`], which gave `found` for this block.
    unsafe fn unpack(block: *const u8, plain: &mut Plain, found: &Found);
}

/// [`eight`] of some format.
pub(super) type EightOf = unsafe fn(&[*const u8; 8], &mut [Plain; 8], &mut [Found; 8]);

/// What the codes of a super-block are made of.
#[repr(C, align(32))]
pub(in crate::kernels::x86_64) struct Found {
    /// Indices of entries with 8 values, one word each; with 4 values, in twice as many words.
    indices: [[u16; 8]; 8],
    /// Bit i is set where code i is negative; in IQ1_S and IQ1_M, bytes or words whose bits are all set where an eighth
    /// is subtracted.
    signs: [u32; 8],
}

/// An unpacked super-block of a row.
#[repr(C, align(32))]
pub(in crate::kernels::x86_64) struct Plain {
    /// Codes, at most 62 in magnitude, plus 64.
    codes: [[u8; 32]; 8],
    sub_scales: [i8; 16],
    scale: f32,
}

/// A format that is unpacked row by row, and memory for a super-block of eight rows.
pub(super) struct Unpacking {
    eight: EightOf,
    /// Number of bytes of a super-block of the format.
    pub(super) bytes: usize,
    plain: [Plain; 8],
    found: [Found; 8],
}

impl Unpacking {
    #[inline(always)]
    pub(super) fn new(eight: EightOf, bytes: usize) -> Self {
        Self {
            eight,
            bytes,
            plain: [const { Plain { codes: [[0; 32]; 8], sub_scales: [0; 16], scale: 0.0 } }; 8],
            found: [const { Found { indices: [[0; 8]; 8], signs: [0; 8] } }; 8],
        }
    }

    /// Unpacks a super-block of eight rows, and returns the addresses of the unpacked rows.
    ///
    /// # Safety
    /// As for [`ByRow::find`], for the block of each row.
    #[inline(always)]
    pub(super) unsafe fn unpack(&mut self, block: [*const u8; 8]) -> [*const u8; 8] {
        // SAFETY: the caller promises the block of each row, and the instructions.
        unsafe { (self.eight)(&block, &mut self.plain, &mut self.found) };
        self.plain.each_ref().map(|plain| core::ptr::from_ref(plain).cast())
    }
}

/// Unpacks a super-block of eight rows.
///
/// # Safety
/// As for [`ByRow::find`], for each block.
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn eight<F: ByRow>(blocks: &[*const u8; 8], plain: &mut [Plain; 8], found: &mut [Found; 8]) {
    for ((&block, plain), found) in blocks.iter().zip(&mut *plain).zip(&mut *found) {
        // SAFETY: the caller promises the block and the instructions.
        unsafe { F::find(block, plain, found) };
    }
    for ((&block, plain), found) in blocks.iter().zip(plain).zip(found) {
        // SAFETY: the caller promises the block and the instructions, and `find` gave `found`.
        unsafe { F::unpack(block, plain, found) };
    }
}

impl Blocks256 for Plain {
    const BYTES: usize = size_of::<Self>();
    const BITS: u32 = 7;
    const SUB: usize = 16;
    const OFFSET: u32 = 64;
    const SCALE: usize = 0;
    const FEW: usize = 2;
    const PARTS: usize = 8;
    const FIRST: usize = 0;

    #[inline(always)]
    unsafe fn codes_of(parts: impl Parts, j: usize) -> __m256i {
        // SAFETY: the caller promises j < 8 and the parts, of which there are eight.
        unsafe { parts.part(j) }
    }

    #[inline(always)]
    unsafe fn subs(block: *const u8) -> Subs {
        // SAFETY: the caller promises the super-block, which has 16 bytes of sub-scales behind its codes.
        unsafe { Subs::new(_mm_loadu_si128(block.add(256).cast())) }
    }

    #[inline(always)]
    unsafe fn scales(block: &[*const u8; 8]) -> [__m256; 2] {
        // SAFETY: the caller promises AVX2 and the super-blocks, which have a scale behind their sub-scales.
        unsafe {
            let scales = block.map(|block| block.add(272).cast::<f32>().read());
            [_mm256_loadu_ps(scales.as_ptr()), _mm256_setzero_ps()]
        }
    }
}

pub(in crate::kernels::x86_64) struct Iq1S;
pub(in crate::kernels::x86_64) struct Iq1M;
pub(in crate::kernels::x86_64) struct Iq2Xxs;
pub(in crate::kernels::x86_64) struct Iq2Xs;
pub(in crate::kernels::x86_64) struct Iq2S;
pub(in crate::kernels::x86_64) struct Iq3Xxs;
pub(in crate::kernels::x86_64) struct Iq3S;
pub(in crate::kernels::x86_64) struct Tq1_0;

/// The codebooks of IQ2, a byte for each value. To make them of 2 bits each time takes twice as long.
static IQ2_XXS_BYTES: [u64; 256] = in_bytes(&IQ2_XXS);
static IQ2_XS_BYTES: [u64; 512] = in_bytes(&IQ2_XS);
static IQ2_S_BYTES: [u64; 1024] = in_bytes(&IQ2_S);
/// Codes for the numbers 0, 1 and 2 in entries of IQ1: 8 times -1, 0 and 1, before an eighth is added or subtracted.
const IQ1_VALUES: [i8; 3] = [64 - 8, 64, 64 + 8];

impl ByRow for Iq2Xxs {
    const BYTES: usize = 66;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn find(block: *const u8, plain: &mut Plain, found: &mut Found) {
        // SAFETY: the caller promises the block: a scale, then 8 bytes for each of eight sub-blocks, four of which are
        // indices. The others have signs and the sub-scale.
        unsafe {
            plain.scale = 0.125 * half(block);
            let subs = [load(block.add(2)), load(block.add(34))];
            plain.put_subs(odd(bytes_twice(in_order(subs.map(|subs| _mm256_srli_epi64::<60>(subs))))));
            let [low, high] = subs.map(|subs| sevens::<4, 12>(subs));
            put_dwords(&mut found.signs, even_signs(packed(low, high)));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain, found: &Found) {
        for (j, (codes, signs)) in plain.codes.iter_mut().zip(&found.signs).enumerate() {
            // SAFETY: the caller promises the block, and a byte is below the number of entries.
            let values = unsafe { four_entries(&IQ2_XXS_BYTES, &*block.add(2 + 8 * j).cast::<[u8; 4]>()) };
            put(codes, signed(values, signs));
        }
    }
}

impl ByRow for Iq2Xs {
    const BYTES: usize = 74;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn find(block: *const u8, plain: &mut Plain, found: &mut Found) {
        // SAFETY: the caller promises the block: a scale, 64 bytes of words for 8 codes each, 8 bytes of sub-scales.
        unsafe {
            plain.scale = 0.125 * half(block);
            plain.put_subs(odd_from_nibbles(_mm_loadl_epi64(block.add(66).cast())));
            let words = [load(block.add(2)), load(block.add(34))];
            let [low, high] = words.map(|words| _mm256_srli_epi16::<9>(words));
            put_dwords(&mut found.signs, even_signs(packed(low, high)));
            found.put_indices(words.map(|words| _mm256_and_si256(words, _mm256_set1_epi16(0x1ff))));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(_: *const u8, plain: &mut Plain, found: &Found) {
        for ((codes, indices), signs) in plain.codes.iter_mut().zip(found.fours()).zip(&found.signs) {
            // SAFETY: `find` gave indices below the number of entries.
            let values = unsafe { four_entries(&IQ2_XS_BYTES, indices) };
            put(codes, signed(values, signs));
        }
    }
}

impl ByRow for Iq2S {
    const BYTES: usize = 82;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn find(block: *const u8, plain: &mut Plain, found: &mut Found) {
        // SAFETY: the caller promises the block: a scale, 32 bytes of indices, 32 of signs, 8 of the upper bits of
        // indices and 8 of sub-scales.
        unsafe {
            plain.scale = 0.125 * half(block);
            plain.put_subs(odd_from_nibbles(_mm_loadl_epi64(block.add(74).cast())));
            // Bits 2 i and 2 i + 1 of a byte belong to index i of its four.
            let high = _mm_cvtepu8_epi16(_mm_loadl_epi64(block.add(66).cast()));
            let high = four_times(high, [1 << 8, 1 << 6, 1 << 4, 1 << 2]);
            found.put_indices(with_low_bytes(block.add(2), high, 0x300));
            put_dwords(&mut found.signs, load(block.add(34)));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(_: *const u8, plain: &mut Plain, found: &Found) {
        for ((codes, indices), signs) in plain.codes.iter_mut().zip(found.fours()).zip(&found.signs) {
            // SAFETY: `find` gave indices below the number of entries.
            let values = unsafe { four_entries(&IQ2_S_BYTES, indices) };
            put(codes, signed(values, signs));
        }
    }
}

impl ByRow for Iq3Xxs {
    const BYTES: usize = 98;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn find(block: *const u8, plain: &mut Plain, found: &mut Found) {
        // SAFETY: the caller promises the block: a scale, 64 bytes of indices, 32 bytes of signs and sub-scales.
        unsafe {
            plain.scale = 0.25 * half(block);
            let subs = load(block.add(66));
            plain.put_subs(odd(bytes_twice(_mm256_srli_epi32::<28>(subs))));
            // Both halves of the result have the sub-blocks of one lane, so they are in order.
            put_dwords(&mut found.signs, even_signs(_mm256_packus_epi16(sevens::<0, 4>(subs), sevens::<8, 12>(subs))));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain, found: &Found) {
        for (j, (codes, signs)) in plain.codes.iter_mut().zip(&found.signs).enumerate() {
            // SAFETY: the caller promises the block, and a byte is below the number of entries.
            let values = unsafe { fours(&IQ3_XXS, &*block.add(2 + 8 * j).cast::<[u8; 8]>()) };
            put(codes, signed(values, signs));
        }
    }
}

impl ByRow for Iq3S {
    const BYTES: usize = 110;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn find(block: *const u8, plain: &mut Plain, found: &mut Found) {
        // SAFETY: the caller promises the block: a scale, 64 bytes of indices, 8 of their upper bits, 32 of signs, 4 of
        // sub-scales.
        unsafe {
            plain.scale = half(block);
            // A sub-scale belongs to 32 codes.
            let subs = odd_from_nibbles(_mm_cvtsi32_si128(block.add(106).cast::<i32>().read_unaligned()));
            plain.put_subs(_mm_unpacklo_epi8(subs, subs));
            put_dwords(&mut found.signs, load(block.add(74)));
            for (j, indices) in found.indices.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                // Bit i of a byte is the upper bit of index i of its eight.
                let high = _mm256_set1_epi16(block.add(66 + 2 * j).cast::<i16>().read_unaligned());
                let high =
                    _mm256_and_si256(high, _mm256_setr_epi64x(ONE_EACH[0], ONE_EACH[1], ONE_EACH[2], ONE_EACH[3]));
                let high = _mm256_cmpeq_epi16(high, _mm256_setzero_si256());
                let low = _mm256_cvtepu8_epi16(_mm_loadu_si128(block.add(2 + 16 * j).cast()));
                let words = _mm256_or_si256(low, _mm256_andnot_si256(high, _mm256_set1_epi16(0x100)));
                _mm256_storeu_si256(indices.as_mut_ptr().cast(), words);
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(_: *const u8, plain: &mut Plain, found: &Found) {
        for ((codes, indices), signs) in plain.codes.iter_mut().zip(&found.indices).zip(&found.signs) {
            // SAFETY: `find` gave indices below the number of entries.
            put(codes, signed(unsafe { fours(&IQ3_S, indices) }, signs));
        }
    }
}

impl ByRow for Iq1S {
    const BYTES: usize = 50;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn find(block: *const u8, plain: &mut Plain, found: &mut Found) {
        // SAFETY: the caller promises the block: a scale, 32 bytes of indices, 8 words of their upper bits, sub-scales
        // and signs.
        unsafe {
            plain.scale = 0.125 * half(block);
            let words = _mm_loadu_si128(block.add(34).cast());
            let subs = _mm_and_si128(_mm_srli_epi16::<12>(words), _mm_set1_epi16(7));
            let subs = odd(_mm_packus_epi16(subs, subs));
            plain.put_subs(_mm_unpacklo_epi8(subs, subs));
            // Bits 3 i to 3 i + 2 of a word belong to index i of its four.
            let high = four_times(words, [1 << 13, 1 << 10, 1 << 7, 1 << 4]).map(|high| _mm256_srli_epi16::<5>(high));
            found.put_indices(with_low_bytes(block.add(2), high, 0x700));
            put_dwords(&mut found.signs, _mm256_cvtepi16_epi32(_mm_srai_epi16::<15>(words)));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(_: *const u8, plain: &mut Plain, found: &Found) {
        for ((codes, indices), signs) in plain.codes.iter_mut().zip(found.fours()).zip(&found.signs) {
            // SAFETY: `find` gave indices below the number of entries.
            let values = unsafe { eights(&IQ1, indices, IQ1_VALUES) };
            put(codes, shifted(values, _mm256_set1_epi32(signs.cast_signed())));
        }
    }
}

impl ByRow for Iq1M {
    const BYTES: usize = 56;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn find(block: *const u8, plain: &mut Plain, found: &mut Found) {
        // SAFETY: the caller promises the block: 32 bytes of indices, 16 of nibbles with their upper bits, 8 of
        // sub-scales and the nibbles of the scale.
        unsafe {
            let subs = block.add(48).cast::<u64>().read_unaligned();
            let scale = subs >> 12 & 0xf | subs >> 24 & 0xf0 | subs >> 36 & 0xf00 | subs >> 48 & 0xf000;
            plain.scale = 0.125 * half((scale as u16).to_le_bytes().as_ptr());
            // Sub-scales have three bits each, four of them in a word.
            let [subs, _] = four_times(_mm_cvtsi64_si128(subs as i64), [1 << 13, 1 << 10, 1 << 7, 1 << 4]);
            let subs = _mm256_srli_epi16::<13>(subs);
            plain.put_subs(odd(_mm_packus_epi16(_mm256_castsi256_si128(subs), _mm256_extracti128_si256::<1>(subs))));
            // The nibbles come to the top of the words.
            let nibbles = four_times(_mm_loadu_si128(block.add(32).cast()), [1 << 12, 1 << 8, 1 << 4, 1]);
            found.put_indices(with_low_bytes(block, nibbles.map(|nibbles| _mm256_srli_epi16::<4>(nibbles)), 0x700));
            let [low, high] = nibbles.map(|nibbles| _mm256_srai_epi16::<15>(nibbles));
            put_dwords(&mut found.signs, _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi16(low, high)));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(_: *const u8, plain: &mut Plain, found: &Found) {
        for ((codes, indices), signs) in plain.codes.iter_mut().zip(found.fours()).zip(&found.signs) {
            // SAFETY: `find` gave indices below the number of entries.
            let values = unsafe { eights(&IQ1, indices, IQ1_VALUES) };
            put(codes, shifted(values, eight_times(signs)));
        }
    }
}

impl ByRow for Tq1_0 {
    const BYTES: usize = 54;

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn find(_: *const u8, _: &mut Plain, _: &mut Found) {}

    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain, _: &Found) {
        // SAFETY: the caller promises the block: 32, 16 and 4 bytes of digits, then the scale.
        unsafe {
            let [a, b, c, d, e, f, g, h] = &mut plain.codes;
            let mut bytes = signed_bytes(load(block));
            put(a, first_digits(bytes));
            for codes in [b, c, d, e] {
                bytes = three_times(bytes);
                put(codes, first_digits(bytes));
            }
            // The upper half is a digit further than the lower one.
            let bytes = signed_bytes(_mm256_broadcastsi128_si256(_mm_loadu_si128(block.add(32).cast())));
            let two = _mm256_blend_epi32::<0xf0>(bytes, three_times(bytes));
            let four = three_times(three_times(two));
            put(f, first_digits(two));
            put(g, first_digits(four));
            let fifth = three_times(three_times(four));
            // Each dword is a digit further than the one before.
            let bytes = signed_bytes(_mm256_set1_epi32(block.add(48).cast::<i32>().read_unaligned()));
            let two = _mm256_blend_epi32::<0xaa>(bytes, three_times(bytes));
            let four = _mm256_blend_epi32::<0xcc>(two, three_times(three_times(two)));
            put(h, first_digits(_mm256_blend_epi32::<0xf0>(fifth, four)));
            plain.sub_scales = [1; 16];
            plain.scale = half(block.add(52));
        }
    }
}

impl Plain {
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn put_subs(&mut self, subs: __m128i) {
        // SAFETY: the array has the 16 bytes that are written.
        unsafe { _mm_storeu_si128(self.sub_scales.as_mut_ptr().cast(), subs) };
    }
}

impl Found {
    /// Sets 32 indices.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    fn put_indices(&mut self, [low, high]: [__m256i; 2]) {
        let indices = self.indices.as_mut_ptr().cast::<__m256i>();
        // SAFETY: the array has the 64 bytes that are written.
        unsafe {
            _mm256_storeu_si256(indices, low);
            _mm256_storeu_si256(indices.add(1), high);
        }
    }

    /// Returns the indices of [`Found::put_indices`], four at a time.
    #[inline(always)]
    fn fours(&self) -> &[[u16; 4]] {
        bytemuck::must_cast_ref::<_, [[u16; 4]; 16]>(&self.indices)
    }
}
