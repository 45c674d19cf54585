//! AVX-512 F, BW, VL and VNNI: 512-bit registers and the dot product of bytes.

mod float;
mod matmul;
mod matmul_256;
mod matmul_32;
mod matvec;
mod panel;
mod panel_256;
mod panel_32;
mod quantize;
mod zmm;

use core::ops::Range;

use crate::kernels::generic::{self, Combine, Inputs, KvSource, KvTileMut, Norm, Queries};
use crate::mem::Tile;
use crate::tensor::{Dtype, TensorView};

pub(in crate::kernels) use quantize::quantize_row;

crate::kernels::shims::shims!(zmm::Zmm: zmm::Avx512::new(), "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni");

/// f32 elements of scratch that [`products`] needs.
pub(in crate::kernels) fn products_scratch(dtype: Dtype) -> usize {
    if crate::quant::form(dtype).is_float() { generic::FLOAT_SCRATCH } else { matmul::SCRATCH }
}

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    if inputs.form().is_float() {
        return float::products(weights, inputs, out, scratch);
    }
    if inputs.rows() == 1 && matvec::supports(weights.dtype(), weights.cols()) {
        return matvec::products(weights, inputs, out);
    }
    matmul::matmul(weights, inputs, out, scratch)
}
