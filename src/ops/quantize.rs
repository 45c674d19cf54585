//! Activations, quantized for the matrices that read them.

use super::partials::finish_heads;
use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Row, Viewed, Work};
use crate::device::{ActivationSource, GatesView, HeadNormView, OpView, QuantizeView};
use crate::error::Fault;
use crate::mem::row_of;
use crate::num::sigmoid;
use crate::weights::{HeadGates, LayerShape, Mixer, Role};

/// Activations in the forms that the matrices of an input need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantize {
    pub(crate) from: Source,
    pub(crate) to: Input,
}

/// The activations that are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The residual stream.
    Residual,
    /// Attention's result, with its sums divided.
    Attention,
    /// Results of the gate and up matrices, with as many rows as the input has.
    FeedForward,
    /// Gate of a layer's input of each token, multiplied by that input.
    #[cfg(feature = "layer-inputs")]
    LayerInput,
    /// Result of a recurrent layer, with each group normalized if the model does so.
    Mixer,
}

impl Operation for Quantize {
    fn name(&self) -> &'static str {
        "quantize"
    }

    fn tensors(&self) -> &[Role] {
        match self.from {
            Source::Attention => &[Role::SinkScores],
            Source::Mixer => &[Role::MixerNorm],
            _ => &[],
        }
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let per_row = if self.to == Input::ExpertDown { context.config.feed_forward.experts_used } else { 1 };
        Grid::by_row(rows * per_row, context.input_words)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let shape = context.config.layer(work.layer);
        let width = self.to.width(&context.config, &shape);
        let sinks = context.weights.tensor(work.layer, Role::SinkScores).map_or(&[][..], |sinks| sinks.bytes());
        let form = &context.config.feed_forward;
        let gated = self.to == Input::SharedDown && form.shared_gate;
        #[cfg(feature = "layer-inputs")]
        let per_layer = &*memory.buffers.per_layer;
        let Buffers { x, input, qkv, partials, ffn, router, mixed, scratch, .. } = memory.buffers;
        work.each_row(input, scratch, &|index, out, scratch| {
            let (finished, scratch) = scratch.split_at_mut_checked(width).ok_or(Fault::Internal(site!()))?;
            let source = match self.from {
                Source::Residual => row_of(x, index, width).ok_or(Fault::Internal(site!()))?,
                Source::FeedForward if gated => {
                    let row = row_of(ffn, index, width).ok_or(Fault::Internal(site!()))?;
                    let logits = row_of(router, index, form.router_width()).ok_or(Fault::Internal(site!()))?;
                    let gate = sigmoid(*logits.get(form.experts).ok_or(Fault::Internal(site!()))?);
                    finished.iter_mut().zip(row).for_each(|(finished, x)| *finished = x * gate);
                    finished
                }
                #[cfg(feature = "layer-inputs")]
                Source::LayerInput => {
                    let gate = row_of(ffn, index, width).ok_or(Fault::Internal(site!()))?;
                    let inputs = row_of(per_layer, index * context.config.layers + work.layer, width);
                    let inputs = inputs.ok_or(Fault::Internal(site!()))?;
                    finished.iter_mut().zip(gate.iter().zip(inputs)).for_each(|(x, (&gate, &own))| *x = gate * own);
                    finished
                }
                Source::FeedForward => row_of(ffn, index, width).ok_or(Fault::Internal(site!()))?,
                Source::Attention => {
                    finish_heads(&shape, partials, index, sinks, finished).ok_or(Fault::Internal(site!()))?;
                    gate_heads(&shape, qkv, index, finished).ok_or(Fault::Internal(site!()))?;
                    finished
                }
                Source::Mixer => {
                    let mixed = row_of(mixed, index, width).ok_or(Fault::Internal(site!()))?;
                    norm_groups(context, work.layer, mixed, finished).ok_or(Fault::Internal(site!()))?
                }
            };
            prepare(context, self.to, &work, index, source, out, scratch)
        })
    }
}

impl Viewed for Quantize {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let shape = context.config.layer(layer);
        let sinks = context.weights.tensor(layer, Role::SinkScores).map_or(&[][..], |sinks| sinks.bytes());
        let gates = GatesView { first: shape.qkv_width(), per_head: shape.gates == HeadGates::Heads };
        let gates = (shape.gates != HeadGates::None).then_some(gates);
        let from = match (self.from, self.to) {
            (Source::Residual, _) => ActivationSource::Residual,
            (Source::Attention, _) => ActivationSource::Attention { sinks, gates },
            (Source::FeedForward, Input::SharedDown) if context.config.feed_forward.shared_gate => {
                ActivationSource::SharedExpert
            }
            (Source::FeedForward, Input::ExpertDown) => ActivationSource::Experts,
            (Source::FeedForward, Input::Down | Input::SharedDown) => ActivationSource::FeedForward,
            (Source::Mixer, _) => ActivationSource::Mixer { norm: group_norm(context, layer) },
            #[cfg(feature = "layer-inputs")]
            (Source::LayerInput, _) => ActivationSource::LayerInput { layer },
            _ => return Some(OpView::Other(self.name())),
        };
        Some(OpView::Quantize(QuantizeView { from, input: context.input_view(layer, self.to) }))
    }
}

/// Multiplies attention's result for row `index` by its gates, if the model has gates.
fn gate_heads(layer: &LayerShape, qkv: &[f32], index: usize, heads: &mut [f32]) -> Option<()> {
    if layer.gates == HeadGates::None {
        return Some(());
    }
    let gates = row_of(qkv, index, layer.heads_width())?.get(layer.qkv_width()..)?;
    if layer.gates != HeadGates::Heads || !cfg!(feature = "arch-spark2_5") {
        heads.iter_mut().zip(gates).for_each(|(x, &gate)| *x *= sigmoid(gate));
        return Some(());
    }
    let mut rest = heads;
    for &gate in gates {
        let (head, after) = core::mem::take(&mut rest).split_at_mut_checked(layer.kv.head_dim)?;
        let gate = sigmoid(gate);
        head.iter_mut().for_each(|x| *x *= gate);
        rest = after;
    }
    Some(())
}

/// Normalizes the groups of a row of a state space, if the model does so.
fn norm_groups<'r>(context: &Context<'_, '_>, layer: usize, row: &'r [f32], out: &'r mut [f32]) -> Option<&'r [f32]> {
    let Some(norms) = group_norm(context, layer) else { return Some(row) };
    let width = norms.weights.cols();
    for group in 0..norms.weights.rows() {
        let part = group * width..(group + 1) * width;
        context.level.norm(&norms.of_head(group)?, row.get(part.clone())?, out.get_mut(part)?);
    }
    Some(out)
}

/// Returns the norm of the groups of a recurrent layer's result, if there is one. (The norm of a delta rule's heads
/// comes before their gates.)
fn group_norm<'m>(context: &Context<'m, '_>, layer: usize) -> Option<HeadNormView<'m>> {
    let weights = context.weights.tensor(layer, Role::MixerNorm);
    let weights = weights.filter(|_| context.config.recurrent.mixer == Mixer::StateSpace)?;
    Some(HeadNormView { norm: context.weights.norm_with(weights.row(0)?, &[]), weights, whole_row: false })
}

/// Stores row `index` of an input, `x`, in the forms that its matrices need, and behind them the products with the
/// first matrices of adapters.
#[inline(never)] // Several operations share it.
pub(super) fn prepare(
    context: &Context<'_, '_>,
    to: Input,
    work: &Work<'_>,
    index: usize,
    x: &[f32],
    out: &mut [u32],
    scratch: &mut [f32],
) -> Result<(), Fault> {
    context.forms.get(to).prepare(context.level, x, out)?;
    if context.adapters.is_empty() {
        return Ok(());
    }
    let seq = work.batch.rows.get(index).map(Row::seq);
    context.adapters.project(context.level, (work.layer, to), seq, x, out, scratch).ok_or(Fault::Internal(site!()))
}
