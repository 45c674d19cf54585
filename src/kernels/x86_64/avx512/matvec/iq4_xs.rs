//! IQ4_XS: super-blocks of 8 sub-blocks of 32. A register has the indices of four sub-blocks.
//!
//! The codes are too large for sums of four products in 16 bits, so the sub-scales come last: the dot products of a
//! sub-block of 16 rows, in a lane per row, are multiplied by the sub-scales of the rows.

use core::arch::x86_64::*;

use super::tile::{Tile, load_16, load_64, start, sum_in_lanes, term, transpose_lanes};
use crate::kernels::x86_64::avx512::panel::low_f16;
use crate::quant::QuantizedRow;

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn iq4_xs(tile: &Tile<'_, 136, 1>, x: QuantizedRow<'_>) -> __m512 {
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<256>().0.iter().zip(x.scales);
    for (b, (codes, &dx)) in blocks.enumerate().take(tile.blocks()) {
        let [first, last] = codes.as_chunks::<128>().0 else { break };
        // SAFETY: `take` keeps b below tile.blocks().
        unsafe {
            let dots = [half_dots::<8, true>(tile, b, first), half_dots::<72, false>(tile, b, last)];
            let (header, low) = (tile.gather::<0>(b), tile.gather::<4>(b));
            acc = _mm512_add_ps(acc, term(scaled(dots, header, low), low_f16(header), dx));
        }
    }
    acc
}

/// Returns the dot products of four sub-blocks, whose indices begin at byte `AT`, with their activations. A lane
/// belongs to a row.
///
/// # Safety
/// `b` < `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn half_dots<const AT: usize, const FETCH: bool>(
    tile: &Tile<'_, 136, 1>,
    b: usize,
    x: &[i8; 128],
) -> [__m512i; 4] {
    let (values, low) = (iq4_values(), _mm512_set1_epi8(15));
    let (x_01, x_23) = (load_64::<0, _, _>(x), load_64::<64, _, _>(x));
    let x_first = _mm512_shuffle_i32x4::<0x88>(x_01, x_23);
    let x_second = _mm512_shuffle_i32x4::<0xdd>(x_01, x_23);
    let zero = _mm512_add_epi32(start(128, x_first), start(128, x_second));
    let mut quads = [zero; 4];
    for (g, quad) in quads.iter_mut().enumerate() {
        let mut rows = [zero; 4];
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: 4 g + i < 16, and the caller promises b < tile.blocks().
            let bytes = load_64::<AT, _, _>(unsafe { tile.block::<FETCH>(4 * g + i, b) });
            let first = _mm512_shuffle_epi8(values, _mm512_and_si512(bytes, low));
            let second = _mm512_shuffle_epi8(values, _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low));
            *row = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(*row, first, x_first), second, x_second);
        }
        *quad = sum_in_lanes(rows);
    }
    transpose_lanes(quads)
}

/// Returns the sum of the dot products times their sub-scales. The upper half of `header` has the upper 2 bits of the
/// sub-scales, `low` the lower 4 bits.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn scaled(dots: [[__m512i; 4]; 2], header: __m512i, low: __m512i) -> __m512i {
    let mut sum = _mm512_setzero_si512();
    let (mut low, mut high) = (low, _mm512_srli_epi32::<12>(header));
    for &dots in dots.as_flattened() {
        let four_bits = _mm512_and_si512(low, _mm512_set1_epi32(15));
        // 0xf8: a | b & c.
        let six_bits = _mm512_ternarylogic_epi32::<0xf8>(four_bits, high, _mm512_set1_epi32(0x30));
        let scale = _mm512_sub_epi32(six_bits, _mm512_set1_epi32(32));
        sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(dots, scale));
        (low, high) = (_mm512_srli_epi32::<4>(low), _mm512_srli_epi32::<2>(high));
    }
    sum
}

/// Returns the codes of IQ4_NL, plus 128, in each 128-bit lane.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn iq4_values() -> __m512i {
    const VALUES: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
    _mm512_broadcast_i32x4(load_16::<0, _, _>(&VALUES))
}
