//! Embedding of the tokens, to the residual stream.

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::device::{EmbedView, OpView};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::num::settle;
use crate::quant::dequantize;
use crate::weights::Role;

/// The embedding of every row's token, scaled. If the model has them, the learned type and position are added, and the
/// sum is normalized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Embed;

impl Operation for Embed {
    fn name(&self) -> &'static str {
        "embed"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::Embedding, Role::TokenTypes, Role::Positions, Role::EmbeddingNorm]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (level, scale, weights) = (context.level, context.config.embedding.scale, &context.weights);
        let embedding = weights.tensor(0, Role::Embedding).ok_or(Fault::Internal(site!()))?;
        let (types, positions) = (weights.tensor(0, Role::TokenTypes), weights.tensor(0, Role::Positions));
        let norm = weights.norm(0, Role::EmbeddingNorm).filter(|_| context.config.embedding.norm);
        let Buffers { x, scratch, .. } = memory.buffers;
        work.each_row(x, scratch, &|index, out, scratch| {
            let row = work.batch.rows.get(index).ok_or(Fault::Internal(site!()))?;
            let token = embedding.row(row.token as usize).ok_or(Fault::Internal(site!()))?;
            dequantize(embedding.dtype(), token, out).ok_or(Fault::Internal(site!()))?;
            if scale != 1.0 {
                out.iter_mut().for_each(|x| *x = settle(*x * scale));
            }
            // All tokens are of the first type.
            for (table, row) in [(types, 0), (positions, row.position as usize)] {
                let Some(table) = table else { continue };
                let (row, learned) = (table.row(row), scratch.get_mut(..out.len()));
                let (row, learned) = row.zip(learned).ok_or(Fault::Internal(site!()))?;
                dequantize(table.dtype(), row, learned).ok_or(Fault::Internal(site!()))?;
                level.combine(Combine::Add, out, learned);
            }
            if let Some(norm) = norm {
                level.norm_in_place(&norm, out);
            }
            Ok(())
        })
    }
}

impl Viewed for Embed {
    fn view<'m>(&self, context: &Context<'m, '_>, _: usize) -> Option<OpView<'m>> {
        let (weights, embedding) = (&context.weights, context.config.embedding);
        Some(OpView::Embed(EmbedView {
            table: weights.tensor(0, Role::Embedding)?,
            scale: embedding.scale,
            types: weights.tensor(0, Role::TokenTypes),
            positions: weights.tensor(0, Role::Positions),
            norm: weights.norm(0, Role::EmbeddingNorm).filter(|_| embedding.norm),
        }))
    }
}
