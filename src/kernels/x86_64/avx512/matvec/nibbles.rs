//! Blocks of 32 with the low bits of two codes in a byte: Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL. Four blocks of a row
//! in two registers, one with the first halves of the blocks and one with the second.

use core::arch::x86_64::*;

use super::tile::{Tile, four_lanes, high_f16, load_16, load_64, low_f16, start, sum_in_lanes, term, transpose_lanes};
use crate::quant::QuantizedRow;

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q4_0(tile: &Tile<'_, 18>, x: QuantizedRow<'_>) -> __m512 {
    dots::<18, 2, 8, false>(tile, x, |_, codes| codes)
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q4_1(tile: &Tile<'_, 20>, x: QuantizedRow<'_>) -> __m512 {
    dots::<20, 4, 0, true>(tile, x, |_, codes| codes)
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q5_0(tile: &Tile<'_, 22>, x: QuantizedRow<'_>) -> __m512 {
    dots::<22, 6, 16, false>(tile, x, |blocks, codes| {
        five_bits(blocks.map(|&[_, _, a, b, c, d, ..]| [a, b, c, d]), codes)
    })
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q5_1(tile: &Tile<'_, 24>, x: QuantizedRow<'_>) -> __m512 {
    dots::<24, 8, 0, true>(tile, x, |blocks, codes| {
        five_bits(blocks.map(|&[_, _, _, _, a, b, c, d, ..]| [a, b, c, d]), codes)
    })
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn iq4_nl(tile: &Tile<'_, 18>, x: QuantizedRow<'_>) -> __m512 {
    let values = iq4_values();
    dots::<18, 2, 128, false>(tile, x, |_, [first, second]| {
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

/// Codes with bit 4 from the blocks' 32 high bits.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn five_bits(high: [[u8; 4]; 4], [first, second]: [__m512i; 2]) -> [__m512i; 2] {
    let [a, b, c, d] = high.map(|bits| u64::from(u32::from_le_bytes(bits)));
    let low_16 = 0xffff;
    let first_bits = a & low_16 | (b & low_16) << 16 | (c & low_16) << 32 | d << 48;
    let second_bits = a >> 16 | b >> 16 << 16 | c >> 16 << 32 | d >> 16 << 48;
    let bit = _mm512_set1_epi8(16);
    [_mm512_mask_add_epi8(first, first_bits, first, bit), _mm512_mask_add_epi8(second, second_bits, second, bit)]
}

/// Four successive blocks of activations.
#[derive(Clone, Copy)]
struct Four<'a> {
    codes: &'a [i8; 128],
    scales: &'a [f32; 4],
    sums: &'a [i16; 8],
}

/// The dot products of rows whose blocks have 16 bytes of nibbles from byte `AT` on.
///
/// `unpack` makes of the nibbles of four blocks their codes plus `OFFSET`; `MIN` is whether a minimum follows
/// the scale.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn dots<const BYTES: usize, const AT: usize, const OFFSET: u8, const MIN: bool>(
    tile: &Tile<'_, BYTES>,
    x: QuantizedRow<'_>,
    unpack: impl Fn([&[u8; BYTES]; 4], [__m512i; 2]) -> [__m512i; 2],
) -> __m512 {
    let mut acc = _mm512_setzero_ps();
    let (codes, last_codes) = x.codes.as_chunks::<128>();
    let (scales, last_scales) = x.scales.as_chunks::<4>();
    let (sums, last_sums) = x.sums.as_chunks::<8>();
    for (i, ((codes, scales), sums)) in codes.iter().zip(scales).zip(sums).enumerate() {
        // SAFETY: `x` has as many blocks as the tile, and these are four of them.
        unsafe {
            let x = Four { codes, scales, sums };
            let dots = four_dots::<BYTES, AT, OFFSET>(tile, 4 * i, 4, x.codes, &unpack);
            acc = add::<BYTES, MIN>(tile, 4 * i, 4, x, dots, acc);
        }
    }
    if !last_scales.is_empty() {
        let (mut codes, mut scales_4, mut sums) = ([0; 128], [0.0; 4], [0; 8]);
        codes.iter_mut().zip(last_codes).for_each(|(to, from)| *to = *from);
        scales_4.iter_mut().zip(last_scales).for_each(|(to, from)| *to = *from);
        sums.iter_mut().zip(last_sums).for_each(|(to, from)| *to = *from);
        let (b, count) = (4 * scales.len(), last_scales.len());
        // SAFETY: these are the last blocks of `x`, which has as many as the tile, and not none.
        unsafe {
            let x = Four { codes: &codes, scales: &scales_4, sums: &sums };
            let dots = four_dots::<BYTES, AT, OFFSET>(tile, b, count, x.codes, &unpack);
            acc = add::<BYTES, MIN>(tile, b, count, x, dots, acc);
        }
    }
    acc
}

/// The integer dot products of up to four blocks of each row, each with its part of `x`.
///
/// # Safety
/// `count` is 1 to 4 and `b + count` at most `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn four_dots<const BYTES: usize, const AT: usize, const OFFSET: u8>(
    tile: &Tile<'_, BYTES>,
    b: usize,
    count: usize,
    x: &[i8; 128],
    unpack: impl Fn([&[u8; BYTES]; 4], [__m512i; 2]) -> [__m512i; 2],
) -> [__m512i; 4] {
    let (x_01, x_23) = (load_64::<0, _, _>(x), load_64::<64, _, _>(x));
    let x_first = _mm512_shuffle_i32x4::<0x88>(x_01, x_23);
    let x_second = _mm512_shuffle_i32x4::<0xdd>(x_01, x_23);
    let low = _mm512_set1_epi8(15);
    let zero = if OFFSET == 0 {
        _mm512_setzero_si512()
    } else {
        _mm512_add_epi32(start(OFFSET, x_first), start(OFFSET, x_second))
    };
    let at = [b, b + 1.min(count - 1), b + 2.min(count - 1), b + 3.min(count - 1)];
    let mut quads = [zero; 4];
    for (g, quad) in quads.iter_mut().enumerate() {
        let mut rows = [zero; 4];
        for (i, row) in rows.iter_mut().enumerate() {
            let r = 4 * g + i;
            // SAFETY: r < 16; the blocks are there by the caller's promise.
            let blocks = unsafe {
                [
                    tile.block::<1>(r, at[0]),
                    tile.block::<0>(r, at[1]),
                    tile.block::<0>(r, at[2]),
                    tile.block::<0>(r, at[3]),
                ]
            };
            let bytes = four_lanes::<AT, BYTES>(blocks);
            let nibbles = [_mm512_and_si512(bytes, low), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low)];
            let [first, second] = unpack(blocks, nibbles);
            *row = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(*row, first, x_first), second, x_second);
        }
        *quad = sum_in_lanes(rows);
    }
    transpose_lanes(quads)
}

/// `acc` and what the blocks add to it, in their order.
///
/// # Safety
/// `b + count` is at most `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add<const BYTES: usize, const MIN: bool>(
    tile: &Tile<'_, BYTES>,
    b: usize,
    count: usize,
    x: Four<'_>,
    dots: [__m512i; 4],
    mut acc: __m512,
) -> __m512 {
    let x = x.scales.iter().zip(x.sums.as_chunks::<2>().0);
    for (j, (dots, (&dx, sums))) in dots.into_iter().zip(x).enumerate().take(count) {
        // SAFETY: j < count.
        let header = unsafe { tile.gather::<0>(b + j) };
        acc = _mm512_add_ps(acc, term(dots, low_f16(header), dx));
        if MIN {
            let [first, second] = sums.map(i32::from);
            acc = _mm512_add_ps(acc, term(_mm512_set1_epi32(first + second), high_f16(header), dx));
        }
    }
    acc
}
