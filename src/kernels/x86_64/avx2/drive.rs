//! The loops over rows of weights, chunks of columns and rows of activations.

use super::Row;
use super::blocks_32::Blocks32;
use super::blocks_256::Blocks256;
use super::isa::Isa;
use super::matvec::{Scales, eight_32, eight_256};
use super::panel::{CHUNK, GROUP, pack_32, pack_256};
use super::sweep::{sweep_32, sweep_256};
use crate::kernels::generic::{Inputs, OUTPUTS};
use crate::quant::ActivationRow;
use crate::tensor::TensorView;

/// f32 elements of scratch: two groups, aligned to a register.
pub(super) const SCRATCH: usize = (2 * GROUP + 32) / 4;

/// A call of `products` with its sizes checked.
pub(in crate::kernels::x86_64) struct Job<'a> {
    weights: *const u8,
    rows: usize,
    row_bytes: usize,
    cols: usize,
    inputs: &'a Inputs<'a>,
    /// `[inputs.rows()][OUTPUTS]`
    out: *mut f32,
    /// Two groups.
    panel: *mut u8,
}

impl<'a> Job<'a> {
    /// `None` where something does not fit together, or there is nothing to do.
    pub(in crate::kernels::x86_64) fn new(
        weights: TensorView<'_>,
        inputs: &'a Inputs<'a>,
        out: &mut [f32],
        scratch: &mut [f32],
    ) -> Option<Self> {
        let (rows, cols) = (weights.rows(), weights.cols());
        let row_bytes = weights.dtype().row_bytes(cols)?;
        let fits = rows <= OUTPUTS
            && rows.checked_mul(row_bytes)? <= weights.bytes().len()
            && cols == inputs.cols()
            && crate::quant::form(weights.dtype()) == inputs.form()
            && inputs.rows().checked_mul(OUTPUTS)? <= out.len()
            && scratch.len() >= SCRATCH;
        let panel = scratch.as_mut_ptr().cast::<u8>();
        // At most 28 bytes, which SCRATCH has on top.
        let panel = panel.wrapping_add(panel.addr().wrapping_neg() % 32);
        fits.then_some(Self {
            weights: weights.bytes().as_ptr(),
            rows,
            row_bytes,
            cols,
            inputs,
            out: out.as_mut_ptr(),
            panel,
        })
    }

    /// Eight rows from `first` on; past the last one, the last one again. `first` is below `rows`.
    #[inline(always)]
    fn eight(&self, first: usize) -> [*const u8; 8] {
        let last = self.rows - 1;
        let row = |i: usize| self.weights.wrapping_add((first + i).min(last) * self.row_bytes);
        [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)]
    }

    /// Some rows of activations.
    #[inline(always)]
    fn row(&self, row: usize) -> Option<Row> {
        match self.inputs.row(row)? {
            ActivationRow::Q8x32(x) | ActivationRow::Q8x256(x) => Some(x.into()),
            ActivationRow::F32(_) => None,
        }
    }

    /// `T` rows of activations from `first` on and their outputs from `output` on. `None` past the last row; `output` is below
    /// [`OUTPUTS`].
    #[inline(always)]
    fn tile<const T: usize>(&self, first: usize, output: usize) -> Option<([Row; T], [*mut f32; T])> {
        let mut rows = [self.row(first)?; T];
        let mut out = [self.out.wrapping_add(first * OUTPUTS + output); T];
        for (i, (row, out)) in rows.iter_mut().zip(&mut out).enumerate() {
            *row = self.row(first + i)?;
            *out = self.out.wrapping_add((first + i) * OUTPUTS + output);
        }
        Some((rows, out))
    }

    /// Sets all outputs to +0.
    fn clear(&self) {
        for row in 0..self.inputs.rows() {
            // SAFETY: `new` checked that the outputs have so many rows of OUTPUTS elements.
            unsafe { self.out.add(row * OUTPUTS).write_bytes(0, OUTPUTS) };
        }
    }
}

impl Row {
    /// The row from a column on, which starts a block of `block` columns.
    #[inline(always)]
    fn skip(self, cols: usize, block: usize) -> Self {
        Self {
            codes: self.codes.wrapping_add(cols),
            scales: self.scales.wrapping_add(cols / block),
            sums: self.sums.wrapping_add(cols / 16),
        }
    }
}

/// Rows of blocks of 32.
///
/// # Safety
/// The processor has the instructions of the level; the weights are of format `F`.
#[inline(always)]
pub(in crate::kernels::x86_64) unsafe fn products_32<I: Isa, F: Blocks32>(job: &Job<'_>) -> Option<()> {
    if job.inputs.rows() == 1 {
        let x = job.row(0)?;
        let mut scales = Scales::default();
        for first in (0..job.rows).step_by(8) {
            let (rows, out) = (job.eight(first), job.out.wrapping_add(first));
            // SAFETY: the rows have cols / 32 blocks and so has x; first + 8 <= OUTPUTS, as rows <= OUTPUTS.
            unsafe { eight_32::<I, F>(rows, job.row_bytes * 8, job.cols / 32, x, out, &mut scales) };
        }
        return Some(());
    }
    job.clear();
    for first in (0..job.rows).step_by(16) {
        for col in (0..job.cols).step_by(CHUNK) {
            let blocks = (job.cols - col).min(CHUNK) / 32;
            for g in 0..2 {
                let rows =
                    job.eight((first + g * 8).min(job.rows - 1)).map(|row| row.wrapping_add(col / 32 * F::BYTES));
                // SAFETY: the rows have cols / 32 blocks; a group holds CHUNK columns.
                unsafe { pack_32::<I, F>(rows, blocks, job.panel.add(g * GROUP)) };
            }
            let mut row = 0;
            while row < job.inputs.rows() {
                // SAFETY: the panel was packed just now, the rows have these blocks; first + 16 <= OUTPUTS.
                unsafe {
                    if let Some((x, out)) = job.tile::<4>(row, first) {
                        sweep_32::<I, F, 4>(job.panel, blocks, x.map(|x| x.skip(col, 32)), out);
                        row += 4;
                    } else if let Some((x, out)) = job.tile::<2>(row, first) {
                        sweep_32::<I, F, 2>(job.panel, blocks, x.map(|x| x.skip(col, 32)), out);
                        row += 2;
                    } else {
                        let (x, out) = job.tile::<1>(row, first)?;
                        sweep_32::<I, F, 1>(job.panel, blocks, x.map(|x| x.skip(col, 32)), out);
                        row += 1;
                    }
                }
            }
        }
    }
    Some(())
}

/// Rows of super-blocks of 256.
///
/// # Safety
/// As [`products_32`].
#[inline(always)]
pub(in crate::kernels::x86_64) unsafe fn products_256<I: Isa, F: Blocks256>(job: &Job<'_>) -> Option<()> {
    if job.inputs.rows() == 1 {
        let x = job.row(0)?;
        for first in (0..job.rows).step_by(8) {
            let out = job.out.wrapping_add(first);
            // SAFETY: the rows have cols / 256 blocks and so has x; first + 8 <= OUTPUTS, as rows <= OUTPUTS.
            unsafe { eight_256::<I, F>(job.eight(first), job.row_bytes * 8, job.cols / 256, x, out) };
        }
        return Some(());
    }
    job.clear();
    for first in (0..job.rows).step_by(16) {
        for col in (0..job.cols).step_by(CHUNK) {
            let blocks = (job.cols - col).min(CHUNK) / 256;
            for g in 0..2 {
                let rows =
                    job.eight((first + g * 8).min(job.rows - 1)).map(|row| row.wrapping_add(col / 256 * F::BYTES));
                // SAFETY: the rows have cols / 256 blocks; a group holds CHUNK columns.
                unsafe { pack_256::<F>(rows, blocks, job.panel.add(g * GROUP)) };
            }
            let mut row = 0;
            while row < job.inputs.rows() {
                // SAFETY: the panel was packed just now, the rows have these blocks; first + 16 <= OUTPUTS.
                unsafe {
                    if let Some((x, out)) = job.tile::<4>(row, first) {
                        sweep_256::<I, F, 4>(job.panel, blocks, x.map(|x| x.skip(col, 256)), out);
                        row += 4;
                    } else if let Some((x, out)) = job.tile::<2>(row, first) {
                        sweep_256::<I, F, 2>(job.panel, blocks, x.map(|x| x.skip(col, 256)), out);
                        row += 2;
                    } else {
                        let (x, out) = job.tile::<1>(row, first)?;
                        sweep_256::<I, F, 1>(job.panel, blocks, x.map(|x| x.skip(col, 256)), out);
                        row += 1;
                    }
                }
            }
        }
    }
    Some(())
}
