//! The gated delta rule. (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024.)

use super::convolve::check_finite;
use super::recur::{Part, fetch, number, update_view};
use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::device::{MixerColumns, OpView, UpdateRule};
use crate::error::Fault;
use crate::kernels::Update;
use crate::mem::row_of;
use crate::num::{exp, settle, sigmoid, softplus};
use crate::weights::{Recurrent, Role, inverse_root};

/// For each head, the state decays, its value for the key is corrected, and the query reads the state. The result is
/// normalized and gated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeltaRule;

impl Operation for DeltaRule {
    fn name(&self) -> &'static str {
        "delta rule"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::Decay, Role::StepBias, Role::MixerNorm]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let recurrent = &context.config.recurrent;
        Part::Matrices.grid(recurrent, rows, recurrent.inner())
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (recurrent, level, layer) = (&context.config.recurrent, context.level, work.layer);
        let (width, inner) = (recurrent.input_width(), recurrent.inner());
        let norm = context.weights.norm(layer, Role::MixerNorm).ok_or(Fault::Internal(site!()))?;
        let Buffers { mix, mixed, scratch, .. } = memory.buffers;
        work.each_unit(
            recurrent,
            Part::Matrices,
            (mixed, inner),
            scratch,
            memory.cache,
            &|tile, state, due, scratch| {
                let head = tile.index();
                let [decay, bias] = [Role::Decay, Role::StepBias].map(|role| number(context, layer, role, head));
                let (decay, bias) = (decay.ok_or(Fault::Internal(site!()))?, bias.ok_or(Fault::Internal(site!()))?);
                for piece in work.batch.pieces(due) {
                    let seq = piece.seq(work.batch).ok_or(Fault::Internal(site!()))?;
                    let state = state.of(seq, piece.begins()).ok_or(Fault::Internal(site!()))?;
                    for row in piece.rows() {
                        fetch(level, row_of(mix, row + 1, width), &parts(recurrent, head));
                        let row_of_mix = row_of(mix, row, width).ok_or(Fault::Internal(site!()))?;
                        let token = Token::new(context, row_of_mix, head, scratch).ok_or(Fault::Internal(site!()))?;
                        let update = token.update(decay, bias);
                        let out = tile.row_mut(row).ok_or(Fault::Internal(site!()))?;
                        level.update_state(&update, state, out).ok_or(Fault::Internal(site!()))?;
                        level.norm_in_place(&norm, out);
                        level.gate(token.gate, out);
                        check_finite(out)?;
                    }
                }
                Ok(())
            },
        )
    }
}

impl Viewed for DeltaRule {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let recurrent = &context.config.recurrent;
        let [(query, _), (key, _), (value, _), (gate, _)] = parts(recurrent, 0);
        let columns = MixerColumns { query, key, value, gate, step: recurrent.channels + recurrent.inner() };
        let norm = context.weights.norm(layer, Role::MixerNorm)?;
        let rule = UpdateRule::Delta { query_scale: inverse_root(recurrent.key_dim), norm };
        Some(OpView::Update(update_view(context, layer, rule, columns)?))
    }
}

/// Returns the start and the length of the query, key, value and gate of a head in a row of the mixer's input.
fn parts(recurrent: &Recurrent, head: usize) -> [(usize, usize); 4] {
    let Recurrent { channels, key_dim, value_dim, groups, .. } = *recurrent;
    // Heads take the keys and queries in turn.
    let (group, value) = (head.checked_rem(groups).unwrap_or(0), head * value_dim);
    [
        (group * key_dim, key_dim),
        ((groups + group) * key_dim, key_dim),
        (2 * groups * key_dim + value, value_dim),
        (channels + value, value_dim),
    ]
}

/// The input of one row for one head.
struct Token<'t> {
    key: &'t [f32],
    query: &'t [f32],
    value: &'t [f32],
    gate: &'t [f32],
    alpha: f32,
    beta: f32,
}

impl<'t> Token<'t> {
    /// Returns the input of head `head`. Keys, queries and values are in scratch.
    fn new(context: &Context<'_, '_>, input: &'t [f32], head: usize, scratch: &'t mut [f32]) -> Option<Self> {
        let (level, recurrent) = (context.level, context.config.recurrent);
        let Recurrent { channels, heads, key_dim, value_dim, .. } = recurrent;
        let part = |(start, len): (usize, usize)| input.get(start..start.checked_add(len)?);
        let [query_at, key_at, value_at, gate_at] = parts(&recurrent, head);
        let (key, rest) = scratch.split_at_mut_checked(key_dim)?;
        let (query, rest) = rest.split_at_mut_checked(key_dim)?;
        let value = rest.get_mut(..value_dim)?;
        level.normalize(part(key_at)?, 1.0, key);
        level.normalize(part(query_at)?, inverse_root(key_dim), query);
        level.settle(part(value_at)?, value);
        let numbers = channels + recurrent.inner();
        Some(Self {
            key,
            query,
            value,
            gate: part(gate_at)?,
            alpha: *input.get(numbers + head)?,
            beta: *input.get(numbers + heads + head)?,
        })
    }

    fn update(&self, decay: f32, bias: f32) -> Update<'t> {
        let decay = settle(exp(decay * softplus(self.alpha + bias)));
        let (key, query, value) = (self.key, self.query, self.value);
        Update { decay, key, query, value, strength: settle(sigmoid(self.beta)), corrects: true }
    }
}
