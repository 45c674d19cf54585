//! Linear layers, a tile of outputs at a time.

use super::input::InputRows;
use crate::kernels::{Combine, Level, OUTPUTS};
use crate::mem::Tile;
use crate::quant::form;
use crate::tensor::{Dtype, TensorView};

/// The weights of a linear layer.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'w> {
    /// `[outputs, inputs]`.
    pub weights: TensorView<'w>,
    /// `[outputs]`, little-endian f32 of any alignment; empty where there is none.
    pub bias: &'w [u8],
}

impl<'w> Linear<'w> {
    /// f32 elements of scratch that [`Linear::run`] needs for tiles of at most `rows` rows.
    pub fn scratch(level: Level, dtype: Dtype, rows: usize) -> Option<usize> {
        rows.checked_mul(OUTPUTS)?.checked_add(level.products_scratch(dtype))
    }

    /// `count` of its outputs from the `first` on; `None` where it has fewer.
    pub fn slice(&self, first: usize, count: usize) -> Option<Self> {
        let weights = self.weights.slice_rows(first, count)?;
        if self.bias.is_empty() {
            return Some(Self { weights, bias: &[] });
        }
        let [start, len] = [first, count].map(|index| index.checked_mul(size_of::<f32>()));
        Some(Self { weights, bias: self.bias.get(start?..)?.get(..len?)? })
    }

    /// Combines the outputs for as many rows of inputs as the tile has, from `row` on, with a tile of a matrix in
    /// which they begin at column `first`. Columns of the tile that belong to other layers are left alone. `None` on a
    /// mismatch of sizes.
    pub fn run(
        &self,
        level: Level,
        (inputs, row): (&InputRows<'_>, usize),
        first: usize,
        tile: &mut Tile<'_, f32>,
        how: Combine,
        scratch: &mut [f32],
    ) -> Option<()> {
        let (rows, cols) = (tile.rows(), tile.cols());
        let selected = inputs.select(row..row.checked_add(rows.len())?, form(self.weights.dtype()))?;
        let (outputs, scratch) = scratch.split_at_mut_checked(rows.len().checked_mul(OUTPUTS)?)?;
        let (biases, _) = self.bias.as_chunks::<{ size_of::<f32>() }>();
        let mut col = cols.start.max(first);
        let end = cols.end.min(first.saturating_add(self.weights.rows()));
        while col < end {
            let count = (end - col).min(OUTPUTS);
            // The worker's next tile, if they all take turns.
            let beyond = inputs.workers().saturating_sub(1).saturating_mul(cols.len());
            let distance = if col + count < end { count } else { beyond.saturating_add(count) };
            let weights = self.weights.slice_rows(col - first, count)?;
            level.products(weights, &selected.then_rows_at(distance), outputs, scratch)?;
            let biases = biases.get(col - first..).unwrap_or_default();
            for (row, outputs) in rows.clone().zip(outputs.chunks_exact_mut(OUTPUTS)) {
                for (output, bias) in outputs.iter_mut().zip(biases) {
                    *output += f32::from_le_bytes(*bias);
                }
                let y = tile.row_mut(row)?.get_mut(col - cols.start..)?;
                level.combine(how, y, outputs.get(..count)?);
            }
            col += count;
        }
        Some(())
    }
}
