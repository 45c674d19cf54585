//! IQ1_S, IQ1_M: entries of 8 numbers, -1, 0 or 1, plus or minus an eighth. The layouts are described in `src/quant`.

use core::arch::x86_64::*;

use super::super::matvec::tile::{load_16, load_32};
use super::{ByRow, Codes, each_with, eight, eights, odd, twice};
use crate::quant::IQ1;

/// Eight times the numbers -1, 0 and 1, plus 1, plus [`ByRow::OFFSET`], which is 9.
const VALUES: [u8; 3] = [2, 10, 18];

pub(in crate::kernels::x86_64::avx512) struct Iq1S;
pub(in crate::kernels::x86_64::avx512) struct Iq1M;

impl ByRow for Iq1S {
    type Block = [u8; 50];
    const OFFSET: u8 = 9;
    const FACTOR: f32 = 0.125;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<const R: usize>(blocks: [&[u8; 50]; R]) -> [Codes; R] {
        let words = blocks.map(|block| load_16::<34, _, _>(block));
        let high = words.map(|words| _mm512_shuffle_epi8(_mm512_broadcast_i32x4(words), four_times()));
        let upper = high.map(|high| _mm512_srlv_epi16(high, _mm512_set1_epi64(0x0009_0006_0003_0000)));
        let lower = blocks.map(|block| load_32::<2, _, _>(block));
        let codes = codes(lower, upper, high.map(|high| _mm512_movepi16_mask(high)));
        each_with(words, codes, |words, codes| {
            let sub_scales = _mm_packus_epi16(_mm_srli_epi16::<12>(words), _mm_setzero_si128());
            unsigned(codes, twice(odd(_mm_and_si128(sub_scales, _mm_set1_epi8(7)))))
        })
    }
}

impl ByRow for Iq1M {
    type Block = [u8; 56];
    const OFFSET: u8 = 9;
    const SCALE: [usize; 2] = [48, 52];
    const FACTOR: f32 = 0.125;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<const R: usize>(blocks: [&[u8; 56]; R]) -> [Codes; R] {
        let nibbles = blocks.map(|block| {
            let pairs = load_16::<32, _, _>(block);
            let upper = _mm_srli_epi16::<4>(pairs);
            let bytes = _mm256_set_m128i(_mm_unpackhi_epi8(pairs, upper), _mm_unpacklo_epi8(pairs, upper));
            _mm512_cvtepu8_epi16(bytes)
        });
        let less = nibbles.map(|nibbles| _mm512_test_epi16_mask(nibbles, _mm512_set1_epi16(8)));
        let codes = codes(blocks.map(|block| load_32::<0, _, _>(block)), nibbles, less);
        each_with(blocks, codes, |block, codes| {
            let subs = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(eight::<48, _>(block)), four_times());
            let subs = _mm512_srlv_epi16(subs, _mm512_set1_epi64(0x0009_0006_0003_0000));
            let subs = _mm256_cvtepi16_epi8(_mm512_castsi512_si256(subs));
            unsigned(codes, odd(_mm_and_si128(subs, _mm_set1_epi8(7))))
        })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn scale_bits(first: __m512i, second: __m512i) -> __m512i {
        // The upper nibbles of four words, the lowest nibble first.
        let nibbles = |bits: __m512i, mask| _mm512_and_si512(bits, _mm512_set1_epi32(mask));
        let a = nibbles(_mm512_srli_epi32::<12>(first), 0x000f);
        let b = nibbles(_mm512_srli_epi32::<24>(first), 0x00f0);
        let c = nibbles(_mm512_srli_epi32::<4>(second), 0x0f00);
        let d = nibbles(_mm512_srli_epi32::<16>(second), 0xf000);
        _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d))
    }
}

/// Returns the byte indices of a shuffle that puts four copies of word i of 8 into the 64 bits of lane i.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_times() -> __m512i {
    let word = |i: i64| 0x0100_0100_0100_0100 + 2 * i * 0x0101_0101_0101_0101;
    _mm512_set_epi64(word(7), word(6), word(5), word(4), word(3), word(2), word(1), word(0))
}

/// Returns codes from the lower 8 bits of the indices, words whose lowest 3 bits are the upper bits of the indices, and
/// a bit for each entry that has minus an eighth.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn codes<const R: usize>(lower: [__m256i; R], upper: [__m512i; R], less: [u32; R]) -> [[__m512i; 4]; R] {
    let mut indices = upper;
    for (index, lower) in indices.iter_mut().zip(lower) {
        let upper = _mm512_slli_epi16::<8>(*index);
        // 0xf8: a | b & c.
        *index = _mm512_ternarylogic_epi32::<0xf8>(_mm512_cvtepu8_epi16(lower), upper, _mm512_set1_epi16(0x700));
    }
    let mut codes = indices.map(|indices| eights(gathered(&IQ1, indices), VALUES));
    for (codes, less) in codes.iter_mut().zip(less) {
        for (codes, less) in codes.iter_mut().zip(less.to_le_bytes()) {
            // All codes have bit 1. Without this bit they are 2 less.
            *codes = _mm512_mask_xor_epi64(*codes, less, *codes, _mm512_set1_epi8(2));
        }
    }
    codes
}

/// Returns the entries for 32 indices. The codebook is too large for `entries`, which takes longer with it than a
/// gathering load.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn gathered(book: &[u16; 2048], indices: __m512i) -> __m512i {
    let half = |indices| {
        let indices = _mm512_cvtepu16_epi32(indices);
        // A gathered dword is a pair of entries.
        let pairs = _mm512_and_si512(_mm512_srli_epi32::<1>(indices), _mm512_set1_epi32(1023));
        // SAFETY: there are 1024 pairs of entries.
        let pairs = unsafe { _mm512_i32gather_epi32::<4>(pairs, book.as_ptr().cast()) };
        let upper = _mm512_test_epi32_mask(indices, _mm512_set1_epi32(1));
        _mm512_cvtepi32_epi16(_mm512_mask_srli_epi32::<16>(pairs, upper, pairs))
    };
    let (low, high) = (_mm512_castsi512_si256(indices), _mm512_extracti64x4_epi64::<1>(indices));
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(low)), half(high))
}

/// Returns a block whose codes have no signs.
#[inline(always)]
fn unsigned(codes: [__m512i; 4], sub_scales: __m128i) -> Codes {
    Codes { codes, negative: [0; 4], sub_scales }
}
