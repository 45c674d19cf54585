//! A feed-forward layer of experts, of which each row goes through a few. (Jiang et al., "Mixtral of Experts", 2024.)

use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Target, Work};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::mem::row_of;
use crate::nn::choose_experts;
use crate::weights::Role;

/// The logits of experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route;

impl Operation for Route {
    fn name(&self) -> &'static str {
        "route"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::Router]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::linear(rows, context.config.feed_forward.experts, context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let router = context.weights.linear(work.layer, Role::Router).ok_or(Fault::Internal(site!()))?;
        let Buffers { input, router: logits, scratch, .. } = memory.buffers;
        let inputs = context.input_rows(Input::FeedForward, input, work.workers(scratch));
        work.each_tile(logits, scratch, &|tile, scratch| {
            let from = (&inputs, tile.rows().start);
            router.run(context.level, from, 0, tile, Combine::Set, scratch).ok_or(Fault::Internal(site!()))
        })
    }
}

/// Which experts each row goes through: those with the largest logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChooseExperts;

impl Operation for ChooseExperts {
    fn name(&self) -> &'static str {
        "choose experts"
    }

    fn tensors(&self) -> &[Role] {
        &[]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.feed_forward.experts_used)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let experts = context.config.feed_forward.experts;
        let Buffers { router, choices, scratch, .. } = memory.buffers;
        work.each_row(choices, scratch, &|index, out, _| {
            let logits = row_of(router, index, experts).ok_or(Fault::Internal(site!()))?;
            choose_experts(logits, out).ok_or(Fault::NonFinite)
        })
    }
}

/// `activation(gate) * up` of the chosen experts: every row gives as many rows of the result as it has experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpertGateUp;

impl Operation for ExpertGateUp {
    fn name(&self) -> &'static str {
        "experts' gate and up"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::GateExperts, Role::UpExperts]
    }

    /// Rows that follow each other go through different experts, so a tile has one row.
    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let config = &context.config;
        Grid { rows: rows * config.feed_forward.experts_used, ..Grid::linear(1, config.ffn, 2 * config.hidden) }
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (layer, width, level) = (work.layer, context.config.ffn, context.level);
        let (used, activation) = (context.config.feed_forward.experts_used, context.config.feed_forward.activation);
        let Buffers { input, ffn, choices, scratch, .. } = memory.buffers;
        let inputs = context.input_rows(Input::FeedForward, input, work.workers(scratch));
        work.each_tile(ffn, scratch, &|tile, scratch| {
            let row = tile.rows().start;
            let from = (&inputs, row.checked_div(used).ok_or(Fault::Internal(site!()))?);
            let choice = choices.get(row).ok_or(Fault::Internal(site!()))?;
            let expert =
                |role| context.weights.expert(layer, role, choice.expert, width).ok_or(Fault::Internal(site!()));
            let (gate, up) = (expert(Role::GateExperts)?, expert(Role::UpExperts)?);
            gate.run(level, from, 0, tile, Combine::Set, scratch).ok_or(Fault::Internal(site!()))?;
            up.run(level, from, 0, tile, Combine::Gate(activation), scratch).ok_or(Fault::Internal(site!()))
        })
    }
}

/// The weighted sum of the experts' results, in the order in which they were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpertDown {
    pub(crate) to: Target,
}

impl Operation for ExpertDown {
    fn name(&self) -> &'static str {
        match self.to {
            Target::Residual => "experts' down and add",
            Target::Branch => "experts' down",
        }
    }

    fn tensors(&self) -> &[Role] {
        &[Role::DownExperts]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let config = &context.config;
        Grid { rows, ..Grid::linear(1, config.hidden, config.ffn * config.feed_forward.experts_used) }
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (layer, hidden, level) = (work.layer, context.config.hidden, context.level);
        let used = context.config.feed_forward.experts_used;
        let Buffers { x, branch, input, choices, scratch, .. } = memory.buffers;
        let inputs = context.input_rows(Input::Down, input, work.workers(scratch));
        let (out, scale) = match self.to {
            Target::Residual => (x, context.config.residual_scale),
            Target::Branch => (branch, 1.0),
        };
        work.each_tile(out, scratch, &|tile, scratch| {
            let row = tile.rows().start;
            if self.to == Target::Branch {
                tile.row_mut(row).ok_or(Fault::Internal(site!()))?.fill(0.0);
            }
            for index in row * used..(row + 1) * used {
                let choice = choices.get(index).ok_or(Fault::Internal(site!()))?;
                let down = context.weights.expert(layer, Role::DownExperts, choice.expert, hidden);
                let how = Combine::AddScaled(choice.weight * scale);
                let down = down.ok_or(Fault::Internal(site!()))?;
                down.run(level, (&inputs, index), 0, tile, how, scratch).ok_or(Fault::Internal(site!()))?;
            }
            Ok(())
        })
    }
}
