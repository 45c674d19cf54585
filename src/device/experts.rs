//! The operations of experts as values.

use super::matrix::{BranchEnd, MatrixView};
use crate::kernels::{Activation, Norm};
use crate::nn::Routing;

/// The matrix of the logits of experts, applied to the input.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RouteView<'m> {
    /// Router, `[experts, hidden]`.
    pub router: MatrixView<'m>,
    /// Matrix of the shared expert's gate, `[1, hidden]`. The sigmoid of its logit multiplies the shared expert's
    /// activations.
    pub shared_gate: Option<MatrixView<'m>>,
}

/// The choice of the experts that each row goes through: [`Routing::choose`] of its logits. A row fails if one of its
/// logits is NaN.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ChooseView<'m> {
    /// How experts are chosen and weighted.
    pub routing: Routing,
    /// Number of experts for each row.
    pub used: usize,
    /// Biases of the choice, `[experts]`, little-endian f32 of any alignment, or empty.
    pub biases: &'m [u8],
    /// Factors of the weights, `[experts]`, little-endian f32 of any alignment, or empty. They are applied last, and
    /// the weights are settled then.
    pub scales: &'m [u8],
}

/// Matrices of all experts, one after the other.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ExpertsView<'m> {
    /// Matrices of all experts, `[experts * rows, inputs]`.
    pub all: MatrixView<'m>,
    /// Number of rows of each expert's matrix.
    pub rows: usize,
    /// First row of each expert's matrix that is used.
    pub first: usize,
    /// Number of rows of each expert's matrix that are used.
    pub count: usize,
}

impl<'m> ExpertsView<'m> {
    /// Returns the matrix of an expert, or `None` if there is no such expert.
    pub fn get(&self, expert: usize) -> Option<MatrixView<'m>> {
        self.all.slice(expert.checked_mul(self.rows)?.checked_add(self.first)?, self.count)
    }
}

/// The first half of the chosen experts, from the gathered inputs: `activation(gate) * up`, or `activation(up)`.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ExpertGateUpView<'m> {
    /// Gate matrices, if there are any.
    pub gate: Option<ExpertsView<'m>>,
    /// Up matrices.
    pub up: ExpertsView<'m>,
    /// Activation function.
    pub activation: Activation,
}

/// The sum of the results of a row's experts, in the order of their choice. Each result is multiplied by `settle(weight
/// * scale)` and settled.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AddExpertsView<'m> {
    /// Destination of the sum, which is added to the residual stream or to the contents of the branch.
    pub to: BranchEnd,
    /// Norm of the sum, if there is one. Then the sum begins with +0.0, and its norm is added.
    pub norm: Option<Norm<'m>>,
}
