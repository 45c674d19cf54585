//! Causal convolutions: of the input of a delta rule or a state space, and between the two gates of LFM2.

use core::ops::Range;

use super::recur::{CHANNELS, Part};
use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::device::{ConvolutionView, OpView};
use crate::error::Fault;
use crate::kernels::Convolution;
use crate::mem::row_of;
use crate::num::{all_finite, settled_of};
use crate::weights::Role;

/// Number of rows from the row that is convolved to the row that is fetched. Rows lie so far apart that the processor
/// does not fetch them ahead by itself.
const AHEAD: usize = 4;

/// The convolution of the mixer's input and SiLU, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Convolve;

impl Operation for Convolve {
    fn name(&self) -> &'static str {
        "convolve"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::Conv]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let recurrent = &context.config.recurrent;
        Part::Tails.grid(recurrent, rows, recurrent.channels)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (recurrent, level) = (&context.config.recurrent, context.level);
        let Buffers { mix, scratch, .. } = memory.buffers;
        let out = (&mut **mix, recurrent.input_width());
        work.each_unit(recurrent, Part::Tails, out, scratch, memory.cache, &|tile, state, due, scratch| {
            let how = kernel(context, Role::Conv, work.layer, tile.cols(), true, scratch);
            let how = how.ok_or(Fault::Internal(site!()))?;
            for piece in work.batch.pieces(due) {
                let seq = piece.seq(work.batch).ok_or(Fault::Internal(site!()))?;
                let tail = state.of(seq, piece.begins()).ok_or(Fault::Internal(site!()))?;
                for row in piece.rows() {
                    level.fetch(tile.row_mut(row + AHEAD).unwrap_or_default());
                    let x = tile.row_mut(row).ok_or(Fault::Internal(site!()))?;
                    level.convolve(&how, tail, x).ok_or(Fault::Internal(site!()))?;
                    check_finite(x)?;
                }
            }
            Ok(())
        })
    }
}

impl Viewed for Convolve {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        Some(OpView::Convolution(convolution_view(context, Role::Conv, layer)?))
    }
}

/// The convolution of LFM2: `y = c * convolution(b * x)`, where b, c and x are the mixer's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortConvolution;

impl Operation for ShortConvolution {
    fn name(&self) -> &'static str {
        "gated convolution"
    }

    fn tensors(&self) -> &[Role] {
        &[Role::ShortConv]
    }

    fn grid(&self, context: &Context<'_, '_>, _: usize, rows: usize, _: Batch<'_>) -> Grid {
        let recurrent = &context.config.recurrent;
        Part::Tails.grid(recurrent, rows, recurrent.channels)
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let (recurrent, level) = (&context.config.recurrent, context.level);
        let Buffers { mix, mixed, scratch, .. } = memory.buffers;
        let out = (&mut **mixed, recurrent.channels);
        work.each_unit(recurrent, Part::Tails, out, scratch, memory.cache, &|tile, state, due, scratch| {
            let cols = tile.cols();
            let how = kernel(context, Role::ShortConv, work.layer, cols.clone(), false, scratch);
            let how = how.ok_or(Fault::Internal(site!()))?;
            let input = |row: usize, part: usize| {
                let start = part * recurrent.channels + cols.start;
                row_of(mix, row, recurrent.input_width())?.get(start..start + cols.len())
            };
            for piece in work.batch.pieces(due) {
                let seq = piece.seq(work.batch).ok_or(Fault::Internal(site!()))?;
                let tail = state.of(seq, piece.begins()).ok_or(Fault::Internal(site!()))?;
                for row in piece.rows() {
                    for part in 0..3 {
                        level.fetch(input(row + AHEAD, part).unwrap_or_default());
                    }
                    let out = tile.row_mut(row).ok_or(Fault::Internal(site!()))?;
                    let [Some(b), Some(c), Some(x)] = [0, 1, 2].map(|part| input(row, part)) else {
                        return Err(Fault::Internal(site!()));
                    };
                    out.iter_mut().zip(b).zip(x).for_each(|((out, &b), &x)| *out = b * x);
                    level.convolve(&how, tail, out).ok_or(Fault::Internal(site!()))?;
                    out.iter_mut().zip(c).for_each(|(out, &c)| *out *= c);
                    check_finite(out)?;
                }
            }
            Ok(())
        })
    }
}

impl Viewed for ShortConvolution {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        Some(OpView::GatedConvolution(convolution_view(context, Role::ShortConv, layer)?))
    }
}

/// Returns the view of the convolution of a layer, for a device.
fn convolution_view<'m>(context: &Context<'m, '_>, role: Role, layer: usize) -> Option<ConvolutionView<'m>> {
    let (weights, bias) = (context.weights.tensor(layer, role)?, context.weights.bias(layer, role));
    Some(ConvolutionView { weights, bias, layer: context.config.recurrent.layers.before(layer) })
}

/// Returns the convolution of some channels, at most [`CHANNELS`], with its weights in scratch.
fn kernel<'s>(
    context: &Context<'_, '_>,
    role: Role,
    layer: usize,
    channels: Range<usize>,
    activates: bool,
    scratch: &'s mut [f32],
) -> Option<Convolution<'s>> {
    let (weights, count) = (context.weights.tensor(layer, role)?, channels.len());
    debug_assert!(count <= CHANNELS);
    let (transposed, scratch) = scratch.split_at_mut_checked(weights.cols().checked_mul(count)?)?;
    for (index, channel) in channels.clone().enumerate() {
        let (row, _) = weights.row(channel)?.as_chunks::<4>();
        for (transposed, &weight) in transposed.get_mut(index..)?.iter_mut().step_by(count.max(1)).zip(row) {
            *transposed = settled_of(weight);
        }
    }
    let (biases, _) = context.weights.bias(layer, role).as_chunks::<4>();
    let biases = if biases.is_empty() { biases } else { biases.get(channels)? };
    let bias = scratch.get_mut(..biases.len())?;
    bias.iter_mut().zip(biases).for_each(|(to, &bias)| *to = settled_of(bias));
    Some(Convolution { weights: transposed, bias, activates })
}

/// Checks that numbers which enter a state or come out of it are finite.
pub(super) fn check_finite(x: &[f32]) -> Result<(), Fault> {
    if all_finite(x) { Ok(()) } else { Err(Fault::NonFinite) }
}
