//! A feed-forward layer of experts, of which each row goes through a few. (Jiang et al., "Mixtral of Experts", 2024.)
//!
//! Rows are put in the order of their experts, so that an expert's weights are read once for all of its rows. The
//! results of a row are added in the order in which its experts were chosen, so they do not depend on other rows.

use super::buffers::group_words;
use super::groups::Groups;
use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Target, Viewed, Work};
use crate::device::{AddExpertsView, BranchEnd, ChooseView, ExpertGateUpView, ExpertsView, OpView, RouteView};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::mem::{Tile, row_of};
use crate::nn::{Choice, InputRows};
use crate::num::{settle, settled_of};
use crate::weights::{FeedForward, Gate, Role};

/// The logits of the experts, and the logit of the shared expert's gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route;

impl Operation for Route {
    fn name(&self) -> &'static str {
        "route"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::Router, Role::SharedGate]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::linear(rows, context.config.feed_forward.router_width(), context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let linear = |role| context.weights.linear(work.layer, role);
        let router = linear(Role::Router).ok_or(Fault::Internal(site!()))?;
        let parts = [(0, Some(router)), (context.config.feed_forward.experts, linear(Role::SharedGate))];
        let Buffers { input, router: logits, scratch, .. } = memory.buffers;
        let inputs = context.input_rows((work.layer, Input::FeedForward), input, work.workers(scratch));
        work.each_tile(logits, scratch, &|tile, scratch| {
            let from = (&inputs, tile.rows().start);
            parts.iter().try_for_each(|(first, linear)| {
                let Some(linear) = linear else { return Ok(()) };
                let done = linear.run(context.level, from, *first, tile, Combine::Set, scratch);
                done.ok_or(Fault::Internal(site!()))
            })
        })
    }
}

impl Viewed for Route {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let linear = |role| context.weights.linear(layer, role);
        let shared_gate = linear(Role::SharedGate).map(Into::into);
        Some(OpView::Route(RouteView { router: linear(Role::Router)?.into(), shared_gate }))
    }
}

/// The choice of the experts that each row goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChooseExperts;

impl Operation for ChooseExperts {
    fn name(&self) -> &'static str {
        "choose experts"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::SelectionBias, Role::DownExpertsScales]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.feed_forward.experts_used)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let form = &context.config.feed_forward;
        let biases = context.weights.tensor(work.layer, Role::SelectionBias);
        let biases = biases.map_or(&[][..], |biases| biases.bytes().as_chunks().0);
        let (scales, _) = context.weights.expert_scales(work.layer).as_chunks();
        let Buffers { router, choices, scratch, .. } = memory.buffers;
        work.each_row(choices, scratch, &|index, out, scratch| {
            let logits = row_of(router, index, form.router_width()).and_then(|logits| logits.get(..form.experts));
            let logits = logits.ok_or(Fault::Internal(site!()))?;
            let scores = scratch.get_mut(..form.experts).ok_or(Fault::Internal(site!()))?;
            form.routing.choose(logits, biases, scores, out).ok_or(Fault::NonFinite)?;
            for choice in out {
                if let Some(&scale) = scales.get(choice.expert as usize) {
                    choice.weight = settle(choice.weight * settled_of(scale));
                }
            }
            Ok(())
        })
    }
}

impl Viewed for ChooseExperts {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let form = &context.config.feed_forward;
        let biases = context.weights.tensor(layer, Role::SelectionBias).map_or(&[][..], |biases| biases.bytes());
        let scales = context.weights.expert_scales(layer);
        Some(OpView::Choose(ChooseView { routing: form.routing, used: form.experts_used, biases, scales }))
    }
}

/// The order of rows by their experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupRows;

impl Operation for GroupRows {
    fn name(&self) -> &'static str {
        "group rows"
    }

    fn tensors(&self) -> &[Role] {
        &[]
    }

    /// Returns one unit, which does a few operations for each row.
    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let FeedForward { experts, experts_used, .. } = context.config.feed_forward;
        Grid::by_row(rows.min(1), group_words(rows * experts_used, experts).unwrap_or(0))
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let Buffers { choices, groups, scratch, .. } = memory.buffers;
        let pairs = work.grid.cols.saturating_sub(context.config.feed_forward.experts) / 2;
        let choices = choices.get(..pairs).ok_or(Fault::Internal(site!()))?;
        work.each_row(groups, scratch, &|_, out, _| Groups::sort(choices, out).ok_or(Fault::Internal(site!())))
    }
}

impl Viewed for GroupRows {
    fn view<'m>(&self, _: &Context<'m, '_>, _: usize) -> Option<OpView<'m>> {
        Some(OpView::GroupRows)
    }
}

/// The inputs of the experts, in the order of the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gather;

impl Operation for Gather {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn tensors(&self) -> &[Role] {
        &[]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let words = context.forms.words(Input::FeedForward, &context.config).unwrap_or(0);
        Grid::by_row(rows * context.config.feed_forward.experts_used, words)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let used = context.config.feed_forward.experts_used;
        let Buffers { input, groups, gathered, scratch, .. } = memory.buffers;
        let groups = Groups::new(groups, work.grid.rows).ok_or(Fault::Internal(site!()))?;
        work.each_row(gathered, scratch, &|place, out, _| {
            let row = groups.pair(place).and_then(|pair| pair.checked_div(used)).ok_or(Fault::Internal(site!()))?;
            let words = row_of(input, row, context.input_words).ok_or(Fault::Internal(site!()))?;
            out.iter_mut().zip(words).for_each(|(out, &word)| *out = word);
            Ok(())
        })
    }
}

impl Viewed for Gather {
    fn view<'m>(&self, _: &Context<'m, '_>, _: usize) -> Option<OpView<'m>> {
        Some(OpView::Gather)
    }
}

/// `activation(gate) * up`, or `activation(up)`, of the chosen experts. Every row has one row of the result for each of
/// its experts, in the order of the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpertGateUp;

impl Operation for ExpertGateUp {
    fn name(&self) -> &'static str {
        "experts' gate and up"
    }

    fn tensors(&self) -> &[Role] {
        &[
            Role::GateUpExperts,
            Role::GateExperts,
            Role::UpExperts,
            Role::GateUpExpertsScales,
            Role::GateExpertsScales,
            Role::UpExpertsScales,
        ]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let FeedForward { experts, experts_used, expert_width, .. } = context.config.feed_forward;
        Grid::experts(rows * experts_used, experts, expert_width, 2 * context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let form = context.config.feed_forward;
        let FeedForward { expert_width: width, fused_experts: fused, .. } = form;
        let (layer, level, weights) = (work.layer, context.level, &context.weights);
        let activation = context.activation(layer);
        let Buffers { ffn, choices, groups, gathered, scratch, .. } = memory.buffers;
        let chosen = Chosen::new(choices, groups, work.grid.rows).ok_or(Fault::Internal(site!()))?;
        let (forms, hidden) = (context.forms.get(Input::FeedForward), context.config.hidden);
        let words = context.forms.words(Input::FeedForward, &context.config).ok_or(Fault::Internal(site!()))?;
        let inputs = InputRows::new(gathered, words, hidden, forms, work.workers(scratch));
        work.each_tile(ffn, scratch, &|tile, scratch| {
            let done = chosen.each_expert(tile, &mut |expert, tile| {
                let from = (&inputs, tile.rows().start);
                let linear = |role| weights.expert(layer, role, expert, width);
                let [gate, up] = if fused {
                    let both = weights.expert(layer, Role::GateUpExperts, expert, 2 * width)?;
                    [both.slice(0, width)?, both.slice(width, width)?]
                } else if form.gate == Gate::None {
                    let up = linear(Role::UpExperts)?;
                    return up.run(level, from, 0, tile, Combine::Activate(activation), scratch);
                } else {
                    [linear(Role::GateExperts)?, linear(Role::UpExperts)?]
                };
                gate.run(level, from, 0, tile, Combine::Set, scratch)?;
                up.run(level, from, 0, tile, Combine::Gate(activation), scratch)
            });
            done.ok_or(Fault::Internal(site!()))
        })
    }
}

impl Viewed for ExpertGateUp {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let FeedForward { gate, expert_width: width, fused_experts: fused, .. } = context.config.feed_forward;
        let activation = context.viewed_activation(layer)?;
        let all = |role, rows, first| {
            let all = context.weights.linear(layer, role)?.into();
            Some(ExpertsView { all, rows, first, count: width })
        };
        let [gate, up] = match fused {
            true => [all(Role::GateUpExperts, 2 * width, 0), all(Role::GateUpExperts, 2 * width, width)],
            false if gate == Gate::None => [None, all(Role::UpExperts, width, 0)],
            false => [Some(all(Role::GateExperts, width, 0)?), all(Role::UpExperts, width, 0)],
        };
        Some(OpView::ExpertGateUp(ExpertGateUpView { gate, up: up?, activation }))
    }
}

/// The down matrices of the chosen experts, in the order of the experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpertDown;

impl Operation for ExpertDown {
    fn name(&self) -> &'static str {
        "experts' down"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::DownExperts]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let FeedForward { experts, experts_used, expert_width, .. } = context.config.feed_forward;
        Grid::experts(rows * experts_used, experts, context.config.hidden, expert_width)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (layer, hidden, level) = (work.layer, context.config.hidden, context.level);
        let Buffers { input, choices, groups, results, scratch, .. } = memory.buffers;
        let chosen = Chosen::new(choices, groups, work.grid.rows).ok_or(Fault::Internal(site!()))?;
        let inputs = context.input_rows((work.layer, Input::ExpertDown), input, work.workers(scratch));
        work.each_tile(results, scratch, &|tile, scratch| {
            let done = chosen.each_expert(tile, &mut |expert, tile| {
                let down = context.weights.expert(layer, Role::DownExperts, expert, hidden)?;
                down.run(level, (&inputs, tile.rows().start), 0, tile, Combine::Set, scratch)
            });
            done.ok_or(Fault::Internal(site!()))
        })
    }
}

impl Viewed for ExpertDown {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let all = context.weights.linear(layer, Role::DownExperts)?.into();
        let rows = context.config.hidden;
        Some(OpView::ExpertDown(ExpertsView { all, rows, first: 0, count: rows }))
    }
}

/// The weighted sum of the experts' results, in the order in which they were chosen, or the norm of this sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddExperts {
    /// Buffer to which the sum, or its norm, is added.
    pub(crate) to: Target,
    /// Norm of the sum, if there is one.
    pub(crate) norm: Option<Role>,
}

impl Operation for AddExperts {
    fn name(&self) -> &'static str {
        match self.to {
            Target::Residual => "add experts",
            Target::Branch => "sum experts",
        }
    }

    fn tensors(&self) -> &[Role] {
        self.norm.as_slice()
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (hidden, used) = (context.config.hidden, context.config.feed_forward.experts_used);
        let Buffers { x, branch, choices, groups, results, scratch, .. } = memory.buffers;
        let groups = Groups::new(groups, work.grid.rows * used).ok_or(Fault::Internal(site!()))?;
        let (out, scale) = match self.to {
            Target::Residual => (x, context.config.residual_scale),
            Target::Branch => (branch, 1.0),
        };
        let norm = self.norm.map(|norm| context.weights.norm(work.layer, norm).ok_or(Fault::Internal(site!())));
        let norm = norm.transpose()?;
        let add_all = |row: usize, sum: &mut [f32]| {
            for pair in row * used..(row + 1) * used {
                let choice = choices.get(pair).ok_or(Fault::Internal(site!()))?;
                let result = groups.place(pair).and_then(|place| row_of(results, place, hidden));
                let result = result.ok_or(Fault::Internal(site!()))?;
                context.level.combine(Combine::AddScaled(settle(choice.weight * scale)), sum, result);
            }
            Ok(())
        };
        work.each_row(out, scratch, &|row, out, scratch| {
            let Some(norm) = norm else { return add_all(row, out) };
            let sum = scratch.get_mut(..hidden).ok_or(Fault::Internal(site!()))?;
            sum.fill(0.0);
            add_all(row, sum)?;
            context.level.norm_in_place(&norm, sum);
            context.level.combine(Combine::Add, out, sum);
            Ok(())
        })
    }
}

impl Viewed for AddExperts {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let norm = match self.norm {
            Some(norm) => Some(context.weights.norm(layer, norm)?),
            None => None,
        };
        let to = match self.to {
            Target::Residual => BranchEnd::Residual { scale: context.config.residual_scale },
            Target::Branch => BranchEnd::Branch,
        };
        Some(OpView::AddExperts(AddExpertsView { to, norm }))
    }
}

/// The experts of the rows, in the order of the experts.
struct Chosen<'c> {
    choices: &'c [Choice],
    groups: Groups<'c>,
}

impl<'c> Chosen<'c> {
    fn new(choices: &'c [Choice], groups: &'c [u32], pairs: usize) -> Option<Self> {
        Some(Self { choices, groups: Groups::new(groups, pairs)? })
    }

    /// Calls `body` with every expert that rows of a tile go through, and with these rows.
    fn each_expert(
        &self,
        tile: &mut Tile<'_, f32>,
        body: &mut dyn FnMut(u32, &mut Tile<'_, f32>) -> Option<()>,
    ) -> Option<()> {
        let mut rows = tile.rows();
        while !rows.is_empty() {
            let expert = self.expert(rows.start)?;
            let count = rows.clone().take_while(|&row| self.expert(row) == Some(expert)).count();
            let end = rows.start + count;
            body(expert, &mut tile.rows_mut(rows.start..end)?)?;
            rows.start = end;
        }
        Some(())
    }

    fn expert(&self, place: usize) -> Option<u32> {
        Some(self.choices.get(self.groups.pair(place)?)?.expert)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Matrix;

    /// With the rows of a prompt, the weights of an expert are read once for all of its rows, and once more if a tile
    /// ends among them.
    #[test]
    fn an_expert_is_read_for_many_rows() {
        const COLS: usize = 40;
        for (rows, used, experts) in [(512, 2, 8), (512, 4, 32), (512, 8, 128)] {
            let expert = |pair: usize| (pair / used * 7 + pair % used * (experts / used) + pair / 31) % experts;
            let choices: Vec<_> =
                (0..rows * used).map(|pair| Choice { expert: expert(pair) as u32, weight: 1.0 }).collect();
            let mut words = vec![0; group_words(choices.len(), experts).unwrap()];
            Groups::sort(&choices, &mut words).unwrap();
            let chosen = Chosen::new(&choices, &words, choices.len()).unwrap();
            let grid = Grid::experts(choices.len(), experts, COLS, 64);
            let mut data = vec![0.0; choices.len() * COLS];
            let matrix = Matrix::new(&mut data, grid.rows, grid.cols).unwrap();
            let tiles = matrix.tiles(grid.tile_rows, grid.tile_cols, 0..usize::MAX).unwrap();
            let (mut readings, mut products) = (0, 0);
            // Only tiles of the first columns.
            for mut tile in std::iter::from_fn(|| tiles.next()).filter(|tile| tile.cols().start == 0) {
                let mut read = |_, tile: &mut Tile<'_, f32>| {
                    (readings, products) = (readings + 1, products + tile.rows().len());
                    Some(())
                };
                chosen.each_expert(&mut tile, &mut read).unwrap();
            }
            assert_eq!(products, choices.len());
            let borders = choices.len().div_ceil(grid.tile_rows) - 1;
            assert!((experts..=experts + borders).contains(&readings), "{readings} readings of {experts} experts");
            assert!(products / readings >= 25, "{products} products in {readings} readings");
        }
    }
}
