//! What becomes of the heads of queries and keys before attention.

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Work};
use crate::error::Fault;
use crate::kernels::Norm;
use crate::mem::row_of;
use crate::nn::rotate;
use crate::tensor::TensorView;
use crate::weights::{QkNorm, Role};

/// Clamps queries, keys and values, and norms and rotates queries and keys, as far as the model does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NormRotate;

impl Operation for NormRotate {
    fn name(&self) -> &'static str {
        "norm and rotate"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::QNorm, Role::KNorm]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.heads_width())
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (config, weights, layer) = (&context.config, &context.weights, work.layer);
        let norms = [Role::QNorm, Role::KNorm]
            .map(|role| weights.tensor(layer, role).map(|norm| (norm, weights.bias(layer, role))));
        let table = config.rope.table_of(layer);
        let Buffers { qkv, rotations, scratch, .. } = memory.buffers;
        work.each_row(qkv, scratch, &|index, qkv, _| {
            if config.attention.clamp > 0.0 {
                clamp(qkv, config.attention.clamp);
            }
            let (q, kv) = qkv.split_at_mut_checked(config.q_width()).ok_or(Fault::Internal(site!()))?;
            let k = kv.get_mut(..config.kv_width()).ok_or(Fault::Internal(site!()))?;
            let rotation = match table {
                Some(table) => {
                    let index = index * config.rope.tables() + table;
                    row_of(rotations, index, config.rope.dims).ok_or(Fault::Internal(site!()))?
                }
                None => &[],
            };
            let after = config.attention.norm_after_rotation;
            for (heads, norm) in [&mut *q, k].into_iter().zip(norms) {
                let norm_now = |heads: &mut [f32], now: bool| match norm.filter(|_| now) {
                    Some((norm, bias)) => norm_heads(context, norm, bias, heads).ok_or(Fault::Internal(site!())),
                    None => Ok(()),
                };
                norm_now(heads, !after)?;
                let turned = heads.chunks_exact_mut(config.head_dim.max(1));
                turned.for_each(|head| rotate(head, rotation, config.rope.pairs));
                norm_now(heads, after)?;
            }
            if let Some(temperature) = config.attention.temperature {
                let row = work.batch.rows.get(index).ok_or(Fault::Internal(site!()))?;
                let factor = temperature.factor(row.position as usize);
                q.iter_mut().for_each(|q| *q *= factor);
            }
            Ok(())
        })
    }
}

/// Limits magnitudes. What is not a number stays: the cache refuses it.
fn clamp(x: &mut [f32], limit: f32) {
    for x in x {
        let above = if *x > limit { limit } else { *x };
        *x = if above < -limit { -limit } else { above };
    }
}

/// Norms the heads of a row of Q or of K.
fn norm_heads(context: &Context<'_, '_>, weights: TensorView<'_>, bias: &[u8], heads: &mut [f32]) -> Option<()> {
    let with = |weight| -> Norm<'_> { context.weights.norm_with(weight, bias) };
    if context.config.attention.qk_norm == QkNorm::Row {
        context.level.norm_in_place(&with(weights.row(0)?), heads);
        return Some(());
    }
    let last = weights.rows().checked_sub(1)?;
    for (index, head) in heads.chunks_exact_mut(context.config.head_dim.max(1)).enumerate() {
        // One row of weights for all heads, or one for each.
        context.level.norm_in_place(&with(weights.row(index.min(last))?), head);
    }
    Some(())
}
