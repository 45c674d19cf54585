//! What becomes of the outputs of a linear layer.

use core::ops::Range;

use super::products::OUTPUTS;
use crate::mem::Tile;
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

/// What a [`Combine`] does with an element and an output, as `$function` in `$body`.
macro_rules! with_function {
    (|$y:tt, $output:tt| $value:expr, $function:ident => $body:expr) => {{
        let $function = |$y: f32, $output: f32| -> f32 { $value };
        $body
    }};
    ($how:expr, $function:ident => $body:expr) => {
        match $how {
            Combine::Set => with_function!(|_, output| output, $function => $body),
            Combine::Add => with_function!(|y, output| y + output, $function => $body),
            Combine::AddScaled(factor) => with_function!(|y, output| y + output * factor, $function => $body),
            Combine::Activate(Activation::Silu) => with_function!(|_, output| silu(output), $function => $body),
            Combine::Activate(Activation::GeluTanh) => with_function!(|_, output| gelu_tanh(output), $function => $body),
            Combine::Activate(Activation::GeluErf) => with_function!(|_, output| gelu_erf(output), $function => $body),
            Combine::Gate(Activation::Silu) => with_function!(|y, output| silu(y) * output, $function => $body),
            Combine::Gate(Activation::GeluTanh) => with_function!(|y, output| gelu_tanh(y) * output, $function => $body),
            Combine::Gate(Activation::GeluErf) => with_function!(|y, output| gelu_erf(y) * output, $function => $body),
        }
    };
}

/// See [`Level::combine`](crate::kernels::Level::combine).
#[inline(always)]
pub(in crate::kernels) fn combine(how: Combine, y: &mut [f32], outputs: &[f32]) {
    with_function!(how, function => each(y, outputs, function));
}

/// See [`Level::combine_tile`](crate::kernels::Level::combine_tile).
#[inline(always)]
pub(in crate::kernels) fn combine_tile(
    how: Combine,
    tile: &mut Tile<'_, f32>,
    cols: Range<usize>,
    outputs: &[f32],
) -> Option<()> {
    with_function!(how, function => {
        for (row, outputs) in tile.rows().zip(outputs.as_chunks::<OUTPUTS>().0) {
            let y = tile.row_mut(row)?.get_mut(cols.clone())?;
            match <&mut [f32; OUTPUTS]>::try_from(&mut *y) {
                Ok(y) => each_of_32(y, outputs, function),
                Err(_) => each(y, outputs, function),
            }
        }
    });
    Some(())
}

/// Sets each element of `y` for which there is an output to a function of both.
#[inline(always)]
fn each(y: &mut [f32], outputs: &[f32], function: impl Fn(f32, f32) -> f32 + Copy) {
    let len = y.len().min(outputs.len());
    let (Some(y), Some(outputs)) = (y.get_mut(..len), outputs.get(..len)) else { return };
    let ((tiles, rest), (output_tiles, output_rest)) = (y.as_chunks_mut(), outputs.as_chunks());
    for (y, outputs) in tiles.iter_mut().zip(output_tiles) {
        each_of_32(y, outputs, function);
    }
    for (y, &output) in rest.iter_mut().zip(output_rest) {
        *y = function(*y, output);
    }
}

/// The same for a length that the compiler knows, and a copy that can not overlap with the outputs: it becomes vectors.
#[inline(always)]
fn each_of_32(y: &mut [f32; OUTPUTS], outputs: &[f32; OUTPUTS], function: impl Fn(f32, f32) -> f32) {
    let mut values = *y;
    for (value, &output) in values.iter_mut().zip(outputs) {
        *value = function(*value, output);
    }
    *y = values;
}

/// See [`Level::soft_cap`](crate::kernels::Level::soft_cap).
#[inline(always)]
pub(in crate::kernels) fn soft_cap(cap: f32, x: &mut [f32]) {
    for x in x {
        *x = cap * tanh(*x / cap);
    }
}
