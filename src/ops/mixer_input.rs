//! The input matrices of a recurrent layer.

use super::{Batch, Buffers, Context, Grid, Input, Memory, Operation, Viewed, Work};
use crate::device::{MixerInputView, OpView};
use crate::error::Fault;
use crate::kernels::Combine;
use crate::nn::Linear;
use crate::weights::{Mixer, Recurrent, Role};

/// The results of the input matrices of a recurrent layer, side by side: the columns of the convolution, then the gate,
/// then the numbers per head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MixerInput;

impl Operation for MixerInput {
    fn name(&self) -> &'static str {
        "mixer input"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::ShortConvIn, Role::ScanIn, Role::DeltaQkv, Role::MixerGate, Role::Alpha, Role::Beta]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        Grid::linear(rows, context.config.recurrent.input_width(), context.config.hidden)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let parts = parts(context, work.layer);
        let Buffers { input, mix, scratch, .. } = memory.buffers;
        let inputs = context.input_rows((work.layer, Input::Attention), input, work.workers(scratch));
        work.each_tile(mix, scratch, &|tile, scratch| {
            let row = tile.rows().start;
            parts.iter().try_for_each(|(first, linear)| {
                let linear = linear.ok_or(Fault::Internal(site!()))?;
                linear
                    .run(context.level, (&inputs, row), *first, tile, Combine::Set, scratch)
                    .ok_or(Fault::Internal(site!()))
            })
        })
    }
}

impl Viewed for MixerInput {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let (parts, mut views) = (parts(context, layer), [None; 4]);
        for (view, (first, linear)) in views.iter_mut().zip(&parts) {
            *view = Some((*first, (*linear)?.into()));
        }
        Some(OpView::MixerInput(MixerInputView { parts: views, width: context.config.recurrent.input_width() }))
    }
}

/// Returns the matrices, each with its first column.
fn parts<'m>(context: &Context<'m, '_>, layer: usize) -> heapless::Vec<(usize, Option<Linear<'m>>), 4> {
    let linear = |role| context.weights.linear(layer, role);
    let recurrent @ Recurrent { channels, heads, .. } = context.config.recurrent;
    let inner = recurrent.inner();
    let parts = match recurrent.mixer {
        Mixer::None => return heapless::Vec::new(),
        Mixer::ShortConvolution => return heapless::Vec::from_iter([(0, linear(Role::ShortConvIn))]),
        Mixer::DeltaRule => [Role::DeltaQkv, Role::MixerGate, Role::Alpha, Role::Beta].map(linear),
        // The file has the gate first, then the columns of the convolution, then the steps.
        Mixer::StateSpace => {
            let part = |first, count| linear(Role::ScanIn).and_then(|linear| linear.slice(first, count));
            [part(inner, channels), part(0, inner), part(inner + channels, heads), None]
        }
    };
    let firsts = [0, channels, channels + inner, channels + inner + heads];
    let count = if recurrent.mixer == Mixer::StateSpace { 3 } else { 4 };
    firsts.into_iter().zip(parts).take(count).collect()
}
