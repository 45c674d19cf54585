//! Super-blocks with sub-blocks of 16: Q2_K, Q3_K, Q6_K.
//!
//! Four registers have 64 codes each, a sub-block per 128-bit lane. A sum of four products of a code, without its
//! offset, and an activation fits 16 bits (32 * 128 * 4 = 2^14). So two registers of such sums are packed to one of
//! words, and the dot product of words with the sub-scales is exact.

use core::arch::x86_64::*;

use super::tile::{
    Tile, halves, load_16, load_32, load_64, set_lanes, start, store_lanes, sum_in_lanes, sum_lanes, term,
};
use crate::kernels::x86_64::avx512::panel::{high_f16, low_f16};
use crate::quant::QuantizedRow;

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q6_k(tile: &Tile<'_, 210, 1>, x: QuantizedRow<'_>) -> __m512 {
    let unpack = six_bits();
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<256>().0.iter().zip(x.scales);
    for (b, (codes, &dx)) in blocks.enumerate().take(tile.blocks()) {
        // SAFETY: `take` keeps b below tile.blocks().
        unsafe {
            let dots = dots::<210, 32>(tile, b, codes, |block, _| unpack(block));
            acc = _mm512_add_ps(acc, term(dots, high_f16(tile.gather::<206>(b)), dx));
        }
    }
    acc
}

/// Returns a function that unpacks blocks of Q6_K to codes plus 32, and to sub-scales in the order of [`words`].
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn six_bits() -> impl Fn(&[u8; 210]) -> ([__m512i; 4], [__m512i; 2]) {
    let (low, upper) = (_mm512_set1_epi8(15), _mm512_set1_epi8(0x30));
    let (up, down) = (shifts(4, 2), shifts(0, 2));
    let (words_0, words_8) = (words(0, Place::Upper), words(8, Place::Upper));
    let half = move |bytes, high| {
        let high = _mm512_broadcast_i64x4(high);
        let first = _mm512_and_si512(bytes, low);
        let second = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low);
        // 0xf8: a | b & c.
        [
            _mm512_ternarylogic_epi32::<0xf8>(first, _mm512_sllv_epi16(high, up), upper),
            _mm512_ternarylogic_epi32::<0xf8>(second, _mm512_srlv_epi16(high, down), upper),
        ]
    };
    move |block| {
        let [a, b] = half(load_64::<0, _, _>(block), load_32::<128, _, _>(block));
        let [c, d] = half(load_64::<64, _, _>(block), load_32::<160, _, _>(block));
        let scales = _mm512_broadcast_i32x4(load_16::<192, _, _>(block));
        let first = _mm512_srai_epi16::<8>(_mm512_shuffle_epi8(scales, words_0));
        let second = _mm512_srai_epi16::<8>(_mm512_shuffle_epi8(scales, words_8));
        ([a, b, c, d], [first, second])
    }
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q3_k(tile: &Tile<'_, 110, 1>, x: QuantizedRow<'_>) -> __m512 {
    let upper = _mm512_set1_epi8(4);
    let (up_0, down_1, down_2, down_3) = (shifts(2, 1), shifts(0, 1), shifts(2, 3), shifts(4, 5));
    let (words_0, words_8) = (words(0, Place::Upper), words(8, Place::Upper));
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<256>().0.iter().zip(x.scales);
    for (b, (codes, &dx)) in blocks.enumerate().take(tile.blocks()) {
        // SAFETY: `take` keeps b below tile.blocks(); `dots` gives lanes below 16.
        unsafe {
            let [i, j, k, l] = tile.headers::<94, false>(b);
            let scales = store_lanes([q3_scales(i), q3_scales(j), q3_scales(k), q3_scales(l)]);
            let dots = dots::<110, 4>(tile, b, codes, |block, lane| {
                let [a, b] = two_bits(load_32::<32, _, _>(block));
                let [c, d] = two_bits(load_32::<64, _, _>(block));
                let high = _mm512_broadcast_i64x4(load_32::<0, _, _>(block));
                let codes = [
                    _mm512_ternarylogic_epi32::<0xf8>(a, _mm512_sllv_epi16(high, up_0), upper),
                    _mm512_ternarylogic_epi32::<0xf8>(b, _mm512_srlv_epi16(high, down_1), upper),
                    _mm512_ternarylogic_epi32::<0xf8>(c, _mm512_srlv_epi16(high, down_2), upper),
                    _mm512_ternarylogic_epi32::<0xf8>(d, _mm512_srlv_epi16(high, down_3), upper),
                ];
                let scales = _mm512_broadcast_i32x4(load_16::<0, _, _>(scales.get_unchecked(lane)));
                (codes, [_mm512_shuffle_epi8(scales, words_0), _mm512_shuffle_epi8(scales, words_8)])
            });
            // The sub-scales are multiplied by 256, as they are upper bytes of words. The sums still fit: 256 * 256 * 4
            // * 128 * 32 = 2^30.
            let dots = _mm512_srai_epi32::<8>(dots);
            let last = _mm512_unpackhi_epi64(_mm512_unpackhi_epi32(i, j), _mm512_unpackhi_epi32(k, l));
            acc = _mm512_add_ps(acc, term(dots, high_f16(last), dx));
        }
    }
    acc
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q2_k(tile: &Tile<'_, 84, 1>, x: QuantizedRow<'_>) -> __m512 {
    let zero = _mm512_setzero_si512();
    let low = _mm512_set1_epi8(15);
    let (words_0, words_8) = (words(0, Place::Lower), words(8, Place::Lower));
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<256>().0.iter().zip(x.scales).zip(x.sums.as_chunks::<16>().0);
    for (b, ((codes, &dx), sums)) in blocks.enumerate().take(tile.blocks()) {
        let first_sums = _mm512_broadcast_i32x4(load_16::<0, _, _>(sums));
        let last_sums = _mm512_broadcast_i32x4(load_16::<16, _, _>(sums));
        // Sub-minimum times sum of activations: the lane of each row gets four partial sums.
        let mins = |subs| {
            let mins = _mm512_and_si512(_mm512_srli_epi16::<4>(subs), low);
            let dots = _mm512_dpwssd_epi32(zero, _mm512_unpacklo_epi8(mins, zero), first_sums);
            _mm512_dpwssd_epi32(dots, _mm512_unpackhi_epi8(mins, zero), last_sums)
        };
        // SAFETY: `take` keeps b below tile.blocks(); `dots` gives lanes below 16.
        unsafe {
            let [i, j, k, l] = tile.headers::<0, false>(b);
            let scales = |subs| _mm512_and_si512(subs, low);
            let scales = store_lanes([scales(i), scales(j), scales(k), scales(l)]);
            let dots = dots::<84, 0>(tile, b, codes, |block, lane| {
                let [a, b] = two_bits(load_32::<16, _, _>(block));
                let [c, d] = two_bits(load_32::<48, _, _>(block));
                let scales = _mm512_broadcast_i32x4(load_16::<0, _, _>(scales.get_unchecked(lane)));
                ([a, b, c, d], [_mm512_shuffle_epi8(scales, words_0), _mm512_shuffle_epi8(scales, words_8)])
            });
            let header = tile.gather::<80>(b);
            acc = _mm512_add_ps(acc, term(dots, low_f16(header), dx));
            let mins = sum_in_lanes([mins(i), mins(j), mins(k), mins(l)]);
            acc = _mm512_sub_ps(acc, term(mins, high_f16(header), dx));
        }
    }
    acc
}

/// Returns the dot products of block `b` with `x`. A lane belongs to a row.
///
/// `unpack` takes a block and the index of its row in [`store_lanes`], below 16. It returns the codes plus `OFFSET`,
/// and the sub-scales in the order of [`words`].
///
/// # Safety
/// `b` < `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn dots<const BYTES: usize, const OFFSET: u8>(
    tile: &Tile<'_, BYTES, 1>,
    b: usize,
    x: &[i8; 256],
    unpack: impl Fn(&[u8; BYTES], usize) -> ([__m512i; 4], [__m512i; 2]),
) -> __m512i {
    let zero = _mm512_setzero_si512();
    let x_0 = load_64::<0, _, _>(x);
    let x_1 = load_64::<64, _, _>(x);
    let x_2 = load_64::<128, _, _>(x);
    let x_3 = load_64::<192, _, _>(x);
    let start = |x| if OFFSET == 0 { zero } else { start(OFFSET, x) };
    let (start_0, start_1, start_2, start_3) = (start(x_0), start(x_1), start(x_2), start(x_3));
    let mut quads = [zero; 4];
    for (g, quad) in quads.iter_mut().enumerate() {
        let mut rows = [zero; 4];
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: 4 g + i < 16, and the caller promises b < tile.blocks().
            let block = unsafe { tile.block::<true>(4 * g + i, b) };
            let ([c_0, c_1, c_2, c_3], [scales_0, scales_8]) = unpack(block, 4 * i + g);
            let (d_0, d_1) = (_mm512_dpbusd_epi32(start_0, c_0, x_0), _mm512_dpbusd_epi32(start_1, c_1, x_1));
            let (d_2, d_3) = (_mm512_dpbusd_epi32(start_2, c_2, x_2), _mm512_dpbusd_epi32(start_3, c_3, x_3));
            let dots = _mm512_dpwssd_epi32(zero, _mm512_packs_epi32(d_0, d_1), scales_0);
            *row = _mm512_dpwssd_epi32(dots, _mm512_packs_epi32(d_2, d_3), scales_8);
        }
        *quad = sum_in_lanes(rows);
    }
    sum_lanes(quads)
}

/// Returns shift counts for the words of the lower and of the upper half.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn shifts(low: i16, high: i16) -> __m512i {
    halves(_mm256_set1_epi16(low), _mm256_set1_epi16(high))
}

/// Returns the codes of 128 elements in 32 bytes, 2 bits each.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn two_bits(bytes: __m256i) -> [__m512i; 2] {
    let low = _mm512_set1_epi8(3);
    let bytes = _mm512_broadcast_i64x4(bytes);
    [
        _mm512_and_si512(_mm512_srlv_epi16(bytes, shifts(0, 2)), low),
        _mm512_and_si512(_mm512_srlv_epi16(bytes, shifts(4, 6)), low),
    ]
}

/// Returns the sub-scales of Q3_K from headers that begin at byte 94, in the lanes of [`Tile::headers`].
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn q3_scales(header: __m512i) -> __m512i {
    let low = _mm512_shuffle_epi8(header, set_lanes([0x0504_0302, 0x0908_0706, 0x0504_0302, 0x0908_0706]));
    let low = _mm512_and_si512(_mm512_srlv_epi32(low, set_lanes([0, 0, 4, 4])), _mm512_set1_epi8(15));
    let high = _mm512_shuffle_epi8(header, _mm512_set1_epi32(0x0d0c_0b0a));
    let high = _mm512_rolv_epi32(high, set_lanes([4, 2, 0, 30]));
    let six_bits = _mm512_ternarylogic_epi32::<0xf8>(low, high, _mm512_set1_epi8(0x30));
    _mm512_sub_epi8(six_bits, _mm512_set1_epi8(32))
}

/// The half of a word that a byte goes to. The other byte is zero.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Lower,
    Upper,
}

/// Returns the shuffle indices that make words of 16 sub-scales, in the order of the packed sums: lane l has four words
/// of sub-block `from + l` and four of sub-block `from + 4 + l`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn words(from: i64, place: Place) -> __m512i {
    let words = |sub: i64| match place {
        Place::Lower => 0x8000_8000_8000_8000_u64 as i64 | (sub * 0x0001_0001_0001_0001),
        Place::Upper => 0x0080_0080_0080_0080 | (sub * 0x0100_0100_0100_0100),
    };
    let lanes = [words(from), words(from + 1), words(from + 2), words(from + 3)];
    let next = [words(from + 4), words(from + 5), words(from + 6), words(from + 7)];
    _mm512_setr_epi64(lanes[0], next[0], lanes[1], next[1], lanes[2], next[2], lanes[3], next[3])
}
