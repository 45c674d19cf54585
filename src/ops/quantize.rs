//! Activations, quantized for the matrices that read them.

use super::partials::finish_heads;
use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Row, Work};
use crate::error::Fault;
use crate::mem::row_of;
use crate::num::sigmoid;
use crate::weights::Role;

/// Activations in the forms that an input's matrices want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantize {
    pub(crate) from: Source,
    pub(crate) to: Input,
}

/// The activations that are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The residual stream.
    Residual,
    /// Attention's result: its sums, divided.
    Attention,
    /// What the gate and up matrices gave, of as many rows as the input has.
    FeedForward,
}

impl Operation for Quantize {
    fn name(&self) -> &'static str {
        "quantize"
    }

    fn tensors(&self) -> &[Role] {
        match self.from {
            Source::Attention => &[Role::SinkScores],
            Source::Residual | Source::FeedForward => &[],
        }
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let per_row = if self.to == Input::ExpertDown { context.config.feed_forward.experts_used } else { 1 };
        Grid::by_row(rows * per_row, context.input_words)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let width = self.to.width(&context.config);
        let sinks = context.weights.tensor(work.layer, Role::SinkScores).map_or(&[][..], |sinks| sinks.bytes());
        let form = &context.config.feed_forward;
        let gated = self.to == Input::SharedDown && form.shared_gate;
        let Buffers { x, input, partials, ffn, router, scratch, .. } = memory.buffers;
        work.each_row(input, scratch, &|index, out, scratch| {
            let (finished, scratch) = scratch.split_at_mut_checked(width).ok_or(Fault::Internal(site!()))?;
            let source = match self.from {
                Source::Residual => row_of(x, index, width).ok_or(Fault::Internal(site!()))?,
                Source::FeedForward if gated => {
                    let row = row_of(ffn, index, width).ok_or(Fault::Internal(site!()))?;
                    let logits = row_of(router, index, form.router_width()).ok_or(Fault::Internal(site!()))?;
                    let gate = sigmoid(*logits.get(form.experts).ok_or(Fault::Internal(site!()))?);
                    finished.iter_mut().zip(row).for_each(|(finished, x)| *finished = x * gate);
                    finished
                }
                Source::FeedForward => row_of(ffn, index, width).ok_or(Fault::Internal(site!()))?,
                Source::Attention => {
                    finish_heads(&context.config, partials, index, sinks, finished).ok_or(Fault::Internal(site!()))?;
                    finished
                }
            };
            prepare(context, self.to, &work, index, source, out, scratch)
        })
    }
}

/// Stores row `index` of an input, `x`, in the forms that its matrices want, and behind them the products with the first
/// matrices of adapters.
#[inline(never)] // Two operations share it.
pub(super) fn prepare(
    context: &Context<'_, '_>,
    to: Input,
    work: &Work<'_>,
    index: usize,
    x: &[f32],
    out: &mut [u32],
    scratch: &mut [f32],
) -> Result<(), Fault> {
    context.forms.get(to).prepare(context.level, x, out)?;
    if context.adapters.is_empty() {
        return Ok(());
    }
    let seq = work.batch.rows.get(index).map(Row::seq);
    context.adapters.project(context.level, (work.layer, to), seq, x, out, scratch).ok_or(Fault::Internal(site!()))
}
