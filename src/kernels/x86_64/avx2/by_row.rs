//! Super-blocks that are unpacked row by row, to [`Plain`]: the formats with a codebook, and TQ1_0. The same code
//! multiplies all of them.

use core::arch::x86_64::*;

use super::blocks_256::{Blocks256, Parts, Subs};
use super::codes::is_set_of;
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

/// # Safety
/// 32 bytes are readable at the address.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn load(from: *const u8) -> __m256i {
    // SAFETY: the caller promises 32 bytes; no alignment is needed.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// Returns the f16 number at an address, as f32.
///
/// # Safety
/// Two bytes are readable there.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn half(from: *const u8) -> f32 {
    // SAFETY: the caller promises two bytes.
    let bits = unsafe { from.cast::<u16>().read_unaligned() };
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into())))
}

/// Returns odd sub-scales from the nibbles of 8 bytes. The lower nibble comes first.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn odd_from_nibbles(bytes: __m128i) -> __m128i {
    let both = _mm_unpacklo_epi8(bytes, _mm_srli_epi16::<4>(bytes));
    odd(_mm_and_si128(both, _mm_set1_epi8(15)))
}

/// Returns twice each byte plus 1.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn odd(bytes: __m128i) -> __m128i {
    _mm_add_epi8(_mm_add_epi8(bytes, bytes), _mm_set1_epi8(1))
}

/// Returns the lowest byte of each of eight dwords, twice.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn bytes_twice(dwords: __m256i) -> __m128i {
    let lowest = _mm256_shuffle_epi8(dwords, _mm256_set1_epi64x(0x0c0c_0808_0404_0000));
    _mm_unpacklo_epi64(_mm256_castsi256_si128(lowest), _mm256_extracti128_si256::<1>(lowest))
}

/// Returns the lower dwords of eight numbers of 64 bits, in order.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn in_order([low, high]: [__m256i; 2]) -> __m256i {
    let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
    let dwords = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
    _mm256_permute4x64_epi64::<0b11_01_10_00>(dwords)
}

/// Returns 32 words below 256 as bytes, in order.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn packed(low: __m256i, high: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(low, high))
}

/// Returns eight words four times each. The four copies of a word are multiplied by `factors`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn four_times(words: __m128i, [a, b, c, d]: [i16; 4]) -> [__m256i; 2] {
    let words = _mm256_broadcastsi128_si256(words);
    let word = |i: i64| 0x0100_0100_0100_0100 + 2 * i * 0x0101_0101_0101_0101;
    let first = _mm256_setr_epi64x(word(0), word(1), word(2), word(3));
    let second = _mm256_setr_epi64x(word(4), word(5), word(6), word(7));
    let factors = _mm256_setr_epi16(a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d);
    [first, second].map(|order| _mm256_mullo_epi16(_mm256_shuffle_epi8(words, order), factors))
}

/// Returns 32 bytes as words, with the bits of `high` that are in `mask`.
///
/// # Safety
/// 32 bytes are readable at `low`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn with_low_bytes(low: *const u8, [first, second]: [__m256i; 2], mask: i16) -> [__m256i; 2] {
    // SAFETY: the caller promises 32 bytes; no alignment is needed.
    let low = unsafe { [_mm_loadu_si128(low.cast()), _mm_loadu_si128(low.add(16).cast())] };
    let [low, high] = low.map(|low| _mm256_cvtepu8_epi16(low));
    let bits = _mm256_set1_epi16(mask);
    [_mm256_or_si256(low, _mm256_and_si256(first, bits)), _mm256_or_si256(high, _mm256_and_si256(second, bits))]
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn put_dwords(to: &mut [u32; 8], dwords: __m256i) {
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), dwords) };
}

/// Returns bits 0 to 6, 7 to 13, 14 to 20 and 21 to 27 of two dwords of each lane of 128 bits, each in a word. The dwords
/// begin at bytes `FIRST` and `SECOND` of the lane.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn sevens<const FIRST: i64, const SECOND: i64>(dwords: __m256i) -> __m256i {
    // The four words have bytes 0 and 1, 0 and 1, 1 and 2, 2 and 3 of a dword.
    let bytes = |at: i64| 0x0302_0201_0100_0100 + at * 0x0101_0101_0101_0101;
    let bytes = _mm256_setr_epi64x(bytes(FIRST), bytes(SECOND), bytes(FIRST), bytes(SECOND));
    // The 7 bits come to the top of a word.
    let top = _mm256_mullo_epi16(_mm256_shuffle_epi8(dwords, bytes), _mm256_set1_epi64x(0x0010_0008_0004_0200));
    _mm256_srli_epi16::<9>(top)
}

/// Returns the signs of 8 codes each from 7 bits in the bytes. The eighth sign makes the number of signs even.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn even_signs(sevens: __m256i) -> __m256i {
    // The table says which numbers below 16 have an odd number of bits.
    let odd = _mm_set_epi64x(0x0080_8000_8000_0080, 0x8000_0080_0080_8000_u64 as i64);
    let folded = _mm256_xor_si256(sevens, _mm256_srli_epi16::<4>(sevens));
    let folded = _mm256_and_si256(folded, _mm256_set1_epi8(15));
    _mm256_or_si256(sevens, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(odd), folded))
}

/// Returns each of four bytes eight times.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn eight_times(bytes: &u32) -> __m256i {
    let order = _mm256_setr_epi64x(0, ONES, 2 * ONES, 3 * ONES);
    _mm256_shuffle_epi8(_mm256_set1_epi32(bytes.cast_signed()), order)
}

/// In word i, bit i.
const ONE_EACH: [i64; 4] =
    [0x0008_0004_0002_0001, 0x0080_0040_0020_0010, 0x0800_0400_0200_0100, 0x8000_4000_2000_1000_u64 as i64];
/// 1 in each byte.
const ONES: i64 = 0x0101_0101_0101_0101;

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn put(to: &mut [u8; 32], codes: __m256i) {
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), codes) };
}

/// Returns codes with these magnitudes. A code is negative where its bit in `signs` is set.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn signed(magnitudes: __m256i, signs: &u32) -> __m256i {
    // SAFETY: this function has the feature.
    let negative = unsafe { is_set_of(*signs) };
    let magnitudes = _mm256_xor_si256(magnitudes, negative);
    _mm256_add_epi8(_mm256_sub_epi8(magnitudes, negative), _mm256_set1_epi8(64))
}

/// Returns values plus 1, or minus 1 where the bits of `less` are set.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn shifted(values: __m256i, less: __m256i) -> __m256i {
    _mm256_add_epi8(values, _mm256_or_si256(less, _mm256_set1_epi8(1)))
}

/// Returns the values of four entries. An entry has 8 numbers of 2 bits each, none of which is 3.
///
/// # Safety
/// The indices are below `N`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn eights<const N: usize>(book: &[u16; N], [a, b, c, d]: &[u16; 4], [zero, one, two]: [i8; 3]) -> __m256i {
    // SAFETY: the caller promises that the book has these entries. A check would keep the indices in a vector register.
    let entry = |index: &u16| unsafe { i32::from(*book.get_unchecked(usize::from(*index))) };
    let mut entries = _mm_cvtsi32_si128(entry(a));
    entries = _mm_insert_epi16::<1>(entries, entry(b));
    entries = _mm_insert_epi16::<2>(entries, entry(c));
    entries = _mm_insert_epi16::<3>(entries, entry(d));
    // Repeats each byte four times.
    let bytes =
        _mm256_set_epi64x(0x0707_0707_0606_0606, 0x0505_0505_0404_0404, 0x0303_0303_0202_0202, 0x0101_0101_0000_0000);
    let four = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(entries), bytes);
    let shifted = _mm256_blend_epi16::<0xaa>(four, _mm256_srli_epi16::<4>(four));
    // In every second byte the number stays shifted by 2 bits, so the table has the values at four times the number,
    // too.
    let values = _mm_setr_epi8(zero, one, two, 0, one, 0, 0, 0, two, 0, 0, 0, 0, 0, 0, 0);
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), _mm256_and_si256(shifted, _mm256_set1_epi16(0x0c03)))
}

/// Returns four entries of eight values each.
///
/// # Safety
/// The indices are below `N`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn four_entries<const N: usize, I: Copy + Into<usize>>(book: &[u64; N], [a, b, c, d]: &[I; 4]) -> __m256i {
    // SAFETY: the caller promises that the book has these entries. A check would keep the indices in a vector register.
    let entry = |index: &I| unsafe { book.get_unchecked((*index).into()).cast_signed() };
    _mm256_setr_epi64x(entry(a), entry(b), entry(c), entry(d))
}

/// Returns entries of 8 numbers of 2 bits each as values of IQ2: 8, 25 or 43 for 0, 1 or 2.
// It runs when the library is compiled, which an index out of bounds would stop.
#[allow(clippy::indexing_slicing)]
const fn in_bytes<const N: usize>(book: &[u16; N]) -> [u64; N] {
    let mut entries = [0; N];
    let mut i = 0;
    while i < N {
        let mut j = 0;
        while j < 8 {
            let value = [8, 25, 43, 0][(book[i] >> (2 * j) & 3) as usize];
            entries[i] |= value << (8 * j);
            j += 1;
        }
        i += 1;
    }
    entries
}

/// Returns eight entries of four values each.
///
/// # Safety
/// The indices are below `N`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
unsafe fn fours<const N: usize, I: Copy + Into<usize>>(book: &[u32; N], [a, b, c, d, e, f, g, h]: &[I; 8]) -> __m256i {
    // Single loads: an emulator of the cross runs gets a gather wrong, and processors are hardly faster with it.
    // SAFETY: the caller promises that the book has these entries. A check would keep the indices in a vector register.
    let entry = |index: &I| unsafe { book.get_unchecked((*index).into()).cast_signed() };
    _mm256_setr_epi32(entry(a), entry(b), entry(c), entry(d), entry(e), entry(f), entry(g), entry(h))
}

/// Returns bytes of TQ1_0 less 128.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn signed_bytes(bytes: __m256i) -> __m256i {
    _mm256_xor_si256(bytes, _mm256_set1_epi8(i8::MIN))
}

/// Returns three times each byte, by which the next digit of a byte becomes the first one. 3 (b - 128) and 3 b - 128 have
/// the same lowest 8 bits.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn three_times(signed_bytes: __m256i) -> __m256i {
    _mm256_add_epi8(signed_bytes, _mm256_add_epi8(signed_bytes, signed_bytes))
}

/// Returns the codes of the first digits: digit - 1.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn first_digits(signed_bytes: __m256i) -> __m256i {
    // The digit is 3 b / 256, rounded down: 1 from b = 86 on, and 2 from b = 171 on. A comparison gives -1 where it is
    // true.
    let at_least = |number: u8| _mm256_cmpgt_epi8(signed_bytes, _mm256_set1_epi8((number ^ 0x80).cast_signed() - 1));
    _mm256_sub_epi8(_mm256_set1_epi8(64 - 1), _mm256_add_epi8(at_least(86), at_least(171)))
}
