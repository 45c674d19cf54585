//! The operations of recurrent layers as values.

use super::matrix::MatrixView;
use crate::kernels::Norm;
use crate::tensor::TensorView;

/// The matrices of a recurrent layer.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MixerInputView<'m> {
    /// Matrices, and the column of the mixer's input at which the outputs of each begin.
    pub parts: [Option<(usize, MatrixView<'m>)>; 4],
    /// Number of elements of the mixer's input of a row.
    pub width: usize,
}

/// A causal convolution of each channel over the current row and the rows before it, which are in the state of the
/// sequence.
///
/// `convolve(u) = ((0 + w0 * u0) + w1 * u1) + .. + bias`, from the oldest row on, with weights and biases settled. In
/// place, the result is `silu(convolve(settle(x)))`. Between two gates, with `[b | c | x]` in the mixer's input,
/// `[channels]` each, the result is `convolve(settle(b * x)) * c`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConvolutionView<'m> {
    /// Weights, `[channels, kernel]` in f32. The last column is for the current row.
    pub weights: TensorView<'m>,
    /// Biases, `[channels]`, little-endian f32 of any alignment, or empty.
    pub bias: &'m [u8],
    /// Index of the layer among the layers that have a state.
    pub layer: usize,
}

/// The update of the matrices of a state by a row, and the result that is read from them: see
/// [`Update`](crate::kernels::Update) and `docs/arithmetic.md`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct UpdateView<'m> {
    /// Rule of the update.
    pub rule: UpdateRule<'m>,
    /// Number of heads, each with a matrix `[key_dim, value_dim]`.
    pub heads: usize,
    /// Number of keys, and of queries, of a row.
    pub groups: usize,
    /// Number of elements of a key, and of a query.
    pub key_dim: usize,
    /// Number of elements of a value.
    pub value_dim: usize,
    /// Columns of the mixer's input.
    pub columns: MixerColumns,
    /// Factor A in the decay of each head, little-endian f32 of any alignment.
    pub decay: &'m [u8],
    /// Number that is added to the step of each head, little-endian f32 of any alignment.
    pub bias: &'m [u8],
    /// Index of the layer among the layers that have a state.
    pub layer: usize,
}

impl UpdateView<'_> {
    /// Returns the index of the key and query that a head uses.
    pub fn group(&self, head: usize) -> usize {
        match self.rule {
            UpdateRule::Delta { .. } => head.checked_rem(self.groups),
            UpdateRule::Space { .. } => self.heads.checked_div(self.groups).and_then(|shared| head.checked_div(shared)),
        }
        .unwrap_or(0)
    }
}

/// The columns of a row of the mixer's input at which the elements of the first head or group begin. The other heads
/// and groups follow.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MixerColumns {
    /// Queries, `[groups, key_dim]`.
    pub query: usize,
    /// Keys, `[groups, key_dim]`.
    pub key: usize,
    /// Values, `[heads, value_dim]`.
    pub value: usize,
    /// Gates, `[heads, value_dim]`. A result is multiplied by SiLU of its gate.
    pub gate: usize,
    /// Steps, one number for each head.
    pub step: usize,
}

/// The rule by which matrices are updated.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum UpdateRule<'m> {
    /// The gated delta rule. Heads use the keys and queries in turn. Both are normalized by their length, and queries
    /// are multiplied by `query_scale`. The decay is `exp(decay * softplus(step + bias))`. The strength is the sigmoid
    /// of a number of the head. These numbers follow the steps.
    Delta {
        /// Factor of the normalized queries.
        query_scale: f32,
        /// Norm of a head's result, before the gate.
        norm: Norm<'m>,
    },
    /// A state space. Heads that follow each other share a key and a query. With `s = softplus(step + bias)`, the decay
    /// is `exp(s * decay)` and the strength is s.
    Space {
        /// Number of each head. Its product with the value is added to the result, before the gate.
        skip: &'m [u8],
    },
}
