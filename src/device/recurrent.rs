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
    /// The matrices, and the column of the mixer's input at which the outputs of each begin.
    pub parts: [Option<(usize, MatrixView<'m>)>; 4],
    /// Elements of the mixer's input of a row.
    pub width: usize,
}

/// A causal convolution of each channel over the current row and those before it, which are in the state of the
/// sequence.
///
/// `convolve(u) = ((0 + w0 * u0) + w1 * u1) + .. + bias`, from the oldest row on, with weights and biases settled. In
/// place it is `silu(convolve(settle(x)))`. Between two gates, with `[b | c | x]` of the mixer's input, `[channels]`
/// each, it is `convolve(settle(b * x)) * c`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ConvolutionView<'m> {
    /// `[channels, kernel]` in f32; the last column is for the current row.
    pub weights: TensorView<'m>,
    /// `[channels]`, little-endian f32 of any alignment; empty where there is none.
    pub bias: &'m [u8],
    /// The number of the layer among those that have a state.
    pub layer: usize,
}

/// What a row does to the matrices of its state, and what it reads from them: see [`Update`](crate::kernels::Update),
/// and `docs/arithmetic.md`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct UpdateView<'m> {
    /// How.
    pub rule: UpdateRule<'m>,
    /// Heads, each with a matrix `[key_dim, value_dim]`.
    pub heads: usize,
    /// Keys and queries of a row.
    pub groups: usize,
    /// Elements of a key, and of a query.
    pub key_dim: usize,
    /// Elements of a value.
    pub value_dim: usize,
    /// Where the mixer's input of a row has what it needs.
    pub columns: MixerColumns,
    /// A number of each head, little-endian f32 of any alignment: how fast it forgets.
    pub decay: &'m [u8],
    /// The same: what is added to its step.
    pub bias: &'m [u8],
    /// The number of the layer among those that have a state.
    pub layer: usize,
}

impl UpdateView<'_> {
    /// Returns which of the keys and queries a head has.
    pub fn group(&self, head: usize) -> usize {
        match self.rule {
            UpdateRule::Delta { .. } => head.checked_rem(self.groups),
            UpdateRule::Space { .. } => self.heads.checked_div(self.groups).and_then(|shared| head.checked_div(shared)),
        }
        .unwrap_or(0)
    }
}

/// Where a row of the mixer's input has the elements of the first head or group; those of the others follow.
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
    /// Gates, `[heads, value_dim]`: a result is multiplied by SiLU of its gate.
    pub gate: usize,
    /// Steps, a number of each head.
    pub step: usize,
}

/// How matrices are updated.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum UpdateRule<'m> {
    /// The gated delta rule. Heads take the keys and queries in turn. These are normalized by their length, and queries
    /// multiplied by `query_scale`. The decay is `exp(decay * softplus(step + bias))`, the strength the sigmoid of a
    /// number of the head, which follow the steps.
    Delta {
        /// See above.
        query_scale: f32,
        /// The norm of a head's result, before the gate.
        norm: Norm<'m>,
    },
    /// A state space. Heads that follow each other share keys and queries. With `s = softplus(step + bias)` the decay
    /// is `exp(s * decay)`, the strength s.
    Space {
        /// A number of each head: the value times this is added to the result, before the gate.
        skip: &'m [u8],
    },
}
