//! The operations of attention as values.

use core::ops::Range;

use super::matrix::MatrixView;
use crate::kernels::{Norm, Visibility};
use crate::nn::{RopePairs, Temperature};
use crate::tensor::TensorView;

/// The gates of attention in the heads of a row. The sigmoid of each multiplies elements of the attention result.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GatesView {
    /// Column of the heads at which the gates begin.
    pub first: usize,
    /// Whether there is one gate for each head, instead of one for each element.
    pub per_head: bool,
}

/// The matrices of queries, keys and values, which lie side by side, with the gates of attention if there are any: `[q
/// | k | v | gates]`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct QkvView<'m> {
    /// Matrices, and the column of the heads at which the outputs of each begin. There is one matrix for all of
    /// queries, keys and values, or one for each. The last element is for gates that have a matrix of their own.
    pub parts: [Option<(usize, MatrixView<'m>)>; 4],
    /// How the outputs of the first matrix are split, if it has gates, too.
    pub split: Option<SplitView>,
    /// Number of elements of the heads of a row.
    pub width: usize,
}

/// A matrix of queries and their gates: `head_dim` rows with a head's queries, then as many with its gates, head by
/// head. The queries are stored side by side from column 0 on.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SplitView {
    /// Number of elements of a head.
    pub head_dim: usize,
    /// Column from which on the gates are stored side by side.
    pub gates: usize,
}

impl SplitView {
    /// Returns the column of the heads for an output of the matrix.
    pub fn column(&self, output: usize) -> usize {
        let Some(half) = output.checked_div(self.head_dim) else { return output };
        let first = if half % 2 == 0 { 0 } else { self.gates };
        first + half / 2 * self.head_dim + output % self.head_dim
    }
}

/// Operations on queries, keys and values, in this order: the clamp; values from keys, and the norm of values; the
/// norms, and the rotation before or after them; the temperature of queries.
/// [Example](crate::device#example).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NormRotateView<'m> {
    /// Number of query heads.
    pub heads: usize,
    /// Number of heads of keys, and of values. 0 if the layer has no keys and values of its own.
    pub kv_heads: usize,
    /// Number of elements of a head.
    pub head_dim: usize,
    /// Largest magnitude of an element, or 0 for no limit.
    pub clamp: f32,
    /// Norm of queries.
    pub q_norm: Option<HeadNormView<'m>>,
    /// Norm of keys.
    pub k_norm: Option<HeadNormView<'m>>,
    /// Norm of each head of the values, without weights.
    pub v_norm: Option<Norm<'m>>,
    /// Whether values are the keys, as they are before their norm.
    pub keys_as_values: bool,
    /// Whether queries and keys are normalized after the rotation.
    pub norm_after_rotation: bool,
    /// Range of the cosines, then the sines, of this layer in the angles of a row. As many elements of each head are
    /// rotated.
    pub rotation: Range<usize>,
    /// The way in which these elements form pairs.
    pub pairs: RopePairs,
    /// Factor of queries by position, applied last.
    pub temperature: Option<Temperature>,
}

/// The norm of the heads of queries or keys.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HeadNormView<'m> {
    /// Kind and epsilon, with the weights and biases of the first head.
    pub norm: Norm<'m>,
    /// Weights: a row for each head, or one row for all heads.
    pub weights: TensorView<'m>,
    /// Whether all heads are normalized as one row.
    pub whole_row: bool,
}

impl<'m> HeadNormView<'m> {
    /// Returns the norm of head `index`, or of the whole row. Returns `None` if there are no weights.
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
    /// Index of the layer group.
    pub group: usize,
    /// Index of the layer in the group.
    pub layer: usize,
}

/// Storage of keys and values in the cache, settled and rounded to its element types. The contents of slots without a
/// token are unspecified. (The CPU sets a tile to zero before the first slot is written, so that every number there is
/// finite.)
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StoreView {
    /// Layer of the pool that receives them, or `None` if the layer has no keys and values of its own.
    pub to: Option<KvLayer>,
    /// Column of the heads at which the keys begin. The values follow the keys.
    pub first: usize,
    /// Number of heads of keys, and of values.
    pub heads: usize,
    /// Number of elements of a head.
    pub head_dim: usize,
}

/// Attention over the cache.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AttendView {
    /// Keys and values that are read.
    pub from: KvLayer,
    /// Number of query heads. `heads / kv_heads` of them share a KV head.
    pub heads: usize,
    /// Number of KV heads.
    pub kv_heads: usize,
    /// Number of elements of a head.
    pub head_dim: usize,
    /// Number of elements of the heads of a row. The queries come first.
    pub stride: usize,
    /// Positions that a query sees, among its own and earlier ones.
    pub visibility: Visibility,
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Soft cap: scores s become `cap * tanh(s / cap)`. 0 means no cap.
    pub soft_cap: f32,
    /// Slopes of linear biases, if there are any.
    pub slopes: Option<Slopes>,
}

/// The slopes of linear biases (ALiBi).
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slopes {
    /// Exponent of the last slope: `2^-exponent`, if the number of heads is a power of two.
    pub exponent: f32,
    /// Number of query heads.
    pub heads: usize,
}

impl Slopes {
    /// Returns the slope of query head `head`. If the number of heads is no power of two, the heads past the next
    /// smaller power take every second slope of twice as many heads. (Press et al., "Train Short, Test Long", 2021; the
    /// authors' code for other numbers.)
    pub fn get(&self, head: usize) -> f32 {
        let power = if self.heads.is_power_of_two() { self.heads } else { self.heads.next_power_of_two() / 2 };
        let steps = if head < power { (head + 1) as f64 } else { (head - power) as f64 + 0.5 };
        libm::exp2(-f64::from(self.exponent) * steps / power as f64) as f32
    }
}
