//! The inputs that every layer gets of each token beside the residual stream: a row of an embedding for the layers, and
//! a part of a projection of the residual stream. Only the rows of the batch's tokens are read from the file.

use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Viewed, Work};
use crate::device::{LayerInputsView, OpView};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::quant::dequantize;
use crate::weights::{Config, Role, inverse_root};

/// The projection of the embedding for all layers: `[rows, layers, per_layer]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProjectPerLayer;

impl Operation for ProjectPerLayer {
    fn name(&self) -> &'static str {
        "project for all layers"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::PerLayerProjection]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::linear(rows, context.per_layer_width(), context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let linear = context.weights.linear(0, Role::PerLayerProjection).ok_or(Fault::Internal(site!()))?;
        let Buffers { per_layer, input, scratch, .. } = memory.buffers;
        let inputs = context.input_rows((work.layer, Input::PerLayer), input, work.workers(scratch));
        work.each_tile(per_layer, scratch, &|tile, scratch| {
            let from = (&inputs, tile.rows().start);
            linear.run(context.level, from, 0, tile, Combine::Set, scratch).ok_or(Fault::Internal(site!()))
        })
    }
}

impl Viewed for ProjectPerLayer {
    fn view<'m>(&self, context: &Context<'m, '_>, _: usize) -> Option<OpView<'m>> {
        Some(OpView::ProjectLayerInputs(context.weights.linear(0, Role::PerLayerProjection)?.into()))
    }
}

/// Adds the embedding to the projection. A layer's part is `(norm(p / sqrt(hidden)) + e * sqrt(per_layer)) / sqrt(2)`.
/// (Gemma Team, "Gemma 3n", 2025.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddPerLayer;

impl Operation for AddPerLayer {
    fn name(&self) -> &'static str {
        "inputs of all layers"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::PerLayerEmbedding, Role::PerLayerNorm]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.per_layer_width())
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (level, weights, config) = (context.level, &context.weights, &context.config);
        let embedding = weights.tensor(0, Role::PerLayerEmbedding).ok_or(Fault::Internal(site!()))?;
        let norm = weights.norm(0, Role::PerLayerNorm).ok_or(Fault::Internal(site!()))?;
        let [of_projection, of_embedding, of_sum] = factors(config);
        let Buffers { per_layer, scratch, .. } = memory.buffers;
        work.each_row(per_layer, scratch, &|index, out, scratch| {
            let row = work.batch.rows.get(index).ok_or(Fault::Internal(site!()))?;
            let token = embedding.row(row.token as usize).ok_or(Fault::Internal(site!()))?;
            let learned = scratch.get_mut(..out.len()).ok_or(Fault::Internal(site!()))?;
            dequantize(embedding.dtype(), token, learned).ok_or(Fault::Internal(site!()))?;
            out.iter_mut().for_each(|x| *x *= of_projection);
            for layer in out.chunks_exact_mut(config.embedding.per_layer.max(1)) {
                level.norm_in_place(&norm, layer);
            }
            level.combine(Combine::AddScaled(of_embedding), out, learned);
            out.iter_mut().for_each(|x| *x *= of_sum);
            Ok(())
        })
    }
}

impl Viewed for AddPerLayer {
    fn view<'m>(&self, context: &Context<'m, '_>, _: usize) -> Option<OpView<'m>> {
        let config = &context.config;
        let [of_matrix, of_table, of_sum] = factors(config);
        Some(OpView::AddLayerInputs(LayerInputsView {
            table: context.weights.tensor(0, Role::PerLayerEmbedding)?,
            norm: context.weights.norm(0, Role::PerLayerNorm)?,
            width: config.embedding.per_layer,
            of_matrix,
            of_table,
            of_sum,
        }))
    }
}

/// Returns the factors of the projection, of the embedding and of their sum.
fn factors(config: &Config) -> [f32; 3] {
    let of_embedding = libm::sqrt(config.embedding.per_layer as f64) as f32;
    [inverse_root(config.hidden), of_embedding, inverse_root(2)]
}

impl Context<'_, '_> {
    /// Returns the number of elements of the inputs of all layers for a token.
    fn per_layer_width(&self) -> usize {
        self.config.layers * self.config.embedding.per_layer
    }
}
