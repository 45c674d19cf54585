//! Blocks of 32, two of a row in a register: Q8_0, Q5_0, Q5_1.

use core::arch::x86_64::*;

use super::tile::{
    Tile, fours, halves, high_f16, load_16, load_32, load_64, load_u32, low_f16, part, start, sum_halves, sum_in_lanes,
    term,
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

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn few_q8_0<const N: usize>(tile: &Tile<'_, 34>, x: &[QuantizedRow<'_>; N]) -> [__m512; N] {
    let top = _mm512_set1_epi8(-128);
    few_dots::<34, 128, false, N>(tile, x, |a, b| {
        _mm512_xor_si512(halves(load_32::<2, _, _>(a), load_32::<2, _, _>(b)), top)
    })
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn few_q5_0<const N: usize>(tile: &Tile<'_, 22>, x: &[QuantizedRow<'_>; N]) -> [__m512; N] {
    few_dots::<22, 16, false, N>(tile, x, |a, b| five_bits::<2, 6, _>(a, b))
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn few_q5_1<const N: usize>(tile: &Tile<'_, 24>, x: &[QuantizedRow<'_>; N]) -> [__m512; N] {
    few_dots::<24, 0, true, N>(tile, x, |a, b| five_bits::<4, 8, _>(a, b))
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

/// As [`dots`], with `N` rows of activations.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn few_dots<const BYTES: usize, const OFFSET: u8, const MIN: bool, const N: usize>(
    tile: &Tile<'_, BYTES>,
    x: &[QuantizedRow<'_>; N],
    unpack: impl Fn(&[u8; BYTES], &[u8; BYTES]) -> __m512i,
) -> [__m512; N] {
    let mut acc = [_mm512_setzero_ps(); N];
    let mut codes = [_mm512_setzero_si512(); N];
    for first in (0..tile.blocks()).step_by(2) {
        // Where the number is odd, the last block stands in for another one, with activations of zero, and nothing is added.
        let second = (first + 1).min(tile.blocks() - 1);
        let is_pair = second > first;
        let bytes = if is_pair { u64::MAX } else { u64::from(u32::MAX) };
        let lanes = if is_pair { u16::MAX } else { 0 };
        // SAFETY: both are below tile.blocks(), with whose number `tiles` has compared those of codes, scales and sums; what the
        // mask leaves out is not read.
        unsafe {
            // First of all: they take longest.
            let headers = [tile.gather::<0>(first), tile.gather::<0>(second)];
            for (codes, x) in codes.iter_mut().zip(x) {
                *codes = _mm512_maskz_loadu_epi8(bytes, x.codes.as_ptr().add(32 * first));
            }
            let dots = few_pair_dots::<BYTES, OFFSET, N>(tile, [first, second], &codes, &unpack);
            few_add::<MIN, N>(&mut acc, u16::MAX, headers[0], &dots[0], first, x);
            few_add::<MIN, N>(&mut acc, lanes, headers[1], &dots[1], second, x);
        }
    }
    acc
}

/// The integer dot products of two blocks of each row with their halves of `codes`, lanes = rows.
///
/// # Safety
/// Both are below `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn few_pair_dots<const BYTES: usize, const OFFSET: u8, const N: usize>(
    tile: &Tile<'_, BYTES>,
    [first, second]: [usize; 2],
    codes: &[__m512i; N],
    unpack: impl Fn(&[u8; BYTES], &[u8; BYTES]) -> __m512i,
) -> [[__m512i; N]; 2] {
    let mut zero = [_mm512_setzero_si512(); N];
    if OFFSET != 0 {
        for (zero, codes) in zero.iter_mut().zip(codes) {
            *zero = start(OFFSET, *codes);
        }
    }
    let mut quads = [[_mm512_setzero_si512(); N]; 4];
    for (g, quads) in quads.iter_mut().enumerate() {
        let mut rows = [[_mm512_setzero_si512(); N]; 4];
        for (i, rows) in rows.iter_mut().enumerate() {
            // SAFETY: 4 g + i < 16, and the caller promises that both blocks are below tile.blocks().
            let (a, b) = unsafe { (tile.block::<1>(4 * g + i, first), tile.block::<0>(4 * g + i, second)) };
            let weights = unpack(a, b);
            for ((row, codes), zero) in rows.iter_mut().zip(codes).zip(&zero) {
                *row = _mm512_dpbusd_epi32(*zero, weights, *codes);
            }
        }
        for (quad, rows) in quads.iter_mut().zip(fours(&rows)) {
            *quad = sum_in_lanes(rows);
        }
    }
    let mut dots = [[_mm512_setzero_si512(); N]; 2];
    let [first, second] = &mut dots;
    for ((first, second), quads) in first.iter_mut().zip(second).zip(fours(&quads)) {
        [*first, *second] = sum_halves(quads);
    }
    dots
}

/// Adds what block `b` gives, which begins with `header`, in some lanes.
///
/// # Safety
/// `x` have this block.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn few_add<const MIN: bool, const N: usize>(
    acc: &mut [__m512; N],
    lanes: u16,
    header: __m512i,
    dots: &[__m512i; N],
    b: usize,
    x: &[QuantizedRow<'_>; N],
) {
    let scale = low_f16(header);
    for ((acc, dots), x) in acc.iter_mut().zip(dots).zip(x) {
        // SAFETY: the caller promises the block, which has a scale and two sums.
        let (dx, [first, second]) = unsafe { (*x.scales.get_unchecked(b), *part::<i16, 2>(x.sums, 2 * b)) };
        *acc = _mm512_mask_add_ps(*acc, lanes, *acc, term(*dots, scale, dx));
        if MIN {
            let sum = i32::from(first) + i32::from(second);
            *acc = _mm512_mask_add_ps(*acc, lanes, *acc, term(_mm512_set1_epi32(sum), high_f16(header), dx));
        }
    }
}
