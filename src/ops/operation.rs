//! What every operation is.

use super::{Batch, Buffers, Context, Grid, Work};
use crate::cache::KvCache;
use crate::device::OpView;
use crate::error::Fault;
use crate::weights::Role;

/// The buffer to which a linear layer that ends a branch writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The residual stream: results are scaled and added.
    Residual,
    /// The branch, whose norm is added to the residual stream by [`AddNormed`](super::AddNormed).
    Branch,
}

/// What operations change: the buffers of the batch, and the keys and values of its sequences.
pub(crate) struct Memory<'w, 'a> {
    pub(crate) buffers: &'w mut Buffers<'a>,
    pub(crate) cache: &'w mut KvCache<'a>,
}

/// A step of a forward pass. All its units are done before the next operation begins.
pub(crate) trait Operation {
    /// What the operation is called in the list of a program.
    fn name(&self) -> &'static str;

    /// The roles of the tensors that it can read. Biases belong to their tensors.
    fn tensors(&self) -> &[Role];

    /// The shape of its result for `rows` rows of a batch, and the tiles that it is cut into.
    fn grid(&self, context: &Context<'_, '_>, layer: usize, rows: usize, batch: Batch<'_>) -> Grid;

    /// Runs the units that are due, as long as the watch allows it. Returns how many of these units are left: the last
    /// ones.
    ///
    /// # Errors
    /// [`Fault`]: a value is not finite, or sizes do not fit.
    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault>;
}

/// What a device needs to know of an operation. It is a trait of its own so that programs without a device do not carry
/// it.
pub(crate) trait Viewed: Operation {
    /// The view of the operation in a layer; `None` where a tensor is missing.
    fn view<'m>(&self, _: &Context<'m, '_>, _: usize) -> Option<OpView<'m>> {
        Some(OpView::Other(self.name()))
    }
}
