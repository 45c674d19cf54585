//! The matrices of queries, keys and values.

use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Viewed, Work};
use crate::device::{MatrixView, OpView, QkvView, SplitView};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::weights::{HeadGates, Role};

/// Queries, keys and values side by side, from three matrices or from one, and the gates behind them, if there are any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qkv;

impl Operation for Qkv {
    fn name(&self) -> &'static str {
        "qkv"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::Q, Role::K, Role::V, Role::Qkv, Role::HeadGate]
    }

    fn grid(&self, context: &Context<'_, '_>, layer: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::linear(rows, context.config.layer(layer).heads_width(), context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let shape = context.config.layer(work.layer);
        let (q_width, kv_width, head_dim) = (shape.q_width(), shape.kv_width(), shape.kv.head_dim);
        let gated = shape.gates == HeadGates::Elements;
        let deltas = context.deltas(work.layer, Input::Attention);
        let linear = |role| deltas.add_to(context.weights.linear(work.layer, role), role);
        // A layer that reads the keys and values of another layer may have matrices of its own that nothing reads.
        let own = |role| linear(role).filter(|_| shape.has_kv);
        let q = linear(Role::Q);
        let parts = if context.config.attention.fused {
            [(0, linear(Role::Qkv)), (0, None), (0, None)]
        } else {
            [(0, q.filter(|_| !gated)), (q_width, own(Role::K)), (q_width + kv_width, own(Role::V))]
        };
        // For each head, the matrix has the rows of its queries, then the rows of its gates.
        let heads = 0..if gated { context.config.heads } else { 0 };
        let gates = heads.flat_map(|head| {
            let half = |half: usize| q.and_then(|q| q.slice((2 * head + half) * head_dim, head_dim));
            [(head * head_dim, half(0)), (q_width + 2 * kv_width + head * head_dim, half(1))]
        });
        let gate = if has_own_gates() { linear(Role::HeadGate) } else { None };
        let own_gates = [(q_width + 2 * kv_width, gate)];
        let Buffers { input, qkv, scratch, .. } = memory.buffers;
        let inputs = context.input_rows((work.layer, Input::Attention), input, work.workers(scratch));
        work.each_tile(qkv, scratch, &|tile, scratch| {
            let row = tile.rows().start;
            parts.into_iter().chain(own_gates).chain(gates.clone()).try_for_each(|(first, linear)| {
                let Some(linear) = linear else { return Ok(()) };
                linear
                    .run(context.level, (&inputs, row), first, tile, Combine::Set, scratch)
                    .ok_or(Fault::Internal(site!()))
            })
        })
    }
}

impl Viewed for Qkv {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let shape = context.config.layer(layer);
        let (q_width, kv_width, gates) = (shape.q_width(), shape.kv_width(), shape.qkv_width());
        let part = |first: usize, role| Some((first, MatrixView::from(context.weights.linear(layer, role)?)));
        let own = |first: usize, role| if shape.has_kv { part(first, role) } else { None };
        let own_gates = if has_own_gates() { part(gates, Role::HeadGate) } else { None };
        let parts = match context.config.attention.fused {
            true => [part(0, Role::Qkv), None, None, own_gates],
            false => [part(0, Role::Q), own(q_width, Role::K), own(q_width + kv_width, Role::V), own_gates],
        };
        let is_split = shape.gates == HeadGates::Elements;
        let split = is_split.then_some(SplitView { head_dim: shape.kv.head_dim, gates });
        Some(OpView::Qkv(QkvView { parts, split, width: shape.heads_width() }))
    }
}

/// Returns whether this build has an architecture with a matrix of gates.
const fn has_own_gates() -> bool {
    cfg!(any(feature = "arch-spark2_5", feature = "arch-afmoe"))
}
