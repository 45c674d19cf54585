//! Products of panels with blocks of 32 and rows of activations.

use core::arch::x86_64::*;

use super::matmul::{Input, Sums};
use super::panel_32::{Layout32, Panel32};
use crate::kernels::x86_64::ahead::Ahead;

/// Adds the products of a panel with `ROWS` rows of activations to `out`, 32 elements per row.
///
/// The integers of a block are summed four codes at a time. Every row of activations has its sums with 32 rows of
/// weights in two registers. A sum starts at minus the offset of the panel's codes times the sum of the activations,
/// which removes the offset.
///
/// # Safety
/// There are at most 32 blocks and 8 rows. Every input has 32 codes, one scale and two sums per block of the
/// panel, and `out` has room for all rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn add_products<L: Layout32<PARTS>, const PARTS: usize, const ROWS: usize>(
    panel: &[Panel32],
    inputs: &[Input; ROWS],
    sums: &mut Sums,
    ahead: Ahead,
    out: *mut f32,
) {
    for (row, input) in inputs.iter().enumerate() {
        // SAFETY: the caller promises at most 32 blocks and 8 rows, and that the input has them.
        unsafe { prepare::<L, PARTS>(input, panel.len(), sums, row) };
    }
    for (b, block) in panel.iter().enumerate() {
        if ROWS == 8 {
            ahead.fetch(Ahead::UNITS * b, Ahead::UNITS);
        }
        for (part, codes) in block.codes.chunks_exact(const { 8 / L::SCALES }).enumerate() {
            let at = L::SCALES * b + part;
            let mut isums = [[_mm512_setzero_si512(); 2]; ROWS];
            if L::OFFSET != 0 {
                for (isum, starts) in isums.iter_mut().zip(&sums.starts) {
                    // SAFETY: the caller promises at most 32 blocks, so `at` is below 64 of 256.
                    *isum = [_mm512_set1_epi32(unsafe { *starts.get_unchecked(at) }); 2];
                }
            }
            for (quarter, codes) in codes.as_chunks::<4>().0.iter().enumerate() {
                for (k, [w0, w1]) in (8 / L::SCALES * part + 4 * quarter..).zip(codes) {
                    if ROWS < 8 {
                        ahead.fetch(Ahead::UNITS * b + k, 1);
                    }
                    for (isum, input) in isums.iter_mut().zip(inputs) {
                        // SAFETY: the caller promises 32 codes per block of the panel: these are 4 k to 4 k + 3 of
                        // block b.
                        let x = unsafe { input.codes.add(32 * b + 4 * k).cast::<i32>().read_unaligned() };
                        let x = _mm512_set1_epi32(x);
                        isum[0] = _mm512_dpbusd_epi32(isum[0], *w0, x);
                        isum[1] = _mm512_dpbusd_epi32(isum[1], *w1, x);
                    }
                }
            }
            let scales = if part == 0 { &block.scale } else { &block.min };
            for (row, ((isum, input), totals)) in isums.iter().zip(inputs).zip(&sums.pairs).enumerate() {
                for (g, ((&isum, &scale), &min)) in isum.iter().zip(scales).zip(&block.min).enumerate() {
                    // SAFETY: the caller promises a scale per block of the panel and 32 elements of `out` per row; g <
                    // 2, and b is below 32, the number of totals.
                    unsafe {
                        let dx = _mm512_set1_ps(*input.scales.add(b));
                        let out = out.add(32 * row + 16 * g);
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(scale, dx));
                        let mut acc = _mm512_add_ps(_mm512_loadu_ps(out), product);
                        if L::MIN {
                            let total = _mm512_set1_ps(f32::from_bits(*totals.get_unchecked(b) as u32));
                            acc = _mm512_add_ps(acc, _mm512_mul_ps(total, _mm512_mul_ps(min, dx)));
                        }
                        _mm512_storeu_ps(out, acc);
                    }
                }
            }
        }
    }
}

/// Computes the sums of the activations of `blocks` blocks that [`add_products`] needs: the starts of the integer sums
/// of each scale, and the f32 totals for the minima.
///
/// # Safety
/// As for [`add_products`]; `row` is below 8.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn prepare<L: Layout32<PARTS>, const PARTS: usize>(
    input: &Input,
    blocks: usize,
    sums: &mut Sums,
    row: usize,
) {
    const { assert!(L::SCALES == 1 || L::SCALES == 2 && !L::MIN && L::OFFSET <= 16) };
    for first in [0, 16] {
        if first >= blocks {
            return;
        }
        let pairs = (1_u32 << (blocks - first).min(16)).wrapping_sub(1) as u16;
        // SAFETY: the mask leaves only sums of the blocks, which the caller promises; row is below 8, `starts` and
        // `pairs` have 32 elements at least, and first is at most 16.
        unsafe {
            let of_16 = _mm512_maskz_loadu_epi32(pairs, input.sums.add(2 * first).cast());
            let starts = sums.starts.get_unchecked_mut(row).as_mut_ptr().add(L::SCALES * first);
            if L::SCALES == 2 {
                // The magnitude is at most 16 * 127 * 12, which fits a word.
                let each = _mm512_mullo_epi16(of_16, _mm512_set1_epi16(-L::OFFSET));
                let upper = _mm512_extracti64x4_epi64::<1>(each);
                _mm512_storeu_si512(starts.cast(), _mm512_cvtepi16_epi32(_mm512_castsi512_si256(each)));
                _mm512_storeu_si512(starts.add(16).cast(), _mm512_cvtepi16_epi32(upper));
            } else if L::OFFSET != 0 {
                _mm512_storeu_si512(starts.cast(), _mm512_madd_epi16(of_16, _mm512_set1_epi16(-L::OFFSET)));
            }
            if L::MIN {
                let totals = sums.pairs.get_unchecked_mut(row).as_mut_ptr().add(first);
                let of_32 = _mm512_madd_epi16(of_16, _mm512_set1_epi16(1));
                _mm512_storeu_ps(totals.cast(), _mm512_cvtepi32_ps(of_32));
            }
        }
    }
}
