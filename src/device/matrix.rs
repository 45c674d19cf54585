//! Matrices as values, and the destinations of their results.

use crate::nn::Linear;
use crate::tensor::TensorView;

/// A matrix and its bias.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MatrixView<'m> {
    /// Weights, `[outputs, inputs]`.
    pub weights: TensorView<'m>,
    /// Biases, `[outputs]`, little-endian f32 of any alignment, or empty.
    pub bias: &'m [u8],
}

impl<'m> From<Linear<'m>> for MatrixView<'m> {
    fn from(linear: Linear<'m>) -> Self {
        Self { weights: linear.weights, bias: linear.bias }
    }
}

impl MatrixView<'_> {
    /// Returns `count` rows of the matrix from row `first` on, with their biases, or `None` if it has fewer rows.
    pub fn slice(&self, first: usize, count: usize) -> Option<Self> {
        let linear = Linear { bias: self.bias, ..Linear::plain(self.weights) };
        Some(linear.slice(first, count)?.into())
    }
}

/// The destination of the results of a branch.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum BranchEnd {
    /// The results are added to the residual stream. Unless the scale is 1, they are multiplied by it first and
    /// settled.
    Residual {
        /// The factor.
        scale: f32,
    },
    /// The results become the branch.
    Branch,
}
