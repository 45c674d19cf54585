//! Recurrent layers: rows of several sequences, and states.

use bytemuck::Zeroable;
use gleed::kernels::{Convolution, Level};
use gleed::num::settle;

use super::random::Random;
use super::{Bench, Data, bits, largest, same, same_settled};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid;
use crate::params::{BATCH_RUN, Convolve, NONE};

/// Channels whose rows lie together in a state.
const GROUP: usize = 128;
/// Slots of states.
const SLOTS: usize = 5;

/// Rows of a batch: of each sequence those in the order of their positions, and the slots that it reads and writes.
struct Run {
    rows: &'static [usize],
    slots: [u32; 2],
}

/// A sequence that begins, and two that go on from the same state.
const RUNS: [Run; 3] = [
    Run { rows: &[2], slots: [NONE, 4] },
    Run { rows: &[4, 0, 3], slots: [1, 0] },
    Run { rows: &[5, 1], slots: [1, 2] },
];
const ROWS: usize = 6;

/// The order of the rows and the runs, behind some words of a batch: these words, and where both begin.
fn batch() -> (Vec<u32>, [u32; 2]) {
    let mut words = vec![7; 3];
    let order = words.len();
    words.extend(RUNS.iter().flat_map(|run| run.rows).map(|&row| row as u32));
    let (runs, mut first) = (words.len(), 0);
    for run in &RUNS {
        let count = run.rows.len() as u32;
        words.extend([first, count, run.slots[0], run.slots[1]]);
        first += count;
    }
    debug_assert_eq!(words.len(), runs + BATCH_RUN * RUNS.len());
    (words, [order as u32, runs as u32])
}

pub(super) async fn convolve(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    // Channels, rows that it sees, whether it is between gates, whether it has biases.
    let cases = [
        (200, 3, true, true),
        (96, 4, false, true),
        (128, 4, false, false),
        (300, 1, true, false),
        (64, 9, false, false),
    ];
    for &(channels, kernel, gated, has_bias) in bench.some(&cases) {
        Case { channels, kernel, gated, has_bias, layer: 1, layers: 3 }.check(bench, random).await?;
    }
    Ok(())
}

/// A convolution in one of several layers.
struct Case {
    channels: usize,
    kernel: usize,
    gated: bool,
    has_bias: bool,
    layer: usize,
    layers: usize,
}

impl Case {
    async fn check(&self, bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
        let &Self { channels, kernel, gated, has_bias, layer, layers } = self;
        let (mix_stride, tail) = (3 * channels + 2, channels * (kernel - 1));
        let (slot, words) = (layers * tail, channels.div_ceil(32));
        let (weights, bias) = (random.row(channels * kernel), random.row(if has_bias { channels } else { 0 }));
        let (mut mix, mut tails) = (random.row(ROWS * mix_stride), random.moderate(SLOTS * slot + 1));
        let (batch, [order, runs]) = batch();
        let params = Convolve {
            channels: channels as u32,
            kernel: kernel as u32,
            gated: gated.into(),
            weights: bias.len() as u32,
            bias: if has_bias { 0 } else { NONE },
            mix_stride: mix_stride as u32,
            out_stride: channels as u32,
            largest: words as u32,
            order,
            runs,
            slot: slot as u32,
            tail: (layer * tail) as u32,
            ..Convolve::zeroed()
        };
        let buffers = [
            Data::read(batch),
            Data::back(bits(&mix)),
            Data::back(bits(&tails)),
            Data::floats(&[&bias[..], &weights].concat()),
            Data::back(vec![0; ROWS * channels]),
            Data::back(vec![0; ROWS * words]),
            Data::back([0; 2]),
        ];
        let grid = grid::by_run(RUNS.len(), channels.div_ceil(grid::CHANNELS));
        let got = bench.run(Kernel::Convolve, &params, &buffers, grid).await?;
        let mut out = vec![0.0; ROWS * channels];
        for run in &RUNS {
            self.run(run, (&weights, &bias), &mut mix, &mut tails, &mut out)
                .ok_or(GpuError::Mismatch("a convolution"))?;
        }
        same_settled("a convolution", &got[0], &bits(&mix))?;
        same("the state of a convolution", &got[1], &bits(&tails))?;
        same_settled("a convolution", &got[2], &bits(&out))?;
        let maxima: Vec<u32> = got[2].chunks(channels).flat_map(largest).collect();
        same("the largest activations", &got[3], &if gated { maxima } else { vec![0; ROWS * words] })
    }

    /// What the CPU makes of the rows of a sequence.
    fn run(
        &self,
        run: &Run,
        (weights, bias): (&[f32], &[f32]),
        mix: &mut [f32],
        tails: &mut [f32],
        out: &mut [f32],
    ) -> Option<()> {
        let &Self { channels, kernel, gated, layer, layers, .. } = self;
        let (earlier, stride) = (kernel - 1, 3 * channels + 2);
        let tail = channels * earlier;
        for first in (0..channels).step_by(GROUP) {
            let width = GROUP.min(channels - first);
            let of = |slot: u32| (slot as usize * layers + layer) * tail + first * earlier;
            let from = (run.slots[0] != NONE).then(|| tails[of(run.slots[0])..][..width * earlier].to_vec());
            let mut state = from.unwrap_or_else(|| vec![0.0; width * earlier]);
            let weight = |i: usize| settle(weights[(first + i % width) * kernel + i / width]);
            let weights: Vec<f32> = (0..width * kernel).map(weight).collect();
            let bias: Vec<f32> = bias.iter().skip(first).take(width).map(|&x| settle(x)).collect();
            let how = Convolution { weights: &weights, bias: &bias, activates: !gated };
            for &row in run.rows {
                let part = |part: usize| {
                    row * stride + part * channels + first..row * stride + part * channels + first + width
                };
                let mut x = mix[part(0)].to_vec();
                if gated {
                    x.iter_mut().zip(&mix[part(2)]).for_each(|(b, x)| *b *= x);
                }
                Level::SCALAR.convolve(&how, &mut state, &mut x)?;
                if gated {
                    x.iter_mut().zip(&mix[part(1)]).for_each(|(x, c)| *x *= c);
                    out[row * channels + first..][..width].copy_from_slice(&x);
                } else {
                    mix[part(0)].copy_from_slice(&x);
                }
            }
            let to: &mut [f32] = &mut tails[of(run.slots[1])..][..width * earlier];
            to.copy_from_slice(&state);
        }
        Some(())
    }
}
