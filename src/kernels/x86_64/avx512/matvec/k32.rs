//! Super-blocks with sub-blocks of 32 and minima: Q4_K, Q5_K.
//!
//! A sum of four products of a code and an activation fits 16 bits (31 * 128 * 4 < 2^15). So two registers of such sums
//! are packed to one of words, and the dot product of words with the sub-scales is exact.

use core::arch::x86_64::*;

use super::tile::{Tile, halves, load_32, load_64, set_lanes, store_lanes, sum_in_lanes, sum_lanes, term};
use crate::kernels::x86_64::avx512::panel::{high_f16, low_f16};
use crate::quant::QuantizedRow;

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q4_k(tile: &Tile<'_, 144, 1>, x: QuantizedRow<'_>) -> __m512 {
    dots::<144>(tile, x, |block| four_bits(load_64::<16, _, _>(block), load_64::<80, _, _>(block)))
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q5_k(tile: &Tile<'_, 176, 1>, x: QuantizedRow<'_>) -> __m512 {
    dots::<176>(tile, x, |block| five_bits(block))
}

/// Returns the codes of Q5_K in the order of [`four_bits`].
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn five_bits(block: &[u8; 176]) -> [__m512i; 4] {
    // Bit j of a high byte belongs to sub-block j and has to become bit 4 of a code.
    let words = |low, high| halves(_mm256_set1_epi16(low), _mm256_set1_epi16(high));
    let (up_0, up_1) = (words(4, 2), words(3, 1));
    let (down_2, down_3) = (words(0, 2), words(1, 3));
    let bit = _mm512_set1_epi8(16);
    let [a, b, c, d] = four_bits(load_64::<48, _, _>(block), load_64::<112, _, _>(block));
    let high = _mm512_broadcast_i64x4(load_32::<16, _, _>(block));
    // 0xf8: a | b & c.
    [
        _mm512_ternarylogic_epi32::<0xf8>(a, _mm512_sllv_epi16(high, up_0), bit),
        _mm512_ternarylogic_epi32::<0xf8>(b, _mm512_sllv_epi16(high, up_1), bit),
        _mm512_ternarylogic_epi32::<0xf8>(c, _mm512_srlv_epi16(high, down_2), bit),
        _mm512_ternarylogic_epi32::<0xf8>(d, _mm512_srlv_epi16(high, down_3), bit),
    ]
}

/// Returns the lower 4 bits of sub-blocks 0 and 2, 1 and 3, 4 and 6, 5 and 7, a pair per register.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_bits(first: __m512i, second: __m512i) -> [__m512i; 4] {
    let low = _mm512_set1_epi8(15);
    [
        _mm512_and_si512(first, low),
        _mm512_and_si512(_mm512_srli_epi16::<4>(first), low),
        _mm512_and_si512(second, low),
        _mm512_and_si512(_mm512_srli_epi16::<4>(second), low),
    ]
}

/// Returns the products of a tile. `unpack` returns the codes of a block in the order of [`four_bits`].
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn dots<const BYTES: usize>(
    tile: &Tile<'_, BYTES, 1>,
    x: QuantizedRow<'_>,
    unpack: impl Fn(&[u8; BYTES]) -> [__m512i; 4],
) -> __m512 {
    let zero = _mm512_setzero_si512();
    let (words_01, words_45) = (scale_words(0), scale_words(4));
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<256>().0.iter().zip(x.scales).zip(x.sums.as_chunks::<16>().0);
    for (b, ((codes, &dx), sums)) in blocks.enumerate().take(tile.blocks()) {
        // SAFETY: `take` keeps b below tile.blocks().
        let headers = unsafe { tile.headers::<0, false>(b) };
        let subs = headers_to_subs(headers);
        let scales = store_lanes(subs);
        let x_02 = halves(load_32::<0, _, _>(codes), load_32::<64, _, _>(codes));
        let x_13 = halves(load_32::<32, _, _>(codes), load_32::<96, _, _>(codes));
        let x_46 = halves(load_32::<128, _, _>(codes), load_32::<192, _, _>(codes));
        let x_57 = halves(load_32::<160, _, _>(codes), load_32::<224, _, _>(codes));
        let mut quads = [zero; 4];
        for (g, quad) in quads.iter_mut().enumerate() {
            let mut rows = [zero; 4];
            for (i, row) in rows.iter_mut().enumerate() {
                // SAFETY: 4 g + i < 16, and `take` keeps b below tile.blocks().
                let block = unsafe { tile.block::<true>(4 * g + i, b) };
                let [a, b, c, d] = unpack(block);
                let first = _mm512_packs_epi32(_mm512_dpbusd_epi32(zero, a, x_02), _mm512_dpbusd_epi32(zero, b, x_13));
                let second = _mm512_packs_epi32(_mm512_dpbusd_epi32(zero, c, x_46), _mm512_dpbusd_epi32(zero, d, x_57));
                // SAFETY: 4 i + g < 16, the number of rows in `scales`.
                let scales = _mm512_set1_epi64(unsafe { scales.get_unchecked(4 * i + g)[0] } as i64);
                let dots = _mm512_dpwssd_epi32(zero, first, _mm512_shuffle_epi8(scales, words_01));
                *row = _mm512_dpwssd_epi32(dots, second, _mm512_shuffle_epi8(scales, words_45));
            }
            *quad = sum_in_lanes(rows);
        }
        let header = first_dwords(headers);
        acc = _mm512_add_ps(acc, term(sum_lanes(quads), low_f16(header), dx));
        acc = _mm512_sub_ps(acc, term(min_dots(subs, sums), high_f16(header), dx));
    }
    acc
}

/// Returns the shuffle indices that make the words of sub-scales `from` to `from + 3`, in the order of the packed sums.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn scale_words(from: i64) -> __m512i {
    // A word is a byte and a zero byte (an index with the top bit). A lane has four words of each of two sub-blocks.
    let words = |sub: i64| 0x8000_8000_8000_8000_u64 as i64 | (sub * 0x0001_0001_0001_0001);
    let (a, b, c, d) = (words(from), words(from + 1), words(from + 2), words(from + 3));
    _mm512_setr_epi64(a, b, a, b, c, d, c, d)
}

/// Returns eight sub-scales, then eight sub-minima per row, in the lanes of [`Tile::headers`].
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn headers_to_subs([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    // The dwords of a lane are: d and dmin; scales 0..4; minima 0..4; the low nibbles of scales and minima 4..8. `low`
    // takes scales, low nibbles, minima, low nibbles. `high` takes the bytes that have the upper bits of scales and
    // minima 4..8.
    let low = set_lanes([0x0706_0504, 0x0f0e_0d0c, 0x0b0a_0908, 0x0f0e_0d0c]);
    let high = set_lanes([u32::MAX, 0x0706_0504, u32::MAX, 0x0b0a_0908]);
    let shift = set_lanes([0, 0, 0, 4]);
    let mask = set_lanes([0x3f3f_3f3f, 0x0f0f_0f0f, 0x3f3f_3f3f, 0x0f0f_0f0f]);
    let upper = _mm512_set1_epi8(0x30);
    let subs = |header| {
        let low = _mm512_and_si512(_mm512_srlv_epi32(_mm512_shuffle_epi8(header, low), shift), mask);
        let high = _mm512_srli_epi32::<2>(_mm512_shuffle_epi8(header, high));
        _mm512_ternarylogic_epi32::<0xf8>(low, high, upper)
    };
    [subs(a), subs(b), subs(c), subs(d)]
}

/// Returns the first dwords of the lanes of [`Tile::headers`]. A lane of the result belongs to a row.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn first_dwords([a, b, c, d]: [__m512i; 4]) -> __m512i {
    _mm512_unpacklo_epi64(_mm512_unpacklo_epi32(a, b), _mm512_unpacklo_epi32(c, d))
}

/// Returns the sums of sub-minimum times sum of activations. A lane belongs to a row.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn min_dots([a, b, c, d]: [__m512i; 4], sums: &[i16; 16]) -> __m512i {
    let zero = _mm512_setzero_si512();
    let sums = _mm256_madd_epi16(load_32::<0, _, _>(sums), _mm256_set1_epi16(1));
    let sums = _mm512_broadcast_i32x4(_mm256_cvtepi32_epi16(sums));
    let dots = |subs| _mm512_dpwssd_epi32(zero, _mm512_unpackhi_epi8(subs, zero), sums);
    sum_in_lanes([dots(a), dots(b), dots(c), dots(d)])
}
