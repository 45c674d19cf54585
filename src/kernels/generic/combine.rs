//! Combination of the outputs of a linear layer with the elements that they belong to.

use core::ops::Range;

use super::products::OUTPUTS;
use crate::mem::Tile;
use crate::num::Xielu;
#[cfg(feature = "arch-apertus")]
use crate::num::xielu;
use crate::num::{gelu_erf, gelu_tanh, limited, limited_silu, settle, silu, squared_relu, tanh};

/// The non-linear function of a feed-forward layer.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// `x / (1 + e^-x)`.
    Silu,
    /// GELU by its tanh form.
    GeluTanh,
    /// GELU by the error function.
    GeluErf,
    /// `max(x, 0)^2`.
    SquaredRelu,
    /// `x / (1 + e^(-1.702 x))`, where x is at most 7: larger x count as 7. With a gate, the other factor is limited to
    /// -7..=7, and 1 is added to it.
    LimitedSilu,
    /// [`xielu`] with these numbers. If each layer has its own numbers, the model's configuration has those of the
    /// first layer. Only with the feature `arch-apertus`.
    #[cfg(feature = "arch-apertus")]
    Xielu(Xielu),
}

impl Activation {
    /// All activations. xIELU is there with some fixed numbers.
    pub const ALL: [Self; 5 + cfg!(feature = "arch-apertus") as usize] = [
        Self::Silu,
        Self::GeluTanh,
        Self::GeluErf,
        Self::SquaredRelu,
        Self::LimitedSilu,
        #[cfg(feature = "arch-apertus")]
        Self::Xielu(Xielu { linear: 0.5, positive: 0.8, negative: 1.3, largest: -1e-6 }),
    ];

    /// Returns the numbers of xIELU, or `None` for all other activations.
    pub const fn xielu_numbers(self) -> Option<Xielu> {
        #[cfg(feature = "arch-apertus")]
        if let Self::Xielu(numbers) = self {
            return Some(numbers);
        }
        None
    }
}

/// The way in which outputs are combined with the elements `y`.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Combine {
    /// `y = output`
    Set,
    /// `y = y + output`
    Add,
    /// `y = y + output * factor`, where products below 2^-50 in magnitude count as +0.
    AddScaled(f32),
    /// `y = activation(output)`
    Activate(Activation),
    /// `y = activation(y) * output`
    Gate(Activation),
}

/// See [`Level::combine_tile`](crate::kernels::Level::combine_tile).
#[inline(always)]
pub(in crate::kernels) fn combine_tile(
    how: Combine,
    tile: &mut Tile<'_, f32>,
    cols: Range<usize>,
    outputs: &[f32],
) -> Option<()> {
    match how {
        Combine::Set => each(tile, cols, outputs, |_, output| output),
        Combine::Add => each(tile, cols, outputs, |y, output| y + output),
        Combine::AddScaled(factor) => each(tile, cols, outputs, |y, output| y + settle(output * factor)),
        Combine::Activate(Activation::Silu) => each(tile, cols, outputs, |_, output| silu(output)),
        Combine::Activate(Activation::GeluTanh) => each(tile, cols, outputs, |_, output| gelu_tanh(output)),
        Combine::Activate(Activation::GeluErf) => each(tile, cols, outputs, |_, output| gelu_erf(output)),
        Combine::Activate(Activation::SquaredRelu) => each(tile, cols, outputs, |_, output| squared_relu(output)),
        Combine::Activate(Activation::LimitedSilu) => each(tile, cols, outputs, |_, output| limited_silu(output)),
        #[cfg(feature = "arch-apertus")]
        Combine::Activate(Activation::Xielu(numbers)) => each(tile, cols, outputs, |_, output| xielu(output, numbers)),
        Combine::Gate(Activation::Silu) => each(tile, cols, outputs, |y, output| silu(y) * output),
        Combine::Gate(Activation::GeluTanh) => each(tile, cols, outputs, |y, output| gelu_tanh(y) * output),
        Combine::Gate(Activation::GeluErf) => each(tile, cols, outputs, |y, output| gelu_erf(y) * output),
        Combine::Gate(Activation::SquaredRelu) => each(tile, cols, outputs, |y, output| squared_relu(y) * output),
        #[cfg(feature = "arch-apertus")]
        Combine::Gate(Activation::Xielu(numbers)) => each(tile, cols, outputs, |y, output| xielu(y, numbers) * output),
        Combine::Gate(Activation::LimitedSilu) => {
            each(tile, cols, outputs, |y, output| limited_silu(y) * (limited(output) + 1.0))
        }
    }
}

/// Sets elements of a tile to a function of the elements and of outputs, one row of [`OUTPUTS`] at a time. The copy has
/// a length that the compiler knows and cannot overlap with the outputs, so the compiler makes vector instructions of
/// the loop.
#[inline(always)]
fn each(
    tile: &mut Tile<'_, f32>,
    cols: Range<usize>,
    outputs: &[f32],
    function: impl Fn(f32, f32) -> f32,
) -> Option<()> {
    for (row, outputs) in tile.rows().zip(outputs.as_chunks::<OUTPUTS>().0) {
        let y = tile.row_mut(row)?.get_mut(cols.clone())?;
        let mut values = [0.0; OUTPUTS];
        match y.first_chunk() {
            Some(y) => values = *y,
            None => values.iter_mut().zip(&*y).for_each(|(value, &y)| *value = y),
        }
        for (value, &output) in values.iter_mut().zip(outputs) {
            *value = function(*value, output);
        }
        match y.first_chunk_mut() {
            Some(y) => *y = values,
            None => y.iter_mut().zip(values).for_each(|(y, value)| *y = value),
        }
    }
    Some(())
}

/// See [`Level::soft_cap`](crate::kernels::Level::soft_cap).
#[inline(always)]
pub(in crate::kernels) fn soft_cap(cap: f32, x: &mut [f32]) {
    for x in x {
        *x = settle(cap * tanh(*x / cap));
    }
}
