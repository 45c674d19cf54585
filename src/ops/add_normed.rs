//! The norm of a branch, added to the residual stream.

use core::slice::from_ref;

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::device::{AddNormedView, OpView};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::mem::row_of;
use crate::weights::Role;

/// Adds the norm of the branch to the residual stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddNormed {
    pub(crate) weight: Role,
}

impl Operation for AddNormed {
    fn name(&self) -> &'static str {
        "norm and add"
    }

    fn tensors(&self) -> &[Role] {
        from_ref(&self.weight)
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (level, hidden, how) = (context.level, context.config.hidden, context.add_scaled());
        let norm = context.weights.norm(work.layer, self.weight).ok_or(Fault::Internal(site!()))?;
        let Buffers { x, branch, scratch, .. } = memory.buffers;
        work.each_row(x, scratch, &|index, out, scratch| {
            let normed = scratch.get_mut(..hidden).ok_or(Fault::Internal(site!()))?;
            level.norm(&norm, row_of(branch, index, hidden).ok_or(Fault::Internal(site!()))?, normed);
            level.combine(how, out, normed);
            Ok(())
        })
    }
}

impl Viewed for AddNormed {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let norm = context.weights.norm(layer, self.weight)?;
        Some(OpView::AddNormed(AddNormedView { norm, scale: context.config.residual_scale }))
    }
}

impl Context<'_, '_> {
    /// Returns how a branch is added to the residual stream.
    pub(super) fn add_scaled(&self) -> Combine {
        let scale = self.config.residual_scale;
        if scale == 1.0 { Combine::Add } else { Combine::AddScaled(scale) }
    }
}
