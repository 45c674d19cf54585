//! The operations of attention as values.

use core::ops::Range;

use super::matrix::MatrixView;
use crate::kernels::{Norm, Visibility};
use crate::nn::{RopePairs, Temperature};
use crate::tensor::TensorView;

/// The gates of attention among the heads of a row: each is a number whose sigmoid multiplies what attention gave.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatesView {
    /// The column of the heads at which they begin.
    pub first: usize,
    /// Whether there is one for each head, and not one for each element.
    pub per_head: bool,
}

/// Queries, keys and values side by side, and the gates of attention where there are any: `[q | k | v | gates]`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QkvView<'m> {
    /// The matrices, and the column of the heads at which the outputs of each begin: one for all, or one each. The last
    /// one is of gates that have a matrix of their own.
    pub parts: [Option<(usize, MatrixView<'m>)>; 4],
    /// Whether the first matrix has gates, too.
    pub split: Option<SplitView>,
    /// Elements of the heads of a row.
    pub width: usize,
}

/// A matrix of queries that has their gates, too: `head_dim` rows of a head's queries, then as many of its gates, head
/// by head. The queries are side by side from column 0 on.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SplitView {
    /// Elements of a head.
    pub head_dim: usize,
    /// The column at which the gates are side by side.
    pub gates: usize,
}

impl SplitView {
    /// Returns the column of an output of the matrix.
    pub fn column(&self, output: usize) -> usize {
        let Some(half) = output.checked_div(self.head_dim) else { return output };
        let first = if half % 2 == 0 { 0 } else { self.gates };
        first + half / 2 * self.head_dim + output % self.head_dim
    }
}

/// What becomes of queries, keys and values, in this order: the clamp; values from keys and the norm of values; the
/// norms, and the rotation before or after them; the temperature of queries.
///
/// [Example](crate::device#example).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NormRotateView<'m> {
    /// Query heads.
    pub heads: usize,
    /// Heads of keys, and of values; 0 where the layer has none of its own.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Magnitudes are at most this; 0 for any.
    pub clamp: f32,
    /// The norm of queries.
    pub q_norm: Option<HeadNormView<'m>>,
    /// The norm of keys.
    pub k_norm: Option<HeadNormView<'m>>,
    /// The norm of each head of the values: without weights.
    pub v_norm: Option<Norm<'m>>,
    /// Whether values are the keys, as they are before their norm.
    pub keys_as_values: bool,
    /// Whether queries and keys are normalized after the rotation.
    pub norm_after_rotation: bool,
    /// Where the cosines, then the sines, of this layer are among the angles of a row: as many elements of each head
    /// are rotated.
    pub rotation: Range<usize>,
    /// Which of these form a pair.
    pub pairs: RopePairs,
    /// What queries are multiplied by at last, by position.
    pub temperature: Option<Temperature>,
}

/// The norm of the heads of queries or keys.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HeadNormView<'m> {
    /// Its kind and epsilon, with the weights and biases of the first head.
    pub norm: Norm<'m>,
    /// Weights of a head each, or one row for all heads.
    pub weights: TensorView<'m>,
    /// Whether all heads are one row.
    pub whole_row: bool,
}

impl<'m> HeadNormView<'m> {
    /// Returns the norm of head `index`, from 0, or of the whole row; `None` where there are no weights.
    pub fn of_head(&self, index: usize) -> Option<Norm<'m>> {
        let last = self.weights.rows().checked_sub(1)?;
        Some(Norm { weight: self.weights.row(index.min(last))?, ..self.norm })
    }
}

/// A layer in a pool of keys and values.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KvLayer {
    /// The layer group.
    pub group: usize,
    /// The layer's number in it.
    pub layer: usize,
}

/// Keys and values into the cache, settled and rounded to its element types. What a tile holds in slots without a token
/// is nobody's business: the CPU sets a tile to zero before the first slot is written, so that no number there is ever
/// wild.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StoreView {
    /// Where they go; `None` where the layer has none of its own.
    pub to: Option<KvLayer>,
    /// The column of the heads at which the keys begin; behind them are the values.
    pub first: usize,
    /// Heads of keys, and of values.
    pub heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
}

/// Attention over the cache.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AttendView {
    /// The keys and values that are read.
    pub from: KvLayer,
    /// Query heads. As many of them as this is times `kv_heads` share a KV head.
    pub heads: usize,
    /// KV heads.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// Elements of the heads of a row: the queries come first.
    pub stride: usize,
    /// The positions that a query sees: its own and earlier ones, as far as this says.
    pub visibility: Visibility,
    /// What products are multiplied by.
    pub scale: f32,
    /// Scores s become `cap * tanh(s / cap)`; 0 for none.
    pub soft_cap: f32,
    /// Slopes of linear biases.
    pub slopes: Option<Slopes>,
}

/// The slopes of linear biases (ALiBi).
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slopes {
    /// `2^-exponent` is the last slope of a power of two of heads.
    pub exponent: f32,
    /// Query heads.
    pub heads: usize,
}

impl Slopes {
    /// Returns the slope of query head `head`. Heads past a power of two take every second slope of twice as many.
    /// (Press et al., "Train Short, Test Long", 2021; the authors' code for other numbers.)
    pub fn get(&self, head: usize) -> f32 {
        let power = if self.heads.is_power_of_two() { self.heads } else { self.heads.next_power_of_two() / 2 };
        let steps = if head < power { (head + 1) as f64 } else { (head - power) as f64 + 0.5 };
        libm::exp2(-f64::from(self.exponent) * steps / power as f64) as f32
    }
}
