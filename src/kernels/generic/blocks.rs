//! Products of quantized weights for instruction sets with registers of 128 bits.
//!
//! A few rows of weights are processed at a time. Up to [`COLS`] of their columns are unpacked to i8 codes, by the same
//! code as for the plain kernel. Then all rows of inputs are multiplied with these codes, four rows at a time, so that
//! each register of codes serves several products. The integers of a (super-)block are exact in 32 bits (see
//! `quant::block`). After each block, the ordered chains of its outputs go on, for each row of inputs.
// Loops index fixed arrays of constant length, so no bounds check remains. Iterators in their place are not always
// inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use super::products::{Inputs, OUTPUTS};
use crate::quant::ActivationRow;
use crate::tensor::TensorView;

/// Number of columns that are unpacked at a time. With all other data this takes about 8 KiB of stack.
pub(in crate::kernels) const COLS: usize = 512;

const _: () = assert!(COLS.is_multiple_of(256));

/// A block format on a level: how `R` rows of its blocks are unpacked and multiplied.
pub(in crate::kernels) trait Family<const R: usize> {
    /// Proof that the machine has the instructions.
    type Proof: Copy;
    /// A block as it lies in the weights.
    type Block: bytemuck::AnyBitPattern;
    /// `R` rows of unpacked blocks, at most [`COLS`] elements of each.
    type Panel;
    /// Number of elements of a block.
    const LEN: usize;
    /// Number of elements that share one scale of the activations.
    const SCALED: usize;
    /// Largest number of rows of inputs at a time: 1, 2 or 4.
    const MOST: usize;

    /// A panel of zeros.
    const ZERO: Self::Panel;

    /// Unpacks blocks, at most [`COLS`] elements, as row `row` of the panel.
    fn unpack(blocks: &[Self::Block], row: usize, panel: &mut Self::Panel);

    /// Continues the chains of `R` outputs for each of `T` rows of inputs. `T` is 1, 2 or 4.
    ///
    /// # Safety
    /// Every row has `blocks` blocks, at most [`COLS`] elements, that can be read.
    unsafe fn sweep<const T: usize>(
        proof: Self::Proof,
        panel: &Self::Panel,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; R]; T],
    );
}

/// Pointers into a row of quantized activations.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Row {
    pub(in crate::kernels) codes: *const i8,
    pub(in crate::kernels) scales: *const f32,
    pub(in crate::kernels) sums: *const i16,
}

/// See [`Level::products`](crate::kernels::Level::products).
#[inline(always)]
pub(in crate::kernels) fn block_products<F: Family<R>, const R: usize>(
    proof: F::Proof,
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
) -> Option<()> {
    let cols = weights.cols();
    if cols != inputs.cols() || weights.rows() > OUTPUTS || inputs.rows().checked_mul(OUTPUTS)? > out.len() {
        return None;
    }
    const { assert!(OUTPUTS.is_multiple_of(R)) };
    let mut panel = F::ZERO;
    for first in (0..weights.rows()).step_by(R) {
        for col in (0..cols.max(1)).step_by(COLS) {
            let blocks = (cols - col).min(COLS) / F::LEN;
            for row in 0..R {
                // Past the last row, the last row is taken again.
                let bytes = weights.row((first + row).min(weights.rows() - 1))?;
                let start = col / F::LEN;
                let row_blocks: &[F::Block] = bytemuck::try_cast_slice(bytes).ok()?;
                F::unpack(row_blocks.get(start..start + blocks)?, row, &mut panel);
            }
            let mut row = 0;
            while row < inputs.rows() {
                let place = Place { row, first, col, blocks };
                row += match inputs.rows() - row {
                    4.. if F::MOST >= 4 => place.sweep::<F, R, 4>(proof, &panel, inputs, out)?,
                    2.. if F::MOST >= 2 => place.sweep::<F, R, 2>(proof, &panel, inputs, out)?,
                    _ => place.sweep::<F, R, 1>(proof, &panel, inputs, out)?,
                };
            }
        }
    }
    Some(())
}

/// The part of the products that one sweep computes: its first row of inputs, first output, and columns.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    /// Index of the first output: a multiple of the panel's rows, below [`OUTPUTS`].
    first: usize,
    col: usize,
    blocks: usize,
}

impl Place {
    /// Multiplies the panel with `T` rows of inputs, and returns `T`.
    #[inline(always)]
    fn sweep<F: Family<R>, const R: usize, const T: usize>(
        self,
        proof: F::Proof,
        panel: &F::Panel,
        inputs: &Inputs<'_>,
        out: &mut [f32],
    ) -> Option<usize> {
        let mut x = [Row { codes: core::ptr::null(), scales: core::ptr::null(), sums: core::ptr::null() }; T];
        let mut acc = [[0.0; R]; T];
        let start = self.row * OUTPUTS + self.first;
        for t in 0..T {
            let row = match inputs.row(self.row + t)? {
                ActivationRow::Q8x32(row) if F::SCALED == 32 => row,
                ActivationRow::Q8x256(row) if F::SCALED == 256 => row,
                _ => return None,
            };
            let end = self.col + self.blocks * F::LEN;
            x[t] = Row {
                codes: row.codes.get(self.col..end)?.as_ptr(),
                scales: row.scales.get(self.col / F::SCALED..end / F::SCALED)?.as_ptr(),
                sums: row.sums.get(self.col / 16..end / 16)?.as_ptr(),
            };
            if self.col > 0 {
                acc[t] = *out.get(start + t * OUTPUTS..)?.first_chunk()?;
            }
        }
        // SAFETY: the slices of every row that were taken above have `self.blocks` blocks, which `block_products` cut
        // so that they are at most COLS elements.
        unsafe { F::sweep::<T>(proof, panel, self.blocks, x, &mut acc) };
        for t in 0..T {
            *out.get_mut(start + t * OUTPUTS..)?.first_chunk_mut()? = acc[t];
        }
        Some(T)
    }
}
