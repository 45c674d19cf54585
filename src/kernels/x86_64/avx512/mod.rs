//! AVX-512 F, BW, VL and VNNI: 512-bit registers and the dot product of bytes.

mod by_row;
mod few;
mod few_unpacked;
mod float;
pub(super) mod layouts_256;
pub(super) mod matmul;
mod matmul_256;
mod matmul_32;
mod matvec;
mod panel;
pub(super) mod panel_256;
pub(super) mod panel_32;
mod quantize;
mod unpacked;
mod zmm;

use core::ops::Range;

use crate::kernels::generic::{self, Combine, Inputs, Norm, Queries, Refused};
use crate::kv::{KvSource, KvTileMut};
use crate::mem::Tile;
use crate::quant::{Form, by_dtype};
use crate::tensor::TensorView;

pub(in crate::kernels) use quantize::quantize_row;

crate::kernels::shims::shims!(zmm::Zmm: zmm::Avx512::new(), "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni");

/// Returns the number of f32 elements of scratch that [`products`] needs.
pub(in crate::kernels) fn products_scratch(form: Form) -> usize {
    if form.is_float() { generic::FLOAT_SCRATCH } else { matmul::SCRATCH }
}

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), Refused> {
    if inputs.form().is_float() {
        return by_dtype!(weights.dtype(), {
            F32 | F16 | BF16 => float::products(weights, inputs, out, scratch).ok_or(Refused::Sizes),
            _ => Err(Refused::NoKernel),
        });
    }
    // Offsets of rows are 32-bit numbers.
    if i32::try_from(weights.bytes().len()).is_err() {
        return Err(Refused::NoKernel);
    }
    // Each has kernels for products that the ones before refuse: few rows of activations, one row, many rows.
    if few::supports(weights, inputs) {
        return few::products(weights, inputs, out, scratch);
    }
    let mut done = Err(Refused::NoKernel);
    if inputs.rows() == 1 && matvec::supports(weights.dtype(), weights.cols()) {
        done = matvec::products(weights, inputs, out);
    }
    if done == Err(Refused::NoKernel) {
        done = matmul::matmul(weights, inputs, out, scratch);
    }
    if done == Err(Refused::NoKernel) {
        done = unpacked::products(weights, inputs, out, scratch);
    }
    done
}
