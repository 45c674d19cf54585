//! The operations of experts as values.

use super::matrix::{BranchEnd, MatrixView};
use crate::kernels::{Activation, Norm};
use crate::nn::Routing;

/// The logits of experts, from the input.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RouteView<'m> {
    /// `[experts, hidden]`.
    pub router: MatrixView<'m>,
    /// `[1, hidden]`: the logit of what the result of the shared expert is multiplied by.
    pub shared_gate: Option<MatrixView<'m>>,
}

/// Which experts each row goes through: [`Routing::choose`] of its logits. A row fails where one of them is not a
/// number.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ChooseView<'m> {
    /// How they are chosen and weighted.
    pub routing: Routing,
    /// How many.
    pub used: usize,
    /// Biases of the choice, `[experts]`, little-endian f32 of any alignment, or empty.
    pub biases: &'m [u8],
    /// What weights are multiplied by at last, and settled: the same.
    pub scales: &'m [u8],
}

/// Matrices of all experts, one after the other.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ExpertsView<'m> {
    /// `[experts * rows, inputs]`.
    pub all: MatrixView<'m>,
    /// Rows of each.
    pub rows: usize,
    /// The first row of each that counts.
    pub first: usize,
    /// How many count.
    pub count: usize,
}

impl<'m> ExpertsView<'m> {
    /// Returns the matrix of an expert; `None` where there is no such expert.
    pub fn get(&self, expert: usize) -> Option<MatrixView<'m>> {
        self.all.slice(expert.checked_mul(self.rows)?.checked_add(self.first)?, self.count)
    }
}

/// `activation(gate) * up`, or `activation(up)`, of the chosen experts, from the gathered inputs.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ExpertGateUpView<'m> {
    /// The gates' matrices, if there are any.
    pub gate: Option<ExpertsView<'m>>,
    /// The up matrices.
    pub up: ExpertsView<'m>,
    /// The activation function.
    pub activation: Activation,
}

/// The sum of the results of a row's experts, in the order of their choice, each times `settle(weight * scale)`, and
/// settled.
///
/// [Example](crate::device#example).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct AddExpertsView<'m> {
    /// Where they are added: to the residual stream, or to what the branch holds.
    pub to: BranchEnd,
    /// The norm of the sum, which goes from +0.0 then; what it gives is added.
    pub norm: Option<Norm<'m>>,
}
