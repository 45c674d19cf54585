//! Q8_0: a register has two blocks of 32 of a row.

use core::arch::x86_64::*;

use super::tile::{Tile, halves, load_32, load_64, start, sum_halves, sum_in_lanes, term};
use crate::kernels::x86_64::avx512::panel::low_f16;
use crate::quant::QuantizedRow;

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q8_0(tile: &Tile<'_, 34, 2>, x: QuantizedRow<'_>) -> __m512 {
    let mut acc = _mm512_setzero_ps();
    let (codes, last_codes) = x.codes.as_chunks::<64>();
    let (scales, last_scale) = x.scales.as_chunks::<2>();
    for (i, (codes, [dx_0, dx_1])) in codes.iter().zip(scales).enumerate().take(tile.blocks() / 2) {
        // SAFETY: i < tile.blocks() / 2, so 2 i + 1 < tile.blocks().
        unsafe {
            let [first, second] = dots(tile, [2 * i, 2 * i + 1], load_64::<0, _, _>(codes));
            acc = add(acc, tile, 2 * i, first, *dx_0);
            acc = add(acc, tile, 2 * i + 1, second, *dx_1);
        }
    }
    let b = 2 * scales.len();
    if let (Some(codes), [dx]) = (last_codes.first_chunk(), last_scale)
        && b < tile.blocks()
    {
        // SAFETY: b < tile.blocks(), as the condition says.
        unsafe {
            let x = _mm512_zextsi256_si512(load_32::<0, i8, 32>(codes));
            let [dots, _] = dots(tile, [b, b], x);
            acc = add(acc, tile, b, dots, *dx);
        }
    }
    acc
}

/// Returns the integer dot products of two blocks of each row with the two halves of `x`. A lane belongs to a row.
///
/// # Safety
/// Both indices are below `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn dots(tile: &Tile<'_, 34, 2>, [first, second]: [usize; 2], x: __m512i) -> [__m512i; 2] {
    // The dot product of bytes takes unsigned weights: flipping the top bit adds 128 to a code.
    let top = _mm512_set1_epi8(-128);
    let zero = start(128, x);
    let mut quads = [zero; 4];
    for (g, quad) in quads.iter_mut().enumerate() {
        let mut rows = [zero; 4];
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: 4 g + i < 16, and the caller promises that both blocks are below tile.blocks().
            let (a, b) = unsafe { (tile.block::<true>(4 * g + i, first), tile.block::<false>(4 * g + i, second)) };
            let codes = halves(load_32::<2, _, _>(a), load_32::<2, _, _>(b));
            *row = _mm512_dpbusd_epi32(*row, _mm512_xor_si512(codes, top), x);
        }
        *quad = sum_in_lanes(rows);
    }
    sum_halves(quads)
}

/// Returns `acc` plus the products of block `b`.
///
/// # Safety
/// `b` < `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add(acc: __m512, tile: &Tile<'_, 34, 2>, b: usize, dots: __m512i, dx: f32) -> __m512 {
    // SAFETY: the caller promises b < tile.blocks().
    let header = unsafe { tile.gather::<0>(b) };
    _mm512_add_ps(acc, term(dots, low_f16(header), dx))
}
