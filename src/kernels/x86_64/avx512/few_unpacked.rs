//! Products of up to four rows of activations and super-blocks that are unpacked row by row. A block of sixteen rows of
//! weights is unpacked to memory. Then each of these rows is multiplied with all rows of activations, in the way in
//! which `matvec` multiplies one.

use core::arch::x86_64::*;

use super::matmul::{Batch, Input};
use super::matvec::by_row::row_dots;
use super::matvec::tile::{start, sum_in_lanes, sum_lanes, term};
use super::unpacked::{Row, Unpack};
use crate::kernels::generic::{Inputs, OUTPUTS};
use crate::kernels::x86_64::ahead::{Ahead, Coming};
use crate::tensor::TensorView;

/// Number of rows of weights that are unpacked together.
const ROWS: usize = 16;
/// Largest number of rows of activations. With more, panels are faster.
pub(super) const MOST: usize = 4;

/// Computes products with at most [`MOST`] rows of activations; `None` where the sizes do not fit together. `largest`
/// is added to the unpacked codes.
#[inline(never)] // once for all formats
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products(
    (unpack, bytes): Unpack,
    largest: u8,
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
) -> Option<()> {
    // The checks that the pointers below rely on.
    let (rows, blocks, count) = (weights.rows(), weights.cols() / 256, inputs.rows());
    let row_bytes = blocks * bytes;
    let fits = rows <= OUTPUTS
        && weights.dtype().block_bytes() == bytes
        && weights.dtype().block_len() == 256
        && weights.bytes().len() == rows * row_bytes
        && count <= MOST
        && inputs.cols() == weights.cols();
    if !fits {
        return None;
    }
    let out = out.get_mut(..count * OUTPUTS)?;
    let batch = Batch::new(inputs, blocks, 256)?;
    for first in (0..rows).step_by(ROWS) {
        #[cfg(test)]
        if count > 1 {
            crate::kernels::x86_64::counted::unpacked((rows - first).min(ROWS) * blocks);
            crate::kernels::x86_64::counted::multiplied(count * (rows - first).min(ROWS) * blocks);
        }
        let coming = Coming::after(first + ROWS, [rows, row_bytes], weights.bytes().as_ptr(), inputs);
        let ahead = Ahead::part(coming.first, ROWS * row_bytes, 0, 1, blocks);
        let mut acc = [_mm512_setzero_ps(); MOST];
        let mut plain = Row::sixteen();
        for b in 0..blocks {
            ahead.fetch(b, 1);
            let place = |r: usize| {
                // SAFETY: the rows have these blocks, as compared above.
                unsafe { weights.bytes().as_ptr().add((first + r).min(rows - 1) * row_bytes + b * bytes) }
            };
            // SAFETY: each of these places has a block, and this function has the features.
            unsafe { unpack(&core::array::from_fn(place), &mut plain) };
            let scales = plain.each_ref().map(|row| row.scale);
            // SAFETY: the array has the 16 elements that are read.
            let scale = unsafe { _mm512_loadu_ps(scales.as_ptr()) };
            for (n, acc) in acc.iter_mut().enumerate().take(count) {
                // SAFETY: `Batch::new` has compared the parts of the rows, of which n is one, with `blocks`
                // super-blocks.
                let (dots, dx) = unsafe {
                    let Input { codes, scales, .. } = batch.row(n, b, 256);
                    let x = [0, 64, 128, 192].map(|at| _mm512_loadu_si512(codes.add(at).cast()));
                    (dots(&plain, &x, largest), *scales)
                };
                *acc = _mm512_add_ps(*acc, term(dots, scale, dx));
            }
        }
        let mask = u16::MAX >> (ROWS - (rows - first).min(ROWS));
        for (n, acc) in acc.into_iter().enumerate().take(count) {
            // SAFETY: a lane of the mask is one of the rows, of which there are at most OUTPUTS, and n is below their
            // count.
            unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr().add(n * OUTPUTS + first), mask, acc) };
        }
    }
    Some(())
}

/// Returns the products of a super-block of sixteen rows with a row of activations. A lane belongs to a row of weights.
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn dots(plain: &[Row; ROWS], x: &[__m512i; 4], largest: u8) -> __m512i {
    let starts = x.map(|x| start(largest, x));
    let mut quads = [_mm512_setzero_si512(); 4];
    for (quad, four) in quads.iter_mut().zip(plain.as_chunks::<4>().0) {
        *quad = sum_in_lanes(four.each_ref().map(|row| {
            let mut dots = starts;
            for ((dots, &codes), &x) in dots.iter_mut().zip(&row.codes).zip(x) {
                *dots = _mm512_dpbusd_epi32(*dots, codes, x);
            }
            row_dots(dots, row.sub_scales)
        }));
    }
    sum_lanes(quads)
}
