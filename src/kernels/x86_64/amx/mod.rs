//! AMX with bytes beside AVX-512: tiles multiply many rows of activations.

mod format;
mod matmul;
mod tiles;
mod tiles_256;
mod tiles_32;

use crate::kernels::generic::{Inputs, Refused};
use crate::quant::Form;
use crate::tensor::TensorView;

use super::avx512;

// Only products use tiles. All other kernels are those of AVX-512.
pub(in crate::kernels) use super::avx512::{
    attend, attend_scratch, combine_tile, convolve, gate, norm, norm_in_place, normalize, quantize_row, settle_row,
    soft_cap, store, update_state,
};

/// Least number of rows of activations with which tiles are faster than AVX-512 for weights of every type.
const MANY: usize = 3 * format::ROWS;

/// Returns the number of f32 elements of scratch that [`products`] needs.
pub(in crate::kernels) fn products_scratch(form: Form) -> usize {
    let scratch = avx512::products_scratch(form);
    if form.is_float() { scratch } else { scratch.max(format::SCRATCH) }
}

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), Refused> {
    if inputs.rows() < MANY || inputs.form().is_float() {
        return avx512::products(weights, inputs, out, scratch);
    }
    // SAFETY: this level is made only where detection found AMX and the permission to use it.
    unsafe { matmul::matmul(weights, inputs, out, scratch) }
}
