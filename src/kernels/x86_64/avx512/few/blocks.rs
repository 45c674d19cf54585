//! Kernels for few rows of activations and formats with blocks of 32.

use core::arch::x86_64::*;
use core::ops::Range;

use super::{Few, Neighbours, add_dots, store};
use crate::kernels::x86_64::avx512::matmul::{Blocks, Input, Sums};
use crate::kernels::x86_64::avx512::matmul_32;
use crate::kernels::x86_64::avx512::panel_32::Layout32;

impl<L: Layout32<1>> Few for Blocks<L, 1> {
    const LEAD: usize = 4096;

    #[inline(never)] // so that the code of the caller before it exists once
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn multiply<const N: usize>(
        mut rows: Neighbours,
        blocks: usize,
        inputs: &[Input; N],
        sums: &mut Sums,
        out: *mut f32,
    ) {
        rows.far = L::BYTES > 32 && N <= 4;
        /// Number of blocks for which sums are prepared at a time.
        const PREPARED: usize = 32;
        let mut acc = [_mm512_setzero_ps(); N];
        for first in (0..blocks).step_by(PREPARED) {
            let prepared = PREPARED.min(blocks - first);
            // SAFETY: the caller promises the blocks up to `first + prepared` in all rows and inputs, codes and scales
            // of which are read; there are sums and starts of 8 inputs for 32 blocks.
            unsafe {
                prepare_32::<L, 1>(inputs, first..first + prepared, sums);
                for b in 0..prepared {
                    let mut isums = [_mm512_setzero_si512(); N];
                    if L::OFFSET != 0 {
                        for (isum, starts) in isums.iter_mut().zip(&sums.starts) {
                            *isum = _mm512_set1_epi32(*starts.get_unchecked(b));
                        }
                    }
                    let at = 32 * (first + b);
                    // With one row of activations an addition waits for the one before, which takes four cycles. So its
                    // sum is kept as two sums.
                    let mut others = [_mm512_setzero_si512(); N];
                    let [[scale, min]] = L::unpack(&rows, |k, codes| {
                        let sums = if N == 1 && k >= 4 { &mut others } else { &mut isums };
                        add_dots(sums, inputs, at + 4 * k, codes);
                    });
                    if N == 1 {
                        isums.iter_mut().zip(others).for_each(|(isum, other)| *isum = _mm512_add_epi32(*isum, other));
                    }
                    for ((acc, isum), (input, totals)) in acc.iter_mut().zip(isums).zip(inputs.iter().zip(&sums.pairs))
                    {
                        let dx = _mm512_set1_ps(*input.scales.add(first + b));
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(scale, dx));
                        *acc = _mm512_add_ps(*acc, product);
                        if L::MIN {
                            let total = _mm512_set1_ps(f32::from_bits(*totals.get_unchecked(b) as u32));
                            *acc = _mm512_add_ps(*acc, _mm512_mul_ps(total, _mm512_mul_ps(min, dx)));
                        }
                    }
                    rows.block = rows.block.wrapping_add(L::BYTES);
                }
            }
        }
        // SAFETY: the caller promises room for the inputs.
        unsafe { store(acc, out) };
    }
}

/// Blocks of two parts with two scales each: every 16 codes have a scale.
impl<L: Layout32<2>> Few for Blocks<L, 2> {
    const LEAD: usize = 4096;

    #[inline(never)] // so that the code of the caller before it exists once
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn multiply<const N: usize>(
        mut rows: Neighbours,
        blocks: usize,
        inputs: &[Input; N],
        sums: &mut Sums,
        out: *mut f32,
    ) {
        const { assert!(L::SCALES == 2 && L::OFFSET != 0) };
        /// Number of blocks for which sums are prepared at a time.
        const PREPARED: usize = 16;
        let mut acc = [_mm512_setzero_ps(); N];
        for b in 0..blocks {
            // SAFETY: the caller promises block b in all rows and inputs, codes and scales of which are read, and the
            // sums of the 16 blocks from there on, or up to the last one; k is at most 12, so its sixteen codes have a
            // start.
            unsafe {
                if b.is_multiple_of(PREPARED) {
                    prepare_32::<L, 2>(inputs, 2 * b..2 * blocks.min(b + PREPARED), sums);
                }
                let mut isums = [[_mm512_setzero_si512(); N]; 4];
                let scales = L::unpack(&rows, |k, codes| {
                    let mut part = [_mm512_setzero_si512(); N];
                    for (part, starts) in part.iter_mut().zip(&sums.starts) {
                        *part = _mm512_set1_epi32(*starts.get_unchecked(4 * (b % PREPARED) + k / 4));
                    }
                    add_dots(&mut part, inputs, 64 * b + 4 * k, codes);
                    *isums.get_unchecked_mut(k / 4) = part;
                });
                for (part, (isums, &scale)) in isums.into_iter().zip(scales.as_flattened()).enumerate() {
                    for ((acc, isum), input) in acc.iter_mut().zip(isums).zip(inputs) {
                        let dx = _mm512_set1_ps(*input.scales.add(2 * b + part / 2));
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(scale, dx));
                        *acc = _mm512_add_ps(*acc, product);
                    }
                }
            }
            rows.block = rows.block.wrapping_add(L::BYTES);
        }
        // SAFETY: the caller promises room for the inputs.
        unsafe { store(acc, out) };
    }
}

/// Computes the sums of the activations of some blocks, at most 32, that the kernels need.
///
/// # Safety
/// Every input has the blocks, and there are at most 8 inputs.
#[inline(never)] // once for all numbers of rows
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn prepare_32<L: Layout32<PARTS>, const PARTS: usize>(inputs: &[Input], blocks: Range<usize>, sums: &mut Sums) {
    for (row, input) in inputs.iter().enumerate() {
        // SAFETY: the caller promises the blocks of at most 8 inputs, of which each has two sums.
        unsafe {
            let input = Input { sums: input.sums.add(2 * blocks.start), ..*input };
            matmul_32::prepare::<L, PARTS>(&input, blocks.len(), sums, row);
        }
    }
}
