//! The gate and up matrices of the feed-forward layer, and its activation function.

use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Work};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::weights::{Gate, Role};

/// `activation(gate) * up`, or `activation(up)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GateUp;

impl Operation for GateUp {
    fn name(&self) -> &'static str {
        "gate and up"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::Gate, Role::Up]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::linear(rows, context.config.ffn, 2 * context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (ffn, activation) = (context.config.ffn, context.config.feed_forward.activation);
        let deltas = context.deltas(work.layer, Input::FeedForward);
        let linear = |role| deltas.add_to(context.weights.linear(work.layer, role), role);
        let up = linear(Role::Up).ok_or(Fault::Internal(site!()))?;
        let (gate, up) = match context.config.feed_forward.gate {
            Gate::None => (None, Some(up)),
            Gate::Separate => (linear(Role::Gate), Some(up)),
            Gate::Fused => (up.slice(0, ffn), up.slice(ffn, ffn)),
        };
        let up = up.ok_or(Fault::Internal(site!()))?;
        let how = gate.map_or(Combine::Activate(activation), |_| Combine::Gate(activation));
        let Buffers { input, ffn, scratch, .. } = memory.buffers;
        let inputs = context.input_rows(Input::FeedForward, input, work.workers(scratch));
        work.each_tile(ffn, scratch, &|tile, scratch| {
            let from = (&inputs, tile.rows().start);
            if let Some(gate) = gate {
                gate.run(context.level, from, 0, tile, Combine::Set, scratch).ok_or(Fault::Internal(site!()))?;
            }
            up.run(context.level, from, 0, tile, how, scratch).ok_or(Fault::Internal(site!()))
        })
    }
}
