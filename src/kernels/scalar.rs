//! The generic kernels as they are: the specification.

use core::ops::Range;

use super::generic::{self, Combine, Inputs, LANES, Norm, Queries, Refused};
use crate::kv::{KvSource, KvTileMut};
use crate::mem::Tile;
use crate::quant::{Form, QuantizeError};
use crate::tensor::TensorView;

super::shims::shims!([f32; LANES]: (),);
super::shims::quantize_shim!();

/// Refuses all products, so that [`Level::products`](super::Level::products) computes them by plain Rust.
pub(super) fn products(
    _weights: TensorView<'_>,
    _inputs: &Inputs<'_>,
    _out: &mut [f32],
    _scratch: &mut [f32],
) -> Result<(), Refused> {
    Err(Refused::NoKernel)
}

pub(super) fn products_scratch(_form: Form) -> usize {
    0
}
