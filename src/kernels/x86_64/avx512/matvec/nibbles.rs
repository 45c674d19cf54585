//! Blocks of 32 with two codes in a byte: Q4_0, Q4_1, IQ4_NL. Four blocks of a row in two
//! registers, one with the first halves of the blocks and one with the second.
//!
//! Where the number of blocks is no multiple of four, the last four are done at the end, and those that were
//! done before are not added again.

use core::arch::x86_64::*;

use super::tile::{
    Tile, four_lanes, fours, high_f16, load_16, load_64, low_f16, part, start, sum_in_lanes, term, transpose_lanes,
};
use crate::quant::QuantizedRow;

/// The least number of blocks in a row.
pub(super) const BLOCKS: usize = 4;

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q4_0(tile: &Tile<'_, 18>, x: QuantizedRow<'_>) -> __m512 {
    dots::<18, 2, 8, false>(tile, x, |codes| codes)
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q4_1(tile: &Tile<'_, 20>, x: QuantizedRow<'_>) -> __m512 {
    dots::<20, 4, 0, true>(tile, x, |codes| codes)
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn iq4_nl(tile: &Tile<'_, 18>, x: QuantizedRow<'_>) -> __m512 {
    let values = iq4_values();
    dots::<18, 2, 128, false>(tile, x, |[first, second]| {
        [_mm512_shuffle_epi8(values, first), _mm512_shuffle_epi8(values, second)]
    })
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn few_q4_0<const N: usize>(tile: &Tile<'_, 18>, x: &[QuantizedRow<'_>; N]) -> [__m512; N] {
    few_dots::<18, 2, 8, false, N>(tile, x, |codes| codes)
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn few_q4_1<const N: usize>(tile: &Tile<'_, 20>, x: &[QuantizedRow<'_>; N]) -> [__m512; N] {
    few_dots::<20, 4, 0, true, N>(tile, x, |codes| codes)
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn few_iq4_nl<const N: usize>(tile: &Tile<'_, 18>, x: &[QuantizedRow<'_>; N]) -> [__m512; N] {
    let values = iq4_values();
    few_dots::<18, 2, 128, false, N>(tile, x, |[first, second]| {
        [_mm512_shuffle_epi8(values, first), _mm512_shuffle_epi8(values, second)]
    })
}

/// The values of IQ4_NL, plus 128, in each 128-bit lane.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn iq4_values() -> __m512i {
    const VALUES: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
    _mm512_broadcast_i32x4(load_16::<0, _, _>(&VALUES))
}

/// The dot products of rows whose blocks have 16 bytes of nibbles from byte `AT` on.
///
/// `unpack` makes of the nibbles of four blocks their codes plus `OFFSET`; `MIN` is whether a minimum follows the
/// scale.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn dots<const BYTES: usize, const AT: usize, const OFFSET: u8, const MIN: bool>(
    tile: &Tile<'_, BYTES>,
    x: QuantizedRow<'_>,
    unpack: impl Fn([__m512i; 2]) -> [__m512i; 2],
) -> __m512 {
    let low = _mm512_set1_epi8(15);
    let mut acc = _mm512_setzero_ps();
    for first in (0..tile.blocks()).step_by(4) {
        let Some(b) = tile.blocks().checked_sub(4).map(|last| first.min(last)) else { break };
        let Some(codes) = x.codes.get(32 * b..).and_then(|x| x.first_chunk::<128>()) else { break };
        let Some(scales) = x.scales.get(b..).and_then(|x| x.first_chunk::<4>()) else { break };
        let Some(sums) = x.sums.get(2 * b..).and_then(|x| x.first_chunk::<8>()) else { break };
        let (x_01, x_23) = (load_64::<0, _, _>(codes), load_64::<64, _, _>(codes));
        let x_first = _mm512_shuffle_i32x4::<0x88>(x_01, x_23);
        let x_second = _mm512_shuffle_i32x4::<0xdd>(x_01, x_23);
        let mut zero = _mm512_setzero_si512();
        if OFFSET != 0 {
            zero = _mm512_add_epi32(start(OFFSET, x_first), start(OFFSET, x_second));
        }
        let mut quads = [zero; 4];
        for (g, quad) in quads.iter_mut().enumerate() {
            let mut rows = [zero; 4];
            for (i, row) in rows.iter_mut().enumerate() {
                let r = 4 * g + i;
                // SAFETY: r = 4 g + i < 16, and b is at most tile.blocks() - 4.
                let blocks = unsafe {
                    [
                        tile.block::<1>(r, b),
                        tile.block::<0>(r, b + 1),
                        tile.block::<0>(r, b + 2),
                        tile.block::<0>(r, b + 3),
                    ]
                };
                let bytes = four_lanes::<AT, BYTES>(blocks);
                let nibbles = [_mm512_and_si512(bytes, low), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low)];
                let [first, second] = unpack(nibbles);
                *row = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(*row, first, x_first), second, x_second);
            }
            *quad = sum_in_lanes(rows);
        }
        let blocks = transpose_lanes(quads).into_iter().zip(scales).zip(sums.as_chunks::<2>().0);
        for (j, ((dots, &dx), sums)) in blocks.enumerate().skip(first - b) {
            // SAFETY: j < 4, as there are four registers, and b is at most tile.blocks() - 4.
            let header = unsafe { tile.gather::<0>(b + j) };
            acc = _mm512_add_ps(acc, term(dots, low_f16(header), dx));
            if MIN {
                let [first, second] = sums.map(i32::from);
                acc = _mm512_add_ps(acc, term(_mm512_set1_epi32(first + second), high_f16(header), dx));
            }
        }
    }
    acc
}

/// As [`dots`], with `N` rows of activations.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn few_dots<const BYTES: usize, const AT: usize, const OFFSET: u8, const MIN: bool, const N: usize>(
    tile: &Tile<'_, BYTES>,
    x: &[QuantizedRow<'_>; N],
    unpack: impl Fn([__m512i; 2]) -> [__m512i; 2],
) -> [__m512; N] {
    let low = _mm512_set1_epi8(15);
    let mut acc = [_mm512_setzero_ps(); N];
    let Some(last) = tile.blocks().checked_sub(4) else { return acc };
    for first in (0..tile.blocks()).step_by(4) {
        let b = first.min(last);
        let mut codes = [[_mm512_setzero_si512(); 2]; N];
        let mut zero = [_mm512_setzero_si512(); N];
        for ((codes, zero), x) in codes.iter_mut().zip(&mut zero).zip(x) {
            // SAFETY: four blocks from b on, of as many as the tile has, as `tiles` has compared.
            let (x_01, x_23) = unsafe {
                (load_64::<0, i8, 128>(part(x.codes, 32 * b)), load_64::<64, i8, 128>(part(x.codes, 32 * b)))
            };
            *codes = [_mm512_shuffle_i32x4::<0x88>(x_01, x_23), _mm512_shuffle_i32x4::<0xdd>(x_01, x_23)];
            if OFFSET != 0 {
                *zero = _mm512_add_epi32(start(OFFSET, codes[0]), start(OFFSET, codes[1]));
            }
        }
        let mut quads = [[_mm512_setzero_si512(); N]; 4];
        for (g, quads) in quads.iter_mut().enumerate() {
            let mut rows = [[_mm512_setzero_si512(); N]; 4];
            for (i, rows) in rows.iter_mut().enumerate() {
                let r = 4 * g + i;
                // SAFETY: r = 4 g + i < 16, and b is at most tile.blocks() - 4.
                let blocks = unsafe {
                    [
                        tile.block::<1>(r, b),
                        tile.block::<0>(r, b + 1),
                        tile.block::<0>(r, b + 2),
                        tile.block::<0>(r, b + 3),
                    ]
                };
                let bytes = four_lanes::<AT, BYTES>(blocks);
                let nibbles = [_mm512_and_si512(bytes, low), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low)];
                let [lower, upper] = unpack(nibbles);
                for ((row, x), zero) in rows.iter_mut().zip(&codes).zip(&zero) {
                    *row = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(*zero, lower, x[0]), upper, x[1]);
                }
            }
            for (quad, rows) in quads.iter_mut().zip(fours(&rows)) {
                *quad = sum_in_lanes(rows);
            }
        }
        let mut dots = [[_mm512_setzero_si512(); N]; 4];
        let [d_0, d_1, d_2, d_3] = &mut dots;
        let places = d_0.iter_mut().zip(d_1).zip(d_2).zip(d_3);
        for ((((d_0, d_1), d_2), d_3), quads) in places.zip(fours(&quads)) {
            [*d_0, *d_1, *d_2, *d_3] = transpose_lanes(quads);
        }
        for (j, dots) in dots.iter().enumerate() {
            // SAFETY: j < 4, and b is at most tile.blocks() - 4.
            let header = unsafe { tile.gather::<0>(b + j) };
            // A mask instead of a condition, so that the loop is unrolled.
            let new = if j < first - b { 0 } else { u16::MAX };
            for ((acc, dots), x) in acc.iter_mut().zip(dots).zip(x) {
                // SAFETY: a scale and two sums for each block of the tile, as `tiles` has compared.
                let (dx, sums) = unsafe { (*x.scales.get_unchecked(b + j), *part::<i16, 2>(x.sums, 2 * (b + j))) };
                *acc = _mm512_mask_add_ps(*acc, new, *acc, term(*dots, low_f16(header), dx));
                if MIN {
                    let sum = i32::from(sums[0]) + i32::from(sums[1]);
                    let min = term(_mm512_set1_epi32(sum), high_f16(header), dx);
                    *acc = _mm512_mask_add_ps(*acc, new, *acc, min);
                }
            }
        }
    }
    acc
}
