//! Linear layers, a tile of outputs at a time.

use super::input::InputRows;
use crate::kernels::{Combine, Level, OUTPUTS};
use crate::mem::Tile;
use crate::quant::form;
use crate::tensor::{Dtype, TensorView};

/// f32 elements of scratch that [`linear`] needs for tiles of at most `rows` rows.
pub fn linear_scratch(level: Level, dtype: Dtype, rows: usize) -> Option<usize> {
    rows.checked_mul(OUTPUTS)?.checked_add(level.products_scratch(dtype))
}

/// Combines the outputs of `weights`, rows times inputs, with a tile of a matrix in which they begin at
/// column `first`. Columns of the tile that belong to other weights are left alone. `None` on a mismatch of
/// sizes.
pub fn linear(
    level: Level,
    weights: TensorView<'_>,
    first: usize,
    inputs: &InputRows<'_>,
    tile: &mut Tile<'_, f32>,
    how: Combine,
    scratch: &mut [f32],
) -> Option<()> {
    let (rows, cols) = (tile.rows(), tile.cols());
    let selected = inputs.select(rows.clone(), form(weights.dtype()))?;
    let (outputs, scratch) = scratch.split_at_mut_checked(rows.len().checked_mul(OUTPUTS)?)?;
    let mut col = cols.start.max(first);
    let end = cols.end.min(first.saturating_add(weights.rows()));
    while col < end {
        let count = (end - col).min(OUTPUTS);
        // The worker's next tile, if they all take turns.
        let beyond = inputs.workers().saturating_sub(1).saturating_mul(cols.len());
        let distance = if col + count < end { count } else { beyond.saturating_add(count) };
        let weights = weights.slice_rows(col - first, count)?;
        level.products(weights, &selected.then_rows_at(distance), outputs, scratch)?;
        for (row, outputs) in rows.clone().zip(outputs.chunks_exact(OUTPUTS)) {
            let y = tile.row_mut(row)?.get_mut(col - cols.start..)?;
            level.combine(how, y, outputs.get(..count)?);
        }
        col += count;
    }
    Some(())
}
