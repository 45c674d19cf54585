//! F32, F16 and BF16 weights: 4 rows of weights times 4 rows of inputs in registers.

use super::zmm::Zmm;
use crate::kernels::generic::{FLOAT_SCRATCH, FloatPanels, FloatTiles, Inputs};
use crate::tensor::TensorView;

/// f32 elements of scratch.
pub(super) const SCRATCH: usize = FLOAT_SCRATCH;
/// Rows of inputs from which on it pays to convert the weights first.
const PANEL_ROWS: usize = 6;

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    if inputs.rows() >= PANEL_ROWS && weights.rows() > 0 {
        return FloatPanels::new(weights, inputs, out, scratch)?.multiply::<Zmm>();
    }
    let mut tiles = FloatTiles::new(weights, inputs, out)?;
    let (mut first, rows) = (0, inputs.rows());
    while first < rows {
        // Batches of equal size, as far as that goes.
        let count = (rows - first).div_ceil((rows - first).div_ceil(4).max(1));
        match count {
            1 => tiles.multiply::<Zmm, 8, 1>(first)?,
            2 => tiles.multiply::<Zmm, 8, 2>(first)?,
            3 => tiles.multiply::<Zmm, 8, 3>(first)?,
            _ => tiles.multiply::<Zmm, 4, 4>(first)?,
        }
        first += count;
    }
    Some(())
}
