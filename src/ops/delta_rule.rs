//! The gated delta rule. (Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024.)

use super::convolve::check_finite;
use super::recur::{Part, number};
use super::{Batch, Buffers, Context, Grid, Memory, Operation, Work};
use crate::error::Fault;
use crate::kernels::Update;
use crate::mem::row_of;
use crate::num::{exp, settle, sigmoid, silu, softplus, sqrt, sum_lanes};
use crate::weights::{Recurrent, Role, inverse_root};

/// For each head: the state forgets, what it has for the key is corrected, and the query reads it. The result is normalized
/// and gated.
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
                        let row_of_mix = row_of(mix, row, width).ok_or(Fault::Internal(site!()))?;
                        let token = Token::new(recurrent, row_of_mix, head, scratch).ok_or(Fault::Internal(site!()))?;
                        let update = token.update(decay, bias);
                        let out = tile.row_mut(row).ok_or(Fault::Internal(site!()))?;
                        level.update_state(&update, state, out).ok_or(Fault::Internal(site!()))?;
                        level.norm_in_place(&norm, out);
                        out.iter_mut().zip(token.gate).for_each(|(out, &gate)| *out *= silu(gate));
                        check_finite(out)?;
                    }
                }
                Ok(())
            },
        )
    }
}

/// What a row's input is for a head.
struct Token<'t> {
    key: &'t [f32],
    query: &'t [f32],
    value: &'t [f32],
    gate: &'t [f32],
    alpha: f32,
    beta: f32,
}

impl<'t> Token<'t> {
    /// The input of head `head`; keys, queries and values in scratch.
    fn new(recurrent: &Recurrent, input: &'t [f32], head: usize, scratch: &'t mut [f32]) -> Option<Self> {
        let Recurrent { channels, heads, key_dim, value_dim, groups, .. } = *recurrent;
        let part = |start: usize, len: usize| input.get(start..start.checked_add(len)?);
        // Heads take the keys and queries in turn.
        let group = head.checked_rem(groups)?;
        let (key, rest) = scratch.split_at_mut_checked(key_dim)?;
        let (query, rest) = rest.split_at_mut_checked(key_dim)?;
        let value = rest.get_mut(..value_dim)?;
        normalize(part((groups + group) * key_dim, key_dim)?, 1.0, key);
        normalize(part(group * key_dim, key_dim)?, inverse_root(key_dim), query);
        let values = part(2 * groups * key_dim + head * value_dim, value_dim)?;
        value.iter_mut().zip(values).for_each(|(to, &value)| *to = settle(value));
        let numbers = channels + recurrent.inner();
        Some(Self {
            key,
            query,
            value,
            gate: part(channels + head * value_dim, value_dim)?,
            alpha: *input.get(numbers + head)?,
            beta: *input.get(numbers + heads + head)?,
        })
    }

    fn update(&self, decay: f32, bias: f32) -> Update<'t> {
        let decay = settle(exp(decay * softplus(self.alpha + bias)));
        let (key, query, value) = (self.key, self.query, self.value);
        Update { decay, key, query, value, strength: sigmoid(self.beta), corrects: true }
    }
}

/// `(x / sqrt(sum of x^2 + 10^-6)) * scale`, settled.
fn normalize(x: &[f32], scale: f32, out: &mut [f32]) {
    const EPSILON: f32 = 1e-6;
    let r = 1.0 / sqrt(sum_lanes(x, x, |a, b| a * b) + EPSILON);
    out.iter_mut().zip(x).for_each(|(out, &x)| *out = settle((x * r) * scale));
}
