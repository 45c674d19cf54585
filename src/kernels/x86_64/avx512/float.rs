//! Products with F32, F16 and BF16 weights. 4 rows of weights are multiplied with 4 rows of inputs in registers, fewer
//! rows with fewer inputs. With many inputs it is 8 rows of converted weights and 3 rows of inputs.

use super::zmm::{Avx512, Zmm};
use crate::kernels::generic::{FloatLeast, FloatPanels, FloatTiles, Inputs};
use crate::tensor::TensorView;

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    if FloatPanels::pays(weights, inputs, FloatLeast { f32: 32, f16: 48, bf16: 12 }) {
        return FloatPanels::new(weights, inputs, out, scratch)?.multiply::<Zmm, 8, 3>(Avx512::new());
    }
    let mut tiles = FloatTiles::new(weights, inputs, out)?;
    let (mut first, rows) = (0, inputs.rows());
    while first < rows {
        // Batches of as equal size as possible.
        let count = (rows - first).div_ceil((rows - first).div_ceil(4).max(1));
        match count {
            1 => tiles.multiply::<Zmm, 1, 1>(Avx512::new(), first)?,
            2 => tiles.multiply::<Zmm, 2, 2>(Avx512::new(), first)?,
            3 => tiles.multiply::<Zmm, 4, 3>(Avx512::new(), first)?,
            _ => tiles.multiply::<Zmm, 4, 4>(Avx512::new(), first)?,
        }
        first += count;
    }
    Some(())
}
