//! NEON with the product of matrices of bytes (FEAT_I8MM: ARMv8.6, and some cores of ARMv8.2).

use super::dotprod;
use super::pairs::{I8mm, Of32, Of256, ROWS};
use crate::kernels::generic::{self, Family, Inputs};
use crate::tensor::TensorView;

// Products of several rows are all that it has a use for.
pub(in crate::kernels) use super::dotprod::{
    attend, attend_scratch, combine_tile, norm, norm_in_place, products_scratch, quantize_row, soft_cap, store,
};

/// See [`Level::products`](crate::kernels::Level::products). A row of inputs alone would leave half of each instruction
/// unused.
#[target_feature(enable = "neon,dotprod,i8mm")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), generic::Refused> {
    if inputs.rows() == 1 {
        return dotprod::products(weights, inputs, out, scratch);
    }
    generic::by_format!(weights, inputs, out, return dotprod::products(weights, inputs, out, scratch))
}

#[target_feature(enable = "neon,dotprod,i8mm")]
fn blocks<F: Family<ROWS, Proof = I8mm>>(weights: TensorView<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> Option<()> {
    generic::block_products::<F, _>(I8mm::new(), weights, inputs, out)
}
