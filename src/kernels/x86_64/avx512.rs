//! AVX-512 F, BW, VL and VNNI: 512-bit registers and the dot product of bytes.

mod float;
mod lanes;

use crate::kernels::generic::{self, Combine, Inputs, KvSource, Queries};
use crate::mem::Tile;
use crate::quant::{Form, QuantizeError};
use crate::tensor::{Dtype, TensorView};

crate::kernels::shims::shims!(lanes::Zmm, "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni");

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
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
