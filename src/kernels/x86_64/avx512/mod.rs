//! AVX-512 F, BW, VL and VNNI: 512-bit registers and the dot product of bytes.

mod matvec;

use crate::kernels::generic::{self, Combine, Inputs, KvSource, Queries};
use crate::quant::{Form, QuantizeError};
use crate::tensor::TensorView;

crate::kernels::shims::shims!("avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni");

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    if inputs.rows() == 1 && matvec::supports(weights.dtype(), weights.cols()) {
        return matvec::products(weights, inputs, out);
    }
    generic::products(weights, inputs, out, scratch)
}
