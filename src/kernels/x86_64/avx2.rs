//! AVX2 and F16C: 256-bit registers.

mod float;
pub(super) mod lanes;

use crate::kernels::generic::{self, Combine, Inputs, KvSource, Queries};
use crate::mem::Tile;
use crate::quant::{Form, QuantizeError};
use crate::tensor::{Dtype, TensorView};

crate::kernels::shims::shims!(lanes::Ymm2, "avx2,f16c");

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    match weights.dtype() {
        Dtype::F32 | Dtype::F16 | Dtype::BF16 => float::products(weights, inputs, out),
        _ => generic::products(weights, inputs, out, scratch),
    }
}
