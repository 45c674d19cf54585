//! AVX2 and F16C: 256-bit registers.

use crate::kernels::generic::{self, Combine, Inputs, KvSource, Queries};
use crate::quant::{Form, QuantizeError};
use crate::tensor::TensorView;

crate::kernels::shims::shims!("avx2,f16c");

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    generic::products(weights, inputs, out, scratch)
}
