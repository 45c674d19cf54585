//! The scale of the residual stream at the end of a layer.

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::device::{OpView, ScaleView};
use crate::error::Fault;
use crate::num::{settle, settled_of};
use crate::weights::Role;

/// Multiplies the residual stream by the layer's own number, if the file has one, and settles it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale;

impl Operation for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::LayerScale]
    }

    /// The grid is the same with and without a number, because a plan has no weights.
    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let scale = match context.weights.tensor(work.layer, Role::LayerScale) {
            Some(scale) => Some(scale.bytes().first_chunk().copied().map(settled_of).ok_or(Fault::Internal(site!()))?),
            None => None,
        };
        let Buffers { x, scratch, .. } = memory.buffers;
        work.each_row(x, scratch, &|_, out, _| {
            if let Some(scale) = scale {
                out.iter_mut().for_each(|x| *x = settle(*x * scale));
            }
            Ok(())
        })
    }
}

impl Viewed for Scale {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let factor = match context.weights.tensor(layer, Role::LayerScale) {
            Some(scale) => Some(scale.bytes().first_chunk().copied().map(settled_of)?),
            None => None,
        };
        Some(OpView::Scale(ScaleView { factor }))
    }
}
