//! AVX-512 F, BW, VL and VNNI: 512-bit registers and the dot product of bytes.

mod matmul;
mod matmul_256;
mod matmul_32;
mod matvec;
mod panel;
mod panel_256;
mod panel_32;

pub(in crate::kernels) use matmul::SCRATCH as MATMUL_SCRATCH;

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
    if inputs.form() == Form::F32 {
        return generic::products(weights, inputs, out, scratch);
    }
    if inputs.rows() == 1 && matvec::supports(weights.dtype(), weights.cols()) {
        return matvec::products(weights, inputs, out);
    }
    matmul::matmul(weights, inputs, out, scratch)
}
