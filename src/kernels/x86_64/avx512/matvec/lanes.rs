//! Formats of 1 and 2 bits whose codes come from a shift and a mask: Q1_0, Q2_0, TQ2_0.
//!
//! A lane belongs to a row from the beginning. 16 bytes of each of 16 rows are transposed, so that a lane has 4 bytes
//! of its row. Four codes of each lane at a time are multiplied with four activations that all lanes share. So no
//! partial sums have to be added across lanes. Where the four codes that a shift and a mask leave are not neighbours,
//! the activations are put in the same order.

use core::arch::x86_64::*;

use super::tile::{Tile, load_32, term};
use crate::kernels::x86_64::avx512::panel::{bits, by_fours, high_f16, low_f16};
use crate::quant::QuantizedRow;

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q1_0(tile: &Tile<'_, 18, 4>, x: QuantizedRow<'_>) -> __m512 {
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<128>().0.iter().zip(x.scales.as_chunks::<4>().0).zip(x.sums.as_chunks::<8>().0);
    for (b, ((codes, scales), sums)) in blocks.enumerate().take(tile.blocks()) {
        // SAFETY: `take` keeps b below tile.blocks().
        let (columns, header) = unsafe { (columns::<2, _, _>(tile, b), tile.gather::<0>(b)) };
        let scale = low_f16(header);
        let parts = codes.as_chunks::<32>().0.iter().zip(scales).zip(sums.as_chunks::<2>().0);
        for (bits_of_32, ((codes, &dx), sums)) in columns.into_iter().zip(parts) {
            let x = every_eighth(codes);
            let (mut even, mut odd) = (_mm512_setzero_si512(), _mm512_setzero_si512());
            for (i, &[x_even, x_odd]) in x.as_chunks::<2>().0.iter().enumerate() {
                // Bits j, j + 8, j + 16 and j + 24 for j = 2 i and 2 i + 1.
                even = _mm512_dpbusd_epi32(even, bits(bits_of_32, 2 * i, 1), _mm512_set1_epi32(x_even));
                odd = _mm512_dpbusd_epi32(odd, bits(bits_of_32, 2 * i + 1, 1), _mm512_set1_epi32(x_odd));
            }
            // A code is twice the bit minus 1.
            let dots = _mm512_add_epi32(even, odd);
            let twice = _mm512_add_epi32(dots, dots);
            acc = _mm512_add_ps(acc, term(_mm512_sub_epi32(twice, total(sums)), scale, dx));
        }
    }
    acc
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn q2_0(tile: &Tile<'_, 18, 4>, x: QuantizedRow<'_>) -> __m512 {
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<64>().0.iter().zip(x.scales.as_chunks::<2>().0).zip(x.sums.as_chunks::<4>().0);
    for (b, ((codes, scales), sums)) in blocks.enumerate().take(tile.blocks()) {
        // SAFETY: `take` keeps b below tile.blocks().
        let (columns, header) = unsafe { (columns::<2, _, _>(tile, b), tile.gather::<0>(b)) };
        let scale = low_f16(header);
        let parts = codes.as_chunks::<32>().0.iter().zip(scales).zip(sums.as_chunks::<2>().0);
        for (columns, ((codes, &dx), sums)) in columns.as_chunks::<2>().0.iter().zip(parts) {
            let x = every_fourth(codes);
            let mut dots = [_mm512_setzero_si512(); 2];
            for ((dots, &column), x) in dots.iter_mut().zip(columns).zip(x.as_chunks::<4>().0) {
                for (j, &x) in x.iter().enumerate() {
                    // Codes j, j + 4, j + 8 and j + 12.
                    *dots = _mm512_dpbusd_epi32(*dots, bits(column, 2 * j, 3), _mm512_set1_epi32(x));
                }
            }
            let dots = _mm512_add_epi32(dots[0], dots[1]);
            acc = _mm512_add_ps(acc, term(_mm512_sub_epi32(dots, total(sums)), scale, dx));
        }
    }
    acc
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn tq2_0(tile: &Tile<'_, 66, 1>, x: QuantizedRow<'_>) -> __m512 {
    let mut acc = _mm512_setzero_ps();
    let blocks = x.codes.as_chunks::<256>().0.iter().zip(x.scales).zip(x.sums.as_chunks::<16>().0);
    for (b, ((codes, &dx), sums)) in blocks.enumerate().take(tile.blocks()) {
        let (x, _) = codes.as_chunks::<4>();
        // Codes 32 j + 4 i to 32 j + 4 i + 3 of half a block are in the same bits of the same four bytes.
        let mut dots = [_mm512_setzero_si512(); 4];
        // SAFETY: `take` keeps b below tile.blocks().
        let (quarters, header) = unsafe {
            let half = |low: [__m512i; 4], high: [__m512i; 4]| [low, high];
            let first = half(columns::<0, _, _>(tile, b), columns_again::<16, _, _>(tile, b));
            let second = half(columns_again::<32, _, _>(tile, b), columns_again::<48, _, _>(tile, b));
            ([first, second], tile.gather::<62>(b))
        };
        for (columns, x) in quarters.iter().zip(x.as_chunks::<32>().0) {
            for (i, &column) in columns.as_flattened().iter().enumerate() {
                for (j, dots) in dots.iter_mut().enumerate() {
                    let x = x.get(8 * j + i).map_or(0, |x| i32::from_le_bytes(x.map(i8::cast_unsigned)));
                    *dots = _mm512_dpbusd_epi32(*dots, bits(column, 2 * j, 3), _mm512_set1_epi32(x));
                }
            }
        }
        let [a, b, c, d] = dots;
        let dots = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
        acc = _mm512_add_ps(acc, term(_mm512_sub_epi32(dots, total(sums)), high_f16(header), dx));
    }
    acc
}

/// Returns bytes `AT..AT + 16` of block `b` of each row: lane r of register i has bytes 4 i to 4 i + 3 of row r. With
/// every `TOGETHER`-th block, fetches as many bytes of the next rows as `TOGETHER` blocks of each row have.
///
/// # Safety
/// `b` < `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn columns<const AT: usize, const BYTES: usize, const TOGETHER: usize>(
    tile: &Tile<'_, BYTES, TOGETHER>,
    b: usize,
) -> [__m512i; 4] {
    // SAFETY: the caller promises b < tile.blocks().
    unsafe {
        if b.is_multiple_of(TOGETHER) {
            by_fours(tile.headers::<AT, true>(b))
        } else {
            by_fours(tile.headers::<AT, false>(b))
        }
    }
}

/// As [`columns`], without fetching.
///
/// # Safety
/// `b` < `tile.blocks()`.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn columns_again<const AT: usize, const BYTES: usize, const TOGETHER: usize>(
    tile: &Tile<'_, BYTES, TOGETHER>,
    b: usize,
) -> [__m512i; 4] {
    // SAFETY: the caller promises b < tile.blocks().
    by_fours(unsafe { tile.headers::<AT, false>(b) })
}

/// Returns dwords of activations: dword j has codes j, j + 8, j + 16 and j + 24.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn every_eighth(codes: &[i8; 32]) -> [i32; 8] {
    let halves = _mm256_permutevar8x32_epi32(load_32::<0, _, _>(codes), _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
    stored(bytes_transposed(halves))
}

/// Returns dwords of activations: dwords j and 4 + j have codes j, j + 4, j + 8 and j + 12 of the first and of the
/// second half.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn every_fourth(codes: &[i8; 32]) -> [i32; 8] {
    stored(bytes_transposed(load_32::<0, _, _>(codes)))
}

/// Transposes the 4x4 matrix of bytes in each 128-bit lane.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn bytes_transposed(bytes: __m256i) -> __m256i {
    let order = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(order))
}

#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn stored(dwords: __m256i) -> [i32; 8] {
    let mut array = [0; 8];
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(array.as_mut_ptr().cast(), dwords) };
    array
}

/// Returns the sum of the activations of a block, in all lanes.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn total(sums: &[i16]) -> __m512i {
    _mm512_set1_epi32(sums.iter().map(|&sum| i32::from(sum)).sum())
}
