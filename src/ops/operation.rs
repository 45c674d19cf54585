//! The trait of operations.

use super::{Batch, Buffers, Context, Grid, Work};
use crate::cache::KvCache;
use crate::device::OpView;
use crate::error::Fault;
use crate::weights::Role;

/// The buffer to which a linear layer at the end of a branch writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The residual stream: results are scaled and added.
    Residual,
    /// The branch, whose norm is added to the residual stream by [`AddNormed`](super::AddNormed).
    Branch,
}

/// The memory that operations change: the buffers of the batch, and the keys and values of its sequences.
pub(crate) struct Memory<'w, 'a> {
    pub(crate) buffers: &'w mut Buffers<'a>,
    pub(crate) cache: &'w mut KvCache<'a>,
}

/// A step of a forward pass. All units of an operation are done before the next operation begins.
pub(crate) trait Operation {
    /// Returns the name of the operation in the list of a program.
    fn name(&self) -> &'static str;

    /// Returns the roles of the tensors that the operation can read. Biases belong to their tensors.
    fn tensors(&self) -> &[Role];

    /// Returns the shape of the result for `rows` rows of a batch, and the tiles into which it is cut.
    fn grid(&self, context: &Context<'_, '_>, layer: usize, rows: usize, batch: Batch<'_>) -> Grid;

    /// Runs the units that are due, as long as the watch allows it. Returns the number of these units that are left,
    /// which are the last ones.
    ///
    /// # Errors
    /// [`Fault`]: a value is not finite, or sizes do not fit.
    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault>;
}

/// The view of an operation for a device. It is a trait of its own, so that programs without a device do not contain
/// its code.
pub(crate) trait Viewed: Operation {
    /// Returns the view of the operation in a layer, or `None` if a tensor is missing.
    fn view<'m>(&self, _: &Context<'m, '_>, _: usize) -> Option<OpView<'m>> {
        Some(OpView::Other(self.name()))
    }
}
