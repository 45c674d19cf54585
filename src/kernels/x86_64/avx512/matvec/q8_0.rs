//! Q8_0: two blocks of a row in a register.
//!
//! The dot product of bytes takes unsigned weights: flipping the top bit adds 128 to a code.

use core::arch::x86_64::*;

use super::tile::{Tile, halves, load_32, load_64, low_f16, start, sum_halves, sum_in_lanes, term};
use crate::quant::QuantizedRow;

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q8_0(tile: &Tile<'_, 34>, x: QuantizedRow<'_>) -> __m512 {
    let mut sums = _mm512_setzero_ps();
    let (pairs, last) = x.codes.as_chunks::<64>();
    let (scales, last_scale) = x.scales.as_chunks::<2>();
    for (pair, (codes, [dx_0, dx_1])) in pairs.iter().zip(scales).enumerate() {
        // SAFETY: `x` has as many blocks as the tile, and this is a pair of them.
        unsafe {
            let [first, second] = pair_dots(tile, 2 * pair, 2 * pair + 1, load_64::<0, _, _>(codes));
            sums = _mm512_add_ps(sums, term(first, low_f16(tile.gather::<0>(2 * pair)), *dx_0));
            sums = _mm512_add_ps(sums, term(second, low_f16(tile.gather::<0>(2 * pair + 1)), *dx_1));
        }
    }
    if let (Some(codes), [dx]) = (last.first_chunk::<32>(), last_scale) {
        let b = 2 * pairs.len();
        // SAFETY: this is the last block of `x`, which has as many as the tile.
        unsafe {
            let [dots, _] = pair_dots(tile, b, b, _mm512_zextsi256_si512(load_32::<0, _, _>(codes)));
            sums = _mm512_add_ps(sums, term(dots, low_f16(tile.gather::<0>(b)), *dx));
        }
    }
    sums
}

/// The integer dot products of two blocks of each row with the activations of both.
///
/// # Safety
/// Both are below `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn pair_dots(tile: &Tile<'_, 34>, first: usize, second: usize, x: __m512i) -> [__m512i; 2] {
    let top = _mm512_set1_epi8(-128);
    let zero = start(128, x);
    let mut quads = [zero; 4];
    for (g, quad) in quads.iter_mut().enumerate() {
        let mut rows = [zero; 4];
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: 4 g + i < 16; the caller promises the rest.
            let (a, b) = unsafe { (tile.block::<1>(4 * g + i, first), tile.block::<0>(4 * g + i, second)) };
            let codes = halves(load_32::<2, _, _>(a), load_32::<2, _, _>(b));
            *row = _mm512_dpbusd_epi32(*row, _mm512_xor_si512(codes, top), x);
        }
        *quad = sum_in_lanes(rows);
    }
    sum_halves(quads)
}
