//! What becomes of the outputs of a linear layer.

use super::products::OUTPUTS;
use crate::num::{gelu_erf, gelu_tanh, silu, tanh};

/// The non-linear function of a feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x / (1 + e^-x)`.
    Silu,
    /// GELU by its tanh form.
    GeluTanh,
    /// GELU by the error function.
    GeluErf,
}

/// How outputs enter the place where they belong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Combine {
    /// `y = output`
    Set,
    /// `y = y + output`
    Add,
    /// `y = y + output * factor`
    AddScaled(f32),
    /// `y = activation(output)`
    Activate(Activation),
    /// `y = activation(y) * output`
    Gate(Activation),
}

#[inline(always)]
pub(in crate::kernels) fn combine(how: Combine, y: &mut [f32], outputs: &[f32]) {
    match how {
        Combine::Set => each(y, outputs, |_, output| output),
        Combine::Add => each(y, outputs, |y, output| y + output),
        Combine::AddScaled(factor) => each(y, outputs, |y, output| y + output * factor),
        Combine::Activate(Activation::Silu) => each(y, outputs, |_, output| silu(output)),
        Combine::Activate(Activation::GeluTanh) => each(y, outputs, |_, output| gelu_tanh(output)),
        Combine::Activate(Activation::GeluErf) => each(y, outputs, |_, output| gelu_erf(output)),
        Combine::Gate(Activation::Silu) => each(y, outputs, |y, output| silu(y) * output),
        Combine::Gate(Activation::GeluTanh) => each(y, outputs, |y, output| gelu_tanh(y) * output),
        Combine::Gate(Activation::GeluErf) => each(y, outputs, |y, output| gelu_erf(y) * output),
    }
}

/// Sets each element of `y` for which there is an output to a function of both. In whole tiles where there are some,
/// whose length is known.
#[inline(always)]
fn each(y: &mut [f32], outputs: &[f32], function: impl Fn(f32, f32) -> f32) {
    let len = y.len().min(outputs.len());
    let (Some(y), Some(outputs)) = (y.get_mut(..len), outputs.get(..len)) else { return };
    let ((tiles, rest), (output_tiles, output_rest)) = (y.as_chunks_mut::<OUTPUTS>(), outputs.as_chunks::<OUTPUTS>());
    for (y, outputs) in tiles.iter_mut().zip(output_tiles) {
        for (y, &output) in y.iter_mut().zip(outputs) {
            *y = function(*y, output);
        }
    }
    for (y, &output) in rest.iter_mut().zip(output_rest) {
        *y = function(*y, output);
    }
}

/// See [`Level::soft_cap`](crate::kernels::Level::soft_cap).
#[inline(always)]
pub(in crate::kernels) fn soft_cap(cap: f32, x: &mut [f32]) {
    for x in x {
        *x = cap * tanh(*x / cap);
    }
}
