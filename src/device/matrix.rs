//! Matrices as values, and where their results go.

use crate::nn::Linear;
use crate::tensor::TensorView;

/// A matrix and its bias.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MatrixView<'m> {
    /// `[outputs, inputs]`.
    pub weights: TensorView<'m>,
    /// `[outputs]`, little-endian f32 of any alignment; empty where there is none.
    pub bias: &'m [u8],
}

impl<'m> From<Linear<'m>> for MatrixView<'m> {
    fn from(linear: Linear<'m>) -> Self {
        Self { weights: linear.weights, bias: linear.bias }
    }
}

impl MatrixView<'_> {
    /// Returns `count` of its rows from the `first` on, with their biases; `None` where it has fewer.
    pub fn slice(&self, first: usize, count: usize) -> Option<Self> {
        let linear = Linear { bias: self.bias, ..Linear::plain(self.weights) };
        Some(linear.slice(first, count)?.into())
    }
}

/// Where the results of a branch go.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BranchEnd {
    /// They are added to the residual stream, multiplied by this before (and settled) unless it is 1.
    Residual {
        /// The factor.
        scale: f32,
    },
    /// They become the branch.
    Branch,
}
