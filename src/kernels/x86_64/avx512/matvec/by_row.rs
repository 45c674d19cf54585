//! Super-blocks that are unpacked row by row. A sum of four products of a code and an activation fits 16 bits:
//! 4 * 62 * 127 < 2^15. So two registers of such sums are packed to one of words, and the dot product of words with the
//! sub-scales is exact.

use core::arch::x86_64::*;

use super::k16::{Place, words};
use super::tile::{Tile, load_64, start, sum_in_lanes, sum_lanes, term};
use crate::kernels::x86_64::avx512::by_row::ByRow;
use crate::kernels::x86_64::avx512::panel::low_f16;
use crate::quant::QuantizedRow;

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn by_row<B: ByRow<Block = [u8; BYTES]>, const BYTES: usize, const R: usize>(
    tile: &Tile<'_, BYTES, 1>,
    x: QuantizedRow<'_>,
) -> __m512 {
    const { assert!(R == 1 || R == 2 || R == 4) };
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<256>().0.iter().zip(x.scales);
    for (b, (codes, &dx)) in blocks.enumerate().take(tile.blocks()) {
        let x = [
            load_64::<0, _, _>(codes),
            load_64::<64, _, _>(codes),
            load_64::<128, _, _>(codes),
            load_64::<192, _, _>(codes),
        ];
        let starts = x.map(|x| start(B::OFFSET, x));
        let mut quads = [_mm512_setzero_si512(); 4];
        for (g, quad) in quads.iter_mut().enumerate() {
            let mut rows = [_mm512_setzero_si512(); 4];
            for (i, rows) in rows.as_chunks_mut::<R>().0.iter_mut().enumerate() {
                // SAFETY: 4 g + R i + r < 16, and `take` keeps b below tile.blocks(); this function has the features.
                let blocks =
                    unsafe { B::unpack::<R>(core::array::from_fn(|r| tile.block::<true>(4 * g + R * i + r, b))) };
                for (row, block) in rows.iter_mut().zip(blocks) {
                    let mut dots = starts;
                    for (((dots, codes), &x), &negative) in
                        dots.iter_mut().zip(block.codes).zip(&x).zip(&block.negative)
                    {
                        // The codes are unsigned, so the signs go to the activations. No activation is -128.
                        let x = _mm512_mask_sub_epi8(x, negative, _mm512_setzero_si512(), x);
                        *dots = _mm512_dpbusd_epi32(*dots, codes, x);
                    }
                    *row = row_dots(dots, block.sub_scales);
                }
            }
            *quad = sum_in_lanes(rows);
        }
        const { assert!(B::SCALE[0] + 4 <= BYTES && B::SCALE[1] + 4 <= BYTES) };
        // SAFETY: `take` keeps b below tile.blocks(), and a block has 4 bytes at these places; this function has the
        // features.
        let bits = unsafe {
            let [first, second] = B::SCALE.map(|at| tile.gather_at(b, at));
            B::scale_bits(first, second)
        };
        let scale = _mm512_mul_ps(low_f16(bits), _mm512_set1_ps(B::FACTOR));
        acc = _mm512_add_ps(acc, term(sum_lanes(quads), scale, dx));
    }
    acc
}

/// Returns the sums of the products of a row, times its sub-scales, in 16 lanes. `dots` has the sums of four products
/// each, 64 codes per register.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64::avx512) fn row_dots([a, b, c, d]: [__m512i; 4], sub_scales: __m128i) -> __m512i {
    let sub_scales = _mm512_broadcast_i32x4(sub_scales);
    let [first, second] = [0, 8].map(|from| _mm512_shuffle_epi8(sub_scales, words(from, Place::Lower)));
    let dots = _mm512_dpwssd_epi32(_mm512_setzero_si512(), _mm512_packs_epi32(a, b), first);
    _mm512_dpwssd_epi32(dots, _mm512_packs_epi32(c, d), second)
}
