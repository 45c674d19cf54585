//! The norm of the residual stream, quantized for the matrices that read it.

use core::slice::from_ref;

use super::quantize::prepare;
use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Viewed, Work};
use crate::device::{NormView, OpView};
use crate::error::Fault;
use crate::mem::row_of;
use crate::weights::Role;

/// A norm of the residual stream, in the forms that the matrices of an input need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Norm {
    pub(crate) weight: Role,
    pub(crate) to: Input,
}

impl Operation for Norm {
    fn name(&self) -> &'static str {
        "norm"
    }

    fn tensors(&self) -> &[Role] {
        from_ref(&self.weight)
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.input_words)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let hidden = context.config.hidden;
        let norm = context.weights.norm(work.layer, self.weight).ok_or(Fault::Internal(site!()))?;
        let Buffers { x, input, scratch, .. } = memory.buffers;
        work.each_row(input, scratch, &|index, out, scratch| {
            let (normed, scratch) = scratch.split_at_mut_checked(hidden).ok_or(Fault::Internal(site!()))?;
            context.level.norm(&norm, row_of(x, index, hidden).ok_or(Fault::Internal(site!()))?, normed);
            prepare(context, self.to, &work, index, normed, out, scratch)
        })
    }
}

impl Viewed for Norm {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let norm = context.weights.norm(layer, self.weight)?;
        Some(OpView::Norm(NormView { norm, input: context.input_view(layer, self.to) }))
    }
}
