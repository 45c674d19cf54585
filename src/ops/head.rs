//! The logits.

use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Viewed, Work};
use crate::device::{HeadView, OpView};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::num::{all_finite, settle};
use crate::weights::Role;

/// The output matrix, or the embedding in its place, with the scale and the soft cap of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head;

impl Operation for Head {
    fn name(&self) -> &'static str {
        "logits"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::Output, Role::PredictorOutput]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::linear(rows, context.config.vocab, context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (level, head) = (context.level, context.config.head);
        let output = context.weights.output().ok_or(Fault::Internal(site!()))?;
        let Buffers { input, logits, scratch, .. } = memory.buffers;
        let inputs = context.input_rows((work.layer, Input::Head), input, work.workers(scratch));
        work.each_tile(logits, scratch, &|tile, scratch| {
            let mut rows = tile.rows();
            output.run(level, (&inputs, rows.start), 0, tile, Combine::Set, scratch).ok_or(Fault::Internal(site!()))?;
            rows.try_for_each(|row| {
                let logits = tile.row_mut(row).ok_or(Fault::Internal(site!()))?;
                if head.scale != 1.0 {
                    logits.iter_mut().for_each(|logit| *logit = settle(*logit * head.scale));
                }
                if head.soft_cap > 0.0 {
                    level.soft_cap(head.soft_cap, logits);
                }
                if all_finite(logits) { Ok(()) } else { Err(Fault::NonFinite) }
            })
        })
    }
}

impl Viewed for Head {
    fn view<'m>(&self, context: &Context<'m, '_>, _: usize) -> Option<OpView<'m>> {
        let crate::weights::Head { scale, soft_cap, .. } = context.config.head;
        Some(OpView::Head(HeadView { matrix: context.weights.output()?.into(), scale, soft_cap }))
    }
}
