//! The norm of the residual stream in place of it.

use core::slice::from_ref;

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Work};
use crate::error::Fault;
use crate::weights::Role;

/// Normalizes the residual stream itself, as models do whose norms follow the additions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renorm {
    pub(crate) weight: Role,
}

impl Operation for Renorm {
    fn name(&self) -> &'static str {
        "norm in place"
    }

    fn tensors(&self) -> &[Role] {
        from_ref(&self.weight)
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let norm = context.weights.norm(work.layer, self.weight).ok_or(Fault::Internal(site!()))?;
        let Buffers { x, scratch, .. } = memory.buffers;
        work.each_row(x, scratch, &|_, row, _| {
            context.level.norm_in_place(&norm, row);
            Ok(())
        })
    }
}
