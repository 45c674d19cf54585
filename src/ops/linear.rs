//! Linear layers, a tile of outputs at a time.

use super::input::InputRows;
use crate::mem::Tile;
use crate::quant::{dot, form};
use crate::tensor::TensorView;

/// Puts the outputs of `weights`, rows dot inputs, into a tile of a matrix in which they begin at column
/// `first`: `put(place, output)` stores or combines. Columns of the tile that belong to other weights are
/// left alone. `None` on a mismatch of sizes.
pub fn linear(
    weights: TensorView<'_>,
    first: usize,
    inputs: &InputRows<'_>,
    tile: &mut Tile<'_, f32>,
    put: impl Fn(&mut f32, f32),
) -> Option<()> {
    let (dtype, cols) = (weights.dtype(), tile.cols());
    let form = form(dtype);
    for col in cols.start.max(first)..cols.end.min(first.saturating_add(weights.rows())) {
        let weights = weights.row(col - first)?;
        for row in tile.rows() {
            let output = dot(dtype, weights, inputs.row(row, form)?)?;
            put(tile.row_mut(row)?.get_mut(col - cols.start)?, output);
        }
    }
    Some(())
}
