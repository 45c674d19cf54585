//! Products with F32, F16 and BF16 weights. 2 rows of weights are multiplied with 2 rows of inputs in registers. With
//! many inputs it is 4 rows of converted weights, half of the lanes at a time.

use super::isa::Avx2;
use super::ymm::Ymm2;
use crate::kernels::generic::{FloatLeast, FloatPanels, FloatTiles, Inputs};
use crate::tensor::TensorView;

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    if FloatPanels::pays(weights, inputs, FloatLeast { f32: 12, f16: 12, bf16: 6 }) {
        return FloatPanels::new(weights, inputs, out, scratch)?.multiply::<Ymm2, 4, 2>(Avx2::new());
    }
    let mut tiles = FloatTiles::new(weights, inputs, out)?;
    let (mut first, rows) = (0, inputs.rows());
    while first < rows {
        let count = (rows - first).min(2);
        match count {
            1 => tiles.multiply::<Ymm2, 1, 1>(Avx2::new(), first)?,
            _ => tiles.multiply::<Ymm2, 2, 2>(Avx2::new(), first)?,
        }
        first += count;
    }
    Some(())
}
