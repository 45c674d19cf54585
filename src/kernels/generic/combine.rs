//! What becomes of the outputs of a linear layer.

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
    let pairs = y.iter_mut().zip(outputs);
    match how {
        Combine::Set => pairs.for_each(|(y, &output)| *y = output),
        Combine::Add => pairs.for_each(|(y, &output)| *y += output),
        Combine::AddScaled(factor) => pairs.for_each(|(y, &output)| *y += output * factor),
        Combine::Activate(Activation::Silu) => pairs.for_each(|(y, &output)| *y = silu(output)),
        Combine::Activate(Activation::GeluTanh) => pairs.for_each(|(y, &output)| *y = gelu_tanh(output)),
        Combine::Activate(Activation::GeluErf) => pairs.for_each(|(y, &output)| *y = gelu_erf(output)),
        Combine::Gate(Activation::Silu) => pairs.for_each(|(y, &output)| *y = silu(*y) * output),
        Combine::Gate(Activation::GeluTanh) => pairs.for_each(|(y, &output)| *y = gelu_tanh(*y) * output),
        Combine::Gate(Activation::GeluErf) => pairs.for_each(|(y, &output)| *y = gelu_erf(*y) * output),
    }
}

/// See [`Level::soft_cap`](crate::kernels::Level::soft_cap).
#[inline(always)]
pub(in crate::kernels) fn soft_cap(cap: f32, x: &mut [f32]) {
    for x in x {
        *x = cap * tanh(*x / cap);
    }
}
