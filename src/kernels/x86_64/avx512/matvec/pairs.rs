//! Blocks of 32, two of a row in a register: Q8_0, Q5_0, Q5_1.

use core::arch::x86_64::*;

use super::tile::{
    Tile, halves, high_f16, load_16, load_32, load_64, load_u32, low_f16, start, sum_halves, sum_in_lanes, term,
};
use crate::quant::QuantizedRow;

/// The dot product of bytes takes unsigned weights: flipping the top bit adds 128 to a code.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q8_0(tile: &Tile<'_, 34>, x: QuantizedRow<'_>) -> __m512 {
    let top = _mm512_set1_epi8(-128);
    dots::<34, 128, false>(tile, x, |a, b| _mm512_xor_si512(halves(load_32::<2, _, _>(a), load_32::<2, _, _>(b)), top))
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q5_0(tile: &Tile<'_, 22>, x: QuantizedRow<'_>) -> __m512 {
    dots::<22, 16, false>(tile, x, |a, b| five_bits::<2, 6, _>(a, b))
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q5_1(tile: &Tile<'_, 24>, x: QuantizedRow<'_>) -> __m512 {
    dots::<24, 0, true>(tile, x, |a, b| five_bits::<4, 8, _>(a, b))
}

/// 5-bit codes whose high bits begin at byte `HIGH` and whose low ones at byte `LOW`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn five_bits<const HIGH: usize, const LOW: usize, const BYTES: usize>(a: &[u8; BYTES], b: &[u8; BYTES]) -> __m512i {
    let twice = |bytes| _mm256_broadcastsi128_si256(bytes);
    let bytes = halves(twice(load_16::<LOW, _, _>(a)), twice(load_16::<LOW, _, _>(b)));
    // A block's low nibbles are its first half.
    let nibbles = _mm512_srlv_epi64(bytes, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4));
    let bits = u64::from(load_u32::<HIGH, _>(a)) | u64::from(load_u32::<HIGH, _>(b)) << 32;
    let high = _mm512_maskz_mov_epi8(bits, _mm512_set1_epi8(16));
    // 0xea: a & b | c.
    _mm512_ternarylogic_epi32::<0xea>(nibbles, _mm512_set1_epi8(15), high)
}

/// The dot products of rows whose blocks begin with their scale.
///
/// `unpack` makes of two blocks their codes plus `OFFSET`; `MIN` is whether a minimum follows the scale.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn dots<const BYTES: usize, const OFFSET: u8, const MIN: bool>(
    tile: &Tile<'_, BYTES>,
    x: QuantizedRow<'_>,
    unpack: impl Fn(&[u8; BYTES], &[u8; BYTES]) -> __m512i,
) -> __m512 {
    let mut acc = _mm512_setzero_ps();
    let (codes, last_codes) = x.codes.as_chunks::<64>();
    let (scales, last_scale) = x.scales.as_chunks::<2>();
    let (sums, last_sums) = x.sums.as_chunks::<4>();
    let pairs = codes.iter().zip(scales).zip(sums);
    for (i, ((codes, [dx_0, dx_1]), [s_0, s_1, s_2, s_3])) in pairs.enumerate().take(tile.blocks() / 2) {
        // SAFETY: i < tile.blocks() / 2, so 2 i + 1 < tile.blocks().
        unsafe {
            let x = load_64::<0, _, _>(codes);
            let [first, second] = pair_dots::<BYTES, OFFSET>(tile, [2 * i, 2 * i + 1], x, &unpack);
            acc = add::<BYTES, MIN>(acc, tile, 2 * i, first, *dx_0, [*s_0, *s_1]);
            acc = add::<BYTES, MIN>(acc, tile, 2 * i + 1, second, *dx_1, [*s_2, *s_3]);
        }
    }
    let b = 2 * scales.len();
    if let (Some(codes), [dx], Some(sums)) = (last_codes.first_chunk(), last_scale, last_sums.first_chunk())
        && b < tile.blocks()
    {
        // SAFETY: b < tile.blocks(), as the condition says.
        unsafe {
            let x = _mm512_zextsi256_si512(load_32::<0, i8, 32>(codes));
            let [dots, _] = pair_dots::<BYTES, OFFSET>(tile, [b, b], x, &unpack);
            acc = add::<BYTES, MIN>(acc, tile, b, dots, *dx, *sums);
        }
    }
    acc
}

/// The integer dot products of two blocks of each row with their halves of `x`, lanes = rows.
///
/// # Safety
/// Both are below `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn pair_dots<const BYTES: usize, const OFFSET: u8>(
    tile: &Tile<'_, BYTES>,
    [first, second]: [usize; 2],
    x: __m512i,
    unpack: impl Fn(&[u8; BYTES], &[u8; BYTES]) -> __m512i,
) -> [__m512i; 2] {
    let zero = if OFFSET == 0 { _mm512_setzero_si512() } else { start(OFFSET, x) };
    let mut quads = [zero; 4];
    for (g, quad) in quads.iter_mut().enumerate() {
        let mut rows = [zero; 4];
        for (i, row) in rows.iter_mut().enumerate() {
            // SAFETY: 4 g + i < 16, and the caller promises that both blocks are below tile.blocks().
            let (a, b) = unsafe { (tile.block::<1>(4 * g + i, first), tile.block::<0>(4 * g + i, second)) };
            *row = _mm512_dpbusd_epi32(*row, unpack(a, b), x);
        }
        *quad = sum_in_lanes(rows);
    }
    sum_halves(quads)
}

/// `acc` and what block `b` adds to it.
///
/// # Safety
/// `b` < `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add<const BYTES: usize, const MIN: bool>(
    acc: __m512,
    tile: &Tile<'_, BYTES>,
    b: usize,
    dots: __m512i,
    dx: f32,
    sums: [i16; 2],
) -> __m512 {
    // SAFETY: the caller promises b < tile.blocks().
    let header = unsafe { tile.gather::<0>(b) };
    let acc = _mm512_add_ps(acc, term(dots, low_f16(header), dx));
    if !MIN {
        return acc;
    }
    let [first, second] = sums.map(i32::from);
    _mm512_add_ps(acc, term(_mm512_set1_epi32(first + second), high_f16(header), dx))
}
