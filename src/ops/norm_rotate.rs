//! Operations on queries, keys and values before attention.

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::device::{HeadNormView, NormRotateView, OpView};
use crate::error::Fault;
use crate::kernels::Norm;
use crate::mem::row_of;
use crate::nn::rotate;
use crate::tensor::TensorView;
use crate::weights::{LayerShape, QkNorm, Role};

/// Clamps queries, keys and values, normalizes them, and rotates queries and keys, each if the model does so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NormRotate;

impl Operation for NormRotate {
    fn name(&self) -> &'static str {
        "norm and rotate"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::QNorm, Role::KNorm]
    }

    fn grid(&self, context: &Context<'_, '_>, layer: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.layer(layer).heads_width())
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (config, weights, layer) = (&context.config, &context.weights, work.layer);
        let norms = [Role::QNorm, Role::KNorm]
            .map(|role| weights.tensor(layer, role).map(|norm| (norm, weights.bias(layer, role))));
        let (shape, turns) = (config.layer(layer), config.rope.place(layer));
        let Buffers { qkv, rotations, scratch, .. } = memory.buffers;
        work.each_row(qkv, scratch, &|index, qkv, _| {
            if config.attention.clamp > 0.0 {
                clamp(qkv, config.attention.clamp);
            }
            let (q, kv) = qkv.split_at_mut_checked(shape.q_width()).ok_or(Fault::Internal(site!()))?;
            let (k, v) = kv.split_at_mut_checked(shape.kv_width()).ok_or(Fault::Internal(site!()))?;
            let v = v.get_mut(..shape.kv_width()).ok_or(Fault::Internal(site!()))?;
            finish_values(context, &shape, k, v);
            let rotation = row_of(rotations, index, config.rope.width()).and_then(|row| row.get(turns.clone()));
            let rotation = rotation.ok_or(Fault::Internal(site!()))?;
            let after = config.attention.norm_after_rotation;
            for (heads, norm) in [&mut *q, k].into_iter().zip(norms) {
                let norm_now = |heads: &mut [f32], now: bool| match norm.filter(|_| now) {
                    Some((norm, bias)) => {
                        norm_heads(context, &shape, norm, bias, heads).ok_or(Fault::Internal(site!()))
                    }
                    None => Ok(()),
                };
                norm_now(heads, !after)?;
                let turned = heads.chunks_exact_mut(shape.kv.head_dim.max(1));
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

impl Viewed for NormRotate {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let (config, weights, shape) = (&context.config, &context.weights, context.config.layer(layer));
        let whole_row = config.attention.qk_norm == QkNorm::Row;
        let head_norm = |role| {
            let norm = weights.tensor(layer, role)?;
            Some(HeadNormView {
                norm: weights.norm_with(norm.row(0)?, weights.bias(layer, role)),
                weights: norm,
                whole_row,
            })
        };
        Some(OpView::NormRotate(NormRotateView {
            heads: shape.heads,
            kv_heads: if shape.has_kv { shape.kv.heads } else { 0 },
            head_dim: shape.kv.head_dim,
            clamp: config.attention.clamp,
            q_norm: head_norm(Role::QNorm),
            k_norm: head_norm(Role::KNorm),
            v_norm: config.attention.norm_values.then(|| weights.norm_with(&[], &[])),
            keys_as_values: shape.keys_as_values,
            norm_after_rotation: config.attention.norm_after_rotation,
            rotation: config.rope.place(layer),
            pairs: config.rope.pairs,
            temperature: config.attention.temperature,
        }))
    }
}

/// Makes the values of a row from its keys, if the model does so, and normalizes them. `k` are the keys before their
/// norm.
fn finish_values(context: &Context<'_, '_>, shape: &LayerShape, k: &[f32], v: &mut [f32]) {
    if shape.keys_as_values {
        v.iter_mut().zip(k).for_each(|(v, &k)| *v = k);
    }
    if context.config.attention.norm_values {
        let norm = context.weights.norm_with(&[], &[]);
        v.chunks_exact_mut(shape.kv.head_dim.max(1)).for_each(|head| context.level.norm_in_place(&norm, head));
    }
}

/// Limits magnitudes. NaN stays NaN, and the cache refuses it.
fn clamp(x: &mut [f32], limit: f32) {
    for x in x {
        let above = if *x > limit { limit } else { *x };
        *x = if above < -limit { -limit } else { above };
    }
}

/// Normalizes the heads of a row of queries or of keys.
fn norm_heads(
    context: &Context<'_, '_>,
    shape: &LayerShape,
    weights: TensorView<'_>,
    bias: &[u8],
    heads: &mut [f32],
) -> Option<()> {
    let with = |weight| -> Norm<'_> { context.weights.norm_with(weight, bias) };
    if context.config.attention.qk_norm == QkNorm::Row {
        context.level.norm_in_place(&with(weights.row(0)?), heads);
        return Some(());
    }
    let last = weights.rows().checked_sub(1)?;
    for (index, head) in heads.chunks_exact_mut(shape.kv.head_dim.max(1)).enumerate() {
        // There is one row of weights for all heads, or one for each.
        context.level.norm_in_place(&with(weights.row(index.min(last))?), head);
    }
    Some(())
}
