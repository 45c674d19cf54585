//! Linear layers, which compute one tile of outputs at a time.

use super::input::InputRows;
use crate::kernels::{Combine, Level, OUTPUTS};
use crate::mem::Tile;
use crate::num::{settle, settled_of};
use crate::quant::form;
use crate::tensor::{Dtype, TensorView};

/// The weights of a linear layer.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug)]
pub struct Linear<'w> {
    /// Weights, `[outputs, inputs]`.
    pub weights: TensorView<'w>,
    /// Biases, `[outputs]`, little-endian f32 of any alignment, or empty.
    pub bias: &'w [u8],
    /// Factor of the products with the weights, before anything is added.
    pub scale: f32,
    /// Matrices that adapters add.
    pub deltas: &'w [Delta<'w>],
    /// Row of the deltas' weights that belongs to row 0 of `weights`.
    pub delta_row: usize,
}

/// A matrix of low rank that is added to a linear layer, for some rows of inputs: `weights * low`, where `low` is a row
/// of f32 that was computed before (Hu et al., "LoRA", 2021).
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug)]
pub struct Delta<'w> {
    /// Weights, `[outputs, rank]`.
    pub weights: TensorView<'w>,
    /// Index of the word of an input row that is 1 if the delta applies to this row.
    pub flag: usize,
    /// Index of the word of an input row where `low`, `[rank]`, begins.
    pub low: usize,
}

impl<'w> Linear<'w> {
    /// Returns a layer without a bias, a scale and deltas.
    pub fn plain(weights: TensorView<'w>) -> Self {
        Self { weights, bias: &[], scale: 1.0, deltas: &[], delta_row: 0 }
    }

    /// Returns the number of f32 elements of scratch that [`Linear::run`] needs for tiles of at most `rows` rows,
    /// without deltas.
    pub fn scratch(level: Level, dtype: Dtype, rows: usize) -> Option<usize> {
        rows.checked_mul(OUTPUTS)?.checked_add(level.products_scratch(dtype))
    }

    /// Returns `count` of the layer's outputs from output `first` on, or `None` if it has fewer.
    pub fn slice(&self, first: usize, count: usize) -> Option<Self> {
        let weights = self.weights.slice_rows(first, count)?;
        let sliced = Self { weights, delta_row: self.delta_row.checked_add(first)?, ..*self };
        if self.bias.is_empty() {
            return Some(sliced);
        }
        let [start, len] = [first, count].map(|index| index.checked_mul(size_of::<f32>()));
        Some(Self { bias: self.bias.get(start?..)?.get(..len?)?, ..sliced })
    }

    /// Computes the outputs for as many rows of inputs as the tile has, from `row` on, and combines them with the tile.
    /// The layer's outputs begin at column `first` of the tile's matrix. Columns of the tile that belong to other
    /// layers do not change. Returns `None` on a mismatch of sizes.
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
        // One variable is updated in place: a copy of the whole value would wait for the stores before it.
        let mut selected = selected.fetching(level.fetch_order());
        let (outputs, scratch) = scratch.split_at_mut_checked(rows.len().checked_mul(OUTPUTS)?)?;
        let (biases, _) = self.bias.as_chunks::<{ size_of::<f32>() }>();
        let mut col = cols.start.max(first);
        let end = cols.end.min(first.saturating_add(self.weights.rows()));
        while col < end {
            let count = (end - col).min(OUTPUTS);
            // Columns between the end of this tile and the worker's next tile, if all workers take turns.
            let beyond = inputs.workers().saturating_sub(1).saturating_mul(cols.len());
            let distance = if col + count < end { count } else { beyond.saturating_add(count) };
            let weights = self.weights.slice_rows(col - first, count)?;
            let (address, stride) = tile.address(col - cols.start);
            selected = selected.then_rows_at(distance).then_stored_at(address, stride);
            level.products(weights, &selected, outputs, scratch)?;
            if self.scale != 1.0 {
                outputs.iter_mut().for_each(|output| *output = settle(*output * self.scale));
            }
            if let Some(biases) = biases.get(col - first..).filter(|biases| !biases.is_empty()) {
                add_biases(biases, outputs);
            }
            for delta in self.deltas {
                let weights = delta.weights.slice_rows(self.delta_row.checked_add(col - first)?, count)?;
                Delta { weights, ..*delta }.add(level, (inputs, row), outputs, scratch)?;
            }
            let at = col - cols.start;
            level.combine_tile(how, tile, at..at + count, outputs)?;
            col += count;
        }
        Some(())
    }
}

impl Delta<'_> {
    /// Adds the delta's products, for rows of inputs from `row` on, to the outputs of these rows, `[rows, OUTPUTS]`.
    fn add(
        &self,
        level: Level,
        (inputs, row): (&InputRows<'_>, usize),
        outputs: &mut [f32],
        scratch: &mut [f32],
    ) -> Option<()> {
        let rows = outputs.len() / OUTPUTS;
        let (sums, scratch) = scratch.split_at_mut_checked(outputs.len())?;
        let counts = |index: usize| inputs.word(row + index, self.flag) == Some(1);
        let mut start = 0;
        while start < rows {
            let len = (start..rows).take_while(|&index| counts(index)).count();
            if len > 0 {
                let first = row + start;
                let form = form(self.weights.dtype());
                let low = inputs.slice(first..first + len, self.low, self.weights.cols(), form)?;
                level.products(self.weights, &low, sums, scratch)?;
                let outputs = outputs.get_mut(start * OUTPUTS..)?.iter_mut().take(len * OUTPUTS);
                outputs.zip(&*sums).for_each(|(output, sum)| *output += sum);
            }
            start += len.max(1);
        }
        Some(())
    }
}

fn add_biases(biases: &[[u8; size_of::<f32>()]], outputs: &mut [f32]) {
    for outputs in outputs.chunks_exact_mut(OUTPUTS) {
        for (output, bias) in outputs.iter_mut().zip(biases) {
            *output += settled_of(*bias);
        }
    }
}
