//! The first operations of a layer that predicts further ahead. The residual stream is made of tokens, and of the
//! hidden states that the model had before each of them. Gloeckle et al., "Better & Faster Large Language Models via
//! Multi-token Prediction", 2024, in the form of DeepSeek-V3.

use super::quantize::prepare;
use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Viewed, Work};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::mem::row_of;
use crate::num::settle;
use crate::quant::dequantize;
use crate::weights::Role;

/// The norm of the embedding of every row's token, and behind it the norm of the hidden state that was given with the
/// token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Join;

impl Operation for Join {
    fn name(&self) -> &'static str {
        "join"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::PredictorEmbedding, Role::Embedding, Role::PredictorTokenNorm, Role::PredictorHiddenNorm]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::by_row(rows, context.input_words)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (level, scale, weights) = (context.level, context.config.embedding.scale, &context.weights);
        let hidden = context.config.hidden;
        let embedding = weights.tensor(0, Role::PredictorEmbedding).or_else(|| weights.tensor(0, Role::Embedding));
        let embedding = embedding.ok_or(Fault::Internal(site!()))?;
        let norm = |role| weights.norm(0, role).ok_or(Fault::Internal(site!()));
        let (of_token, of_hidden) = (norm(Role::PredictorTokenNorm)?, norm(Role::PredictorHiddenNorm)?);
        let Buffers { input, given, scratch, .. } = memory.buffers;
        work.each_row(input, scratch, &|index, out, scratch| {
            let row = work.batch.rows.get(index).ok_or(Fault::Internal(site!()))?;
            let place = context.given_place(row.seq(), row.position as usize);
            let state = place.and_then(|place| row_of(given, place, hidden)).ok_or(Fault::Internal(site!()))?;
            let (joined, scratch) = scratch.split_at_mut_checked(2 * hidden).ok_or(Fault::Internal(site!()))?;
            let (token, normed) = joined.split_at_mut_checked(hidden).ok_or(Fault::Internal(site!()))?;
            let elements = embedding.row(row.token as usize).ok_or(Fault::Internal(site!()))?;
            dequantize(embedding.dtype(), elements, token).ok_or(Fault::Internal(site!()))?;
            if scale != 1.0 {
                token.iter_mut().for_each(|x| *x = settle(*x * scale));
            }
            level.norm_in_place(&of_token, token);
            level.norm(&of_hidden, state, normed);
            prepare(context, Input::Joined, &work, index, joined, out, scratch)
        })
    }
}

impl Viewed for Join {}

/// The product of the joined norms with a matrix, which is the residual stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProjectJoined;

impl Operation for ProjectJoined {
    fn name(&self) -> &'static str {
        "project"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::PredictorInput]
    }

    fn grid(&self, context: &Context<'_, '_>, layer: usize, rows: usize, _: Batch<'_>) -> Grid {
        let width = Input::Joined.width(&context.config, &context.config.layer(layer));
        Grid::linear(rows, context.config.hidden, width)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let matrix = context.weights.linear(0, Role::PredictorInput).ok_or(Fault::Internal(site!()))?;
        let Buffers { x, input, scratch, .. } = memory.buffers;
        let inputs = context.input_rows((0, Input::Joined), input, work.workers(scratch));
        work.each_tile(x, scratch, &|tile, scratch| {
            let rows = (&inputs, tile.rows().start);
            matrix.run(context.level, rows, 0, tile, Combine::Set, scratch).ok_or(Fault::Internal(site!()))
        })
    }
}

impl Viewed for ProjectJoined {}
