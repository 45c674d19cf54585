//! The norm of a buffer, in place.

use core::slice::from_ref;

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Target, Viewed, Work};
use crate::device::{OpView, RenormView};
use crate::error::Fault;
use crate::weights::Role;

/// Normalizes the residual stream itself, in models whose norms follow the additions, or a branch before another branch
/// is added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renorm {
    pub(crate) of: Target,
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
        let Buffers { x, branch, scratch, .. } = memory.buffers;
        let rows = match self.of {
            Target::Residual => x,
            Target::Branch => branch,
        };
        work.each_row(rows, scratch, &|_, row, _| {
            context.level.norm_in_place(&norm, row);
            Ok(())
        })
    }
}

impl Viewed for Renorm {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let norm = context.weights.norm(layer, self.weight)?;
        Some(OpView::Renorm(RenormView { norm, of_branch: self.of == Target::Branch }))
    }
}
