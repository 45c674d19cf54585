//! A matrix that ends a branch: attention's output matrix, and the down matrix.

use core::slice::from_ref;

use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Target, Viewed, Work};
use crate::device::{BranchEnd, OpView, ProjectView};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::weights::Role;

/// A matrix whose results are added to the residual stream, or become the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Project {
    pub(crate) matrix: Role,
    pub(crate) from: Input,
    pub(crate) to: Target,
}

impl Operation for Project {
    fn name(&self) -> &'static str {
        match self.to {
            Target::Residual => "project and add",
            Target::Branch => "project",
        }
    }

    fn tensors(&self) -> &[Role] {
        from_ref(&self.matrix)
    }

    fn grid(&self, context: &Context<'_, '_>, layer: usize, rows: usize, _: Batch<'_>) -> Grid {
        let width = self.from.width(&context.config, &context.config.layer(layer));
        Grid::linear(rows, context.config.hidden, width)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let deltas = context.deltas(work.layer, self.from);
        let linear = deltas.add_to(context.weights.linear(work.layer, self.matrix), self.matrix);
        let linear = linear.ok_or(Fault::Internal(site!()))?;
        let Buffers { x, branch, input, scratch, .. } = memory.buffers;
        let inputs = context.input_rows((work.layer, self.from), input, work.workers(scratch));
        let (out, how) = match self.to {
            Target::Residual => (x, context.add_scaled()),
            Target::Branch => (branch, Combine::Set),
        };
        work.each_tile(out, scratch, &|tile, scratch| {
            linear
                .run(context.level, (&inputs, tile.rows().start), 0, tile, how, scratch)
                .ok_or(Fault::Internal(site!()))
        })
    }
}

impl Viewed for Project {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let scale = context.config.residual_scale;
        let to = match self.to {
            Target::Residual => BranchEnd::Residual { scale },
            Target::Branch => BranchEnd::Branch,
        };
        Some(OpView::Project(ProjectView { matrix: context.weights.linear(layer, self.matrix)?.into(), to }))
    }
}
