//! The scan of a state space. (Dao and Gu, "Transformers are SSMs", 2024: Mamba-2.)

use super::convolve::check_finite;
use super::recur::{Part, fetch, number, update_view};
use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::device::{MixerColumns, OpView, UpdateRule};
use crate::error::Fault;
use crate::kernels::{Combine, Update};
use crate::mem::row_of;
use crate::num::{exp, settle, softplus};
use crate::weights::{Recurrent, Role};

/// For each head, the state decays, the step's product of key and value is added, and the query reads the state. The
/// result is gated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan;

impl Operation for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::Decay, Role::StepBias, Role::Skip]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let recurrent = &context.config.recurrent;
        Part::Matrices.grid(recurrent, rows, recurrent.inner())
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (recurrent, level, layer) = (&context.config.recurrent, context.level, work.layer);
        let (width, inner) = (recurrent.input_width(), recurrent.inner());
        let Buffers { mix, mixed, scratch, .. } = memory.buffers;
        work.each_unit(
            recurrent,
            Part::Matrices,
            (mixed, inner),
            scratch,
            memory.cache,
            &|tile, state, due, scratch| {
                let head = tile.index();
                let numbers = [Role::Decay, Role::StepBias, Role::Skip].map(|role| number(context, layer, role, head));
                let [Some(decay), Some(bias), Some(skip)] = numbers else { return Err(Fault::Internal(site!())) };
                for piece in work.batch.pieces(due) {
                    let seq = piece.seq(work.batch).ok_or(Fault::Internal(site!()))?;
                    let state = state.of(seq, piece.begins()).ok_or(Fault::Internal(site!()))?;
                    for row in piece.rows() {
                        fetch(level, row_of(mix, row + 1, width), &parts(recurrent, head));
                        let row_of_mix = row_of(mix, row, width).ok_or(Fault::Internal(site!()))?;
                        let token = Token::new(context, row_of_mix, head, scratch).ok_or(Fault::Internal(site!()))?;
                        let out = tile.row_mut(row).ok_or(Fault::Internal(site!()))?;
                        level.update_state(&token.update(decay, bias), state, out).ok_or(Fault::Internal(site!()))?;
                        level.combine(Combine::AddScaled(skip), out, token.x);
                        level.gate(token.gate, out);
                        check_finite(out)?;
                    }
                }
                Ok(())
            },
        )
    }
}

impl Viewed for Scan {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let recurrent = &context.config.recurrent;
        let [(key, _), (query, _), (value, _), (gate, _)] = parts(recurrent, 0);
        let columns = MixerColumns { query, key, value, gate, step: recurrent.channels + recurrent.inner() };
        let rule = UpdateRule::Space { skip: context.weights.tensor(layer, Role::Skip)?.bytes() };
        Some(OpView::Update(update_view(context, layer, rule, columns)?))
    }
}

/// Returns the start and the length of the key, query, value and gate of a head in a row of the mixer's input.
fn parts(recurrent: &Recurrent, head: usize) -> [(usize, usize); 4] {
    let Recurrent { channels, heads, key_dim, value_dim, groups, .. } = *recurrent;
    // Heads that follow each other share keys and queries.
    let group = heads.checked_div(groups).and_then(|heads| head.checked_div(heads)).unwrap_or(0);
    let (inner, value) = (recurrent.inner(), head * value_dim);
    [
        (inner + group * key_dim, key_dim),
        (inner + (groups + group) * key_dim, key_dim),
        (value, value_dim),
        (channels + value, value_dim),
    ]
}

/// The input of one row for one head.
struct Token<'t> {
    key: &'t [f32],
    query: &'t [f32],
    value: &'t [f32],
    x: &'t [f32],
    gate: &'t [f32],
    step: f32,
}

impl<'t> Token<'t> {
    /// Returns the input of head `head`. Keys, queries and values are in scratch.
    fn new(context: &Context<'_, '_>, input: &'t [f32], head: usize, scratch: &'t mut [f32]) -> Option<Self> {
        let recurrent @ Recurrent { channels, key_dim, value_dim, .. } = context.config.recurrent;
        let [key_at, query_at, value_at, gate_at] = parts(&recurrent, head);
        let part = |(start, len): (usize, usize)| input.get(start..start.checked_add(len)?);
        let (key, rest) = scratch.split_at_mut_checked(key_dim)?;
        let (query, rest) = rest.split_at_mut_checked(key_dim)?;
        let value = rest.get_mut(..value_dim)?;
        let x = part(value_at)?;
        for (to, from) in [&mut *key, &mut *query, &mut *value].into_iter().zip([part(key_at)?, part(query_at)?, x]) {
            context.level.settle(from, to);
        }
        let step = *input.get(channels + recurrent.inner() + head)?;
        Some(Self { key, query, value, x, gate: part(gate_at)?, step })
    }

    fn update(&self, decay: f32, bias: f32) -> Update<'t> {
        let step = softplus(self.step + bias);
        let (key, query, value) = (self.key, self.query, self.value);
        Update { decay: settle(exp(step * decay)), key, query, value, strength: step, corrects: false }
    }
}
