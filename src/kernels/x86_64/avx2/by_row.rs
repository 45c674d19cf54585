//! Super-blocks that are unpacked row by row, to [`Plain`]: the formats with a codebook, and TQ1_0. The same code
//! multiplies all of them.

use core::arch::x86_64::*;

use super::blocks_256::{Blocks256, Parts, Subs};
use super::codes::is_set_of;
use crate::quant::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, eight_even_signs, sevens};

/// A format that is unpacked row by row.
pub(in crate::kernels::x86_64) trait ByRow {
    /// Number of bytes of a super-block.
    const BYTES: usize;

    /// Unpacks a super-block.
    ///
    /// # Safety
    /// The processor has AVX2 and F16C; [`Self::BYTES`] bytes are readable at `block`.
    unsafe fn unpack(block: *const u8, plain: &mut Plain);
}

/// [`ByRow::unpack`] of some format.
pub(super) type Unpack = unsafe fn(*const u8, &mut Plain);

/// An unpacked super-block of a row.
#[repr(C, align(32))]
pub(in crate::kernels::x86_64) struct Plain {
    /// Codes with their signs.
    codes: [[i8; 32]; 8],
    sub_scales: [i8; 16],
    scale: f32,
}

/// One unpacked super-block of each of eight rows.
pub(super) struct Eight([Plain; 8]);

impl Eight {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Self([const { Plain { codes: [[0; 32]; 8], sub_scales: [0; 16], scale: 0.0 } }; 8])
    }

    /// Unpacks a super-block of eight rows, and returns the addresses of the unpacked rows. Calls `fetch` before each
    /// row.
    ///
    /// # Safety
    /// As for [`ByRow::unpack`], for the block of each row.
    #[inline(always)]
    pub(super) unsafe fn unpack(
        &mut self,
        unpack: Unpack,
        block: [*const u8; 8],
        mut fetch: impl FnMut(),
    ) -> [*const u8; 8] {
        for (block, plain) in block.into_iter().zip(&mut self.0) {
            fetch();
            // SAFETY: the caller promises the block of each row, and the instructions.
            unsafe { unpack(block, plain) };
        }
        self.0.each_ref().map(|plain| core::ptr::from_ref(plain).cast())
    }
}

impl Blocks256 for Plain {
    const BYTES: usize = size_of::<Self>();
    const BITS: u32 = 8;
    const SUB: usize = 16;
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

/// Magnitudes for the numbers 0, 1 and 2 in entries of IQ2.
const IQ2: [i8; 3] = [8, 25, 43];
/// Values for the numbers 0, 1 and 2 in entries of IQ1, times 8, before an eighth is added or subtracted.
const IQ1_VALUES: [i8; 3] = [-8, 0, 8];

impl ByRow for Iq2Xxs {
    const BYTES: usize = 66;

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain) {
        // SAFETY: the caller promises the block: a scale, then 8 bytes for each sub-block.
        unsafe {
            plain.scale = 0.125 * half(block);
            for (j, codes) in plain.codes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let [first, second] = [0, 8].map(|at| block.add(2 + 16 * j + at).cast::<u64>().read_unaligned());
                let signs = eight_even_signs(sevens(first >> 32 | second >> 32 << 32));
                for (codes, (sub, signs)) in codes.iter_mut().zip([(first, signs), (second, signs >> 32)]) {
                    let indices = [0, 8, 16, 24].map(|shift| (sub >> shift) as u16 & 0xff);
                    put_signed(codes, eights(&IQ2_XXS, indices, IQ2), signs as u32);
                }
                put_odd(&mut plain.sub_scales, 2 * j, first >> 60);
                put_odd(&mut plain.sub_scales, 2 * j + 1, second >> 60);
            }
        }
    }
}

impl ByRow for Iq2Xs {
    const BYTES: usize = 74;

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain) {
        // SAFETY: the caller promises the block: a scale, 64 bytes of words for 8 codes each, 8 bytes of sub-scales.
        unsafe {
            plain.scale = 0.125 * half(block);
            for (j, codes) in plain.codes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let words = _mm_loadu_si128(block.add(2 + 16 * j).cast());
                let sevens = _mm_packus_epi16(_mm_srli_epi16::<9>(words), _mm_setzero_si128());
                let signs = eight_even_signs(_mm_cvtsi128_si64(sevens) as u64);
                let words = [_mm_cvtsi128_si64(words), _mm_extract_epi64::<1>(words)].map(|words| words as u64);
                for (codes, (words, signs)) in codes.iter_mut().zip(words.into_iter().zip([signs, signs >> 32])) {
                    let indices = [0, 16, 32, 48].map(|shift| (words >> shift) as u16 & 0x1ff);
                    put_signed(codes, eights(&IQ2_XS, indices, IQ2), signs as u32);
                }
            }
            plain.put_subs(odd_from_nibbles(_mm_loadl_epi64(block.add(66).cast())));
        }
    }
}

impl ByRow for Iq2S {
    const BYTES: usize = 82;

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain) {
        // SAFETY: the caller promises the block: a scale, 32 bytes of indices, 32 of signs, 8 of the upper bits of
        // indices and 8 of sub-scales.
        unsafe {
            plain.scale = 0.125 * half(block);
            for (j, codes) in plain.codes.iter_mut().enumerate() {
                let low = block.add(2 + 4 * j).cast::<[u8; 4]>().read();
                let high = u16::from(*block.add(66 + j)) << 8;
                let indices = indices(low, |i| high >> (2 * i) & 0x300);
                let signs = block.add(34 + 4 * j).cast::<u32>().read_unaligned();
                put_signed(codes, eights(&IQ2_S, indices, IQ2), signs);
            }
            plain.put_subs(odd_from_nibbles(_mm_loadl_epi64(block.add(74).cast())));
        }
    }
}

impl ByRow for Iq3Xxs {
    const BYTES: usize = 98;

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain) {
        // SAFETY: the caller promises the block: a scale, 64 bytes of indices, 32 bytes of signs and sub-scales.
        unsafe {
            plain.scale = 0.25 * half(block);
            for (j, codes) in plain.codes.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let subs = block.add(66 + 8 * j).cast::<u64>().read_unaligned();
                let signs = eight_even_signs(sevens(subs));
                for (i, codes) in codes.iter_mut().enumerate() {
                    let indices = block.add(2 + 16 * j + 8 * i).cast::<[u8; 8]>().read().map(u32::from);
                    put_signed(codes, fours(&IQ3_XXS, indices), (signs >> (32 * i)) as u32);
                    put_odd(&mut plain.sub_scales, 2 * j + i, subs >> (28 + 32 * i) & 15);
                }
            }
        }
    }
}

impl ByRow for Iq3S {
    const BYTES: usize = 110;

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain) {
        // SAFETY: the caller promises the block: a scale, 64 bytes of indices, 8 of their upper bits, 32 of signs, 4 of
        // sub-scales.
        unsafe {
            plain.scale = half(block);
            for (j, codes) in plain.codes.iter_mut().enumerate() {
                let low = _mm256_cvtepu8_epi32(_mm_loadl_epi64(block.add(2 + 8 * j).cast()));
                // Bit i of the byte becomes bit 8 of lane i.
                let high = _mm256_set1_epi32(i32::from(*block.add(66 + j)));
                let high = _mm256_sllv_epi32(high, _mm256_setr_epi32(8, 7, 6, 5, 4, 3, 2, 1));
                let lanes = _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi32(256)));
                let mut indices = [0_u32; 8];
                _mm256_storeu_si256(indices.as_mut_ptr().cast(), lanes);
                let signs = block.add(74 + 4 * j).cast::<u32>().read_unaligned();
                put_signed(codes, fours(&IQ3_S, indices), signs);
            }
            // A sub-scale belongs to 32 codes.
            let subs = odd_from_nibbles(_mm_cvtsi32_si128(block.add(106).cast::<i32>().read_unaligned()));
            plain.put_subs(_mm_unpacklo_epi8(subs, subs));
        }
    }
}

impl ByRow for Iq1S {
    const BYTES: usize = 50;

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain) {
        // SAFETY: the caller promises the block: a scale, 32 bytes of indices, 8 words of their upper bits, sub-scales
        // and signs.
        unsafe {
            plain.scale = 0.125 * half(block);
            for (j, codes) in plain.codes.iter_mut().enumerate() {
                let low = block.add(2 + 4 * j).cast::<[u8; 4]>().read();
                let high = block.add(34 + 2 * j).cast::<u16>().read_unaligned();
                let indices = indices(low, |i| (high >> (3 * i) & 7) << 8);
                let more = _mm256_set1_epi8(1 - 2 * (high >> 15) as i8);
                put(codes, _mm256_add_epi8(eights(&IQ1, indices, IQ1_VALUES), more));
                put_odd(&mut plain.sub_scales, j, u64::from(high >> 12 & 7));
            }
        }
    }
}

impl ByRow for Iq1M {
    const BYTES: usize = 56;

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain) {
        // SAFETY: the caller promises the block: 32 bytes of indices, 16 of nibbles with their upper bits, 8 of
        // sub-scales and the nibbles of the scale.
        unsafe {
            let subs = block.add(48).cast::<u64>().read_unaligned();
            let scale = subs >> 12 & 0xf | subs >> 24 & 0xf0 | subs >> 36 & 0xf00 | subs >> 48 & 0xf000;
            plain.scale = 0.125 * half((scale as u16).to_le_bytes().as_ptr());
            for (j, codes) in plain.codes.iter_mut().enumerate() {
                let low = block.add(4 * j).cast::<[u8; 4]>().read();
                let high = block.add(32 + 2 * j).cast::<u16>().read_unaligned();
                let indices = indices(low, |i| (high >> (4 * i) & 7) << 8);
                // All bits of a byte are set for each entry from which an eighth is subtracted.
                let less = [3, 7, 11, 15].map(|bit| (high >> bit & 1) as u8 * 0xff);
                let less = is_set_of(u32::from_le_bytes(less));
                let more = _mm256_or_si256(less, _mm256_set1_epi8(1));
                put(codes, _mm256_add_epi8(eights(&IQ1, indices, IQ1_VALUES), more));
                // Sub-scales have three bits each, four of them in a word.
                let two = subs >> (16 * (j / 2) + 6 * (j % 2));
                for (half, shift) in [0, 3].into_iter().enumerate() {
                    *plain.sub_scales.get_unchecked_mut(2 * j + half) = 2 * (two >> shift & 7) as i8 + 1;
                }
            }
        }
    }
}

impl ByRow for Tq1_0 {
    const BYTES: usize = 54;

    #[target_feature(enable = "avx2,f16c")]
    unsafe fn unpack(block: *const u8, plain: &mut Plain) {
        // SAFETY: the caller promises the block: 32, 16 and 4 bytes of digits, then the scale.
        unsafe {
            let first = _mm256_loadu_si256(block.cast());
            let second = _mm256_broadcastsi128_si256(_mm_loadu_si128(block.add(32).cast()));
            let third = _mm256_set1_epi32(block.add(48).cast::<i32>().read_unaligned());
            let both = |low, high| _mm256_set_m128i(_mm_set1_epi16(high), _mm_set1_epi16(low));
            let last = _mm256_set_m128i(_mm_setr_epi16(1, 1, 3, 3, 9, 9, 27, 27), _mm_set1_epi16(81));
            let [a, b, c, d, e, f, g, h] = &mut plain.codes;
            for (codes, power) in [a, b, c, d, e].into_iter().zip([1, 3, 9, 27, 81]) {
                put(codes, digits(first, _mm256_set1_epi16(power)));
            }
            put(f, digits(second, both(1, 3)));
            put(g, digits(second, both(9, 27)));
            put(h, digits(_mm256_blend_epi32::<0xf0>(second, third), last));
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

/// Returns odd sub-scales from the nibbles of 8 bytes. The lower nibble comes first.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn odd_from_nibbles(bytes: __m128i) -> __m128i {
    let both = _mm_unpacklo_epi8(bytes, _mm_srli_epi16::<4>(bytes));
    let nibbles = _mm_and_si128(both, _mm_set1_epi8(15));
    _mm_add_epi8(_mm_add_epi8(nibbles, nibbles), _mm_set1_epi8(1))
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

/// Sets sub-scales `2 j` and `2 j + 1` to twice `number` plus 1.
#[inline(always)]
fn put_odd(sub_scales: &mut [i8; 16], j: usize, number: u64) {
    if let Some(both) = sub_scales.as_chunks_mut::<2>().0.get_mut(j) {
        *both = [2 * number as i8 + 1; 2];
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn put(to: &mut [i8; 32], codes: __m256i) {
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), codes) };
}

/// Stores codes with these magnitudes. A code is negative where its bit in `signs` is set.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn put_signed(to: &mut [i8; 32], magnitudes: __m256i, signs: u32) {
    // SAFETY: this function has the feature.
    let negative = unsafe { is_set_of(signs) };
    put(to, _mm256_sub_epi8(_mm256_xor_si256(magnitudes, negative), negative));
}

/// Returns indices made of their lowest 8 bits and their upper bits. `upper` returns the upper bits of index i.
#[inline(always)]
fn indices<const N: usize>(low: [u8; N], upper: impl Fn(usize) -> u16) -> [u16; N] {
    let mut numbers = 0..;
    low.map(|low| u16::from(low) | numbers.next().map_or(0, &upper))
}

/// Returns the values of four entries. An entry has 8 numbers of 2 bits each, none of which is 3.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn eights<const N: usize>(book: &[u16; N], indices: [u16; 4], [zero, one, two]: [i8; 3]) -> __m256i {
    let entry = |index: u16| u64::from(book.get(usize::from(index)).copied().unwrap_or_default());
    let [a, b, c, d] = indices.map(entry);
    let entries = _mm256_set1_epi64x((a | b << 16 | c << 32 | d << 48) as i64);
    // Repeats each byte four times.
    let bytes =
        _mm256_set_epi64x(0x0707_0707_0606_0606, 0x0505_0505_0404_0404, 0x0303_0303_0202_0202, 0x0101_0101_0000_0000);
    let four = _mm256_shuffle_epi8(entries, bytes);
    let shifted = _mm256_blend_epi16::<0xaa>(four, _mm256_srli_epi16::<4>(four));
    // In every second byte the number stays shifted by 2 bits, so the table has the values at four times the number,
    // too.
    let values = _mm_setr_epi8(zero, one, two, 0, one, 0, 0, 0, two, 0, 0, 0, 0, 0, 0, 0);
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), _mm256_and_si256(shifted, _mm256_set1_epi16(0x0c03)))
}

/// Returns eight entries of four values each.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn fours<const N: usize>(book: &[u32; N], indices: [u32; 8]) -> __m256i {
    // Single loads: an emulator of the cross runs gets a gather wrong, and processors are hardly faster with it.
    let entries = indices.map(|index| book.get(index as usize % N).copied().unwrap_or_default());
    // SAFETY: the array has the 32 bytes that are read.
    unsafe { _mm256_loadu_si256(entries.as_ptr().cast()) }
}

/// Returns the first digit of each byte times a power of three, minus 1. The power makes a later digit the first one.
#[inline]
#[target_feature(enable = "avx2,f16c")]
fn digits(bytes: __m256i, powers: __m256i) -> __m256i {
    // Only the lowest 8 bits of a product count. First come the products of the lower bytes of the words, then those of
    // the upper bytes.
    let low = _mm256_set1_epi16(0xff);
    let lower = _mm256_and_si256(_mm256_mullo_epi16(bytes, powers), low);
    let upper = _mm256_mullo_epi16(_mm256_andnot_si256(low, bytes), powers);
    let products = _mm256_or_si256(lower, upper);
    // The digit is 3 b / 256, rounded down: 1 from b = 86 on, and 2 from b = 171 on. A comparison gives -1 where it is
    // true.
    let at_least = |number: u8| {
        let number = _mm256_set1_epi8(number.cast_signed());
        _mm256_cmpeq_epi8(_mm256_max_epu8(products, number), products)
    };
    _mm256_sub_epi8(_mm256_set1_epi8(-1), _mm256_add_epi8(at_least(86), at_least(171)))
}
