//! IQ3_S: 16 indices at a time are gathered from the codebook, which makes 64 codes of two sub-blocks.
//!
//! A sum of four products of a code of at most 15 and an activation fits in 16 bits, so two registers of such sums are packed
//! to one of words, and the dot product of words with the sub-scales is exact.

use core::arch::x86_64::*;

use super::tile::{Tile, load_16, load_64, low_f16, sum_in_lanes, sum_lanes, term};
use crate::quant::{IQ3_S, QuantizedRow};

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn iq3_s(tile: &Tile<'_, 110>, x: QuantizedRow<'_>) -> __m512 {
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<256>().0.iter().zip(x.scales);
    for (b, (codes, &dx)) in blocks.enumerate().take(tile.blocks()) {
        let x = [
            load_64::<0, _, _>(codes),
            load_64::<64, _, _>(codes),
            load_64::<128, _, _>(codes),
            load_64::<192, _, _>(codes),
        ];
        let mut quads = [_mm512_setzero_si512(); 4];
        for (g, quad) in quads.iter_mut().enumerate() {
            let mut rows = [_mm512_setzero_si512(); 4];
            for (i, row) in rows.iter_mut().enumerate() {
                // SAFETY: 4 g + i < 16, and `take` keeps b below tile.blocks().
                *row = row_dots(unsafe { tile.block::<2>(4 * g + i, b) }, &x);
            }
            *quad = sum_in_lanes(rows);
        }
        // SAFETY: `take` keeps b below tile.blocks().
        let header = unsafe { tile.gather::<0>(b) };
        acc = _mm512_add_ps(acc, term(sum_lanes(quads), low_f16(header), dx));
    }
    acc
}

/// The products of a row, times its sub-scales, in 16 lanes.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn row_dots(block: &[u8; 110], x: &[__m512i; 4]) -> __m512i {
    let [a, b, c, d] = [
        dots_of_64::<2, 66, 74>(block, x[0]),
        dots_of_64::<18, 68, 82>(block, x[1]),
        dots_of_64::<34, 70, 90>(block, x[2]),
        dots_of_64::<50, 72, 98>(block, x[3]),
    ];
    // Sub-scales 0 to 7 as words, each in the place of its sub-blocks' sums: a lane has words of two registers.
    let (first, second) = (_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
    let nibbles = _mm_cvtsi32_si128(super::tile::load_u32::<106, _>(block) as i32);
    let bytes = _mm_unpacklo_epi8(nibbles, _mm_srli_epi16::<4>(nibbles));
    let nibbles = _mm_and_si128(bytes, _mm_set1_epi8(15));
    let odd = _mm_or_si128(_mm_add_epi8(nibbles, nibbles), _mm_set1_epi8(1));
    let scales = _mm512_broadcast_i32x4(odd);
    let dots = _mm512_dpwssd_epi32(_mm512_setzero_si512(), first, _mm512_shuffle_epi8(scales, scale_words(0)));
    _mm512_dpwssd_epi32(dots, second, _mm512_shuffle_epi8(scales, scale_words(4)))
}

/// Which bytes make the words of the sub-scales `from` to `from + 3` that belong to packed sums: those of sub-blocks `from` and
/// `from + 2` in the lower two lanes, of the next ones in the upper.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn scale_words(from: i64) -> __m512i {
    // A word is a byte and a zero (an index with the top bit).
    let words = |sub: i64| 0x8000_8000_8000_8000_u64 as i64 | (sub * 0x0001_0001_0001_0001);
    let (a, b, c, d) = (words(from), words(from + 2), words(from + 1), words(from + 3));
    _mm512_setr_epi64(a, b, a, b, c, d, c, d)
}

/// The products of 64 codes, four in a lane: their indices begin at byte `LOW`, the upper bits of these at `HIGH`, their signs
/// at `SIGNS`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn dots_of_64<const LOW: usize, const HIGH: usize, const SIGNS: usize>(block: &[u8; 110], x: __m512i) -> __m512i {
    const { assert!(HIGH + 2 <= 110 && SIGNS + 8 <= 110) };
    // SAFETY: the bytes are within the block, as asserted when this is compiled.
    let (high, signs) = unsafe {
        let at = |at: usize| block.as_ptr().add(at);
        (at(HIGH).cast::<u16>().read_unaligned(), at(SIGNS).cast::<u64>().read_unaligned())
    };
    let low = _mm512_cvtepu8_epi32(load_16::<LOW, _, _>(block));
    let indices = _mm512_mask_add_epi32(low, high, low, _mm512_set1_epi32(256));
    // SAFETY: an index is below 512, the number of entries.
    let codes = unsafe { _mm512_i32gather_epi32::<4>(indices, IQ3_S.as_ptr().cast()) };
    // The codes are unsigned, so the activations take their signs; no activation is -128.
    let x = _mm512_mask_sub_epi8(x, signs, _mm512_setzero_si512(), x);
    _mm512_dpbusd_epi32(_mm512_setzero_si512(), codes, x)
}
