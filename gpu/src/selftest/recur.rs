//! Recurrent layers: rows of several sequences, and states.

use bytemuck::Zeroable;
use gleed::kernels::{Combine, Convolution, Level, Norm, NormKind, Update as Step};
use gleed::num::{exp, settle, sigmoid, softplus};

use super::random::Random;
use super::{Bench, Data, bits, largest, same, same_settled};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid;
use crate::params::{BATCH_RUN, Convolve, GroupNorm, NONE, Update};

/// Channels whose rows lie together in a state.
const GROUP: usize = 128;
/// Slots of states.
const SLOTS: usize = 5;

/// The rows of a sequence in a batch, in the order of their positions, and the slots of the states that are read and
/// written.
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

/// Returns the words of a batch with the order of its rows and its runs behind some others, and the words at which both
/// begin.
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

/// Returns outputs of matrices: of any magnitude, but 0 or at least 2^-123.
fn dots(random: &mut Random, len: usize) -> Vec<f32> {
    let least = f32::from_bits(4 << 23);
    random.row(len).into_iter().map(|x| if x.abs() < least { 0.0 } else { x }).collect()
}

pub(super) async fn convolve(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    // Channels, rows that the convolution sees, whether it is between gates, whether it has biases.
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
        let (mut mix, mut tails) = (dots(random, ROWS * mix_stride), random.moderate(SLOTS * slot + 1));
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

    /// Computes the rows of a sequence on the CPU.
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

/// The update of the matrices of heads.
struct Rule {
    heads: usize,
    groups: usize,
    key_dim: usize,
    value_dim: usize,
    delta: bool,
    /// Whether the results are normed later.
    later: bool,
}

pub(super) async fn update(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let rules = [
        Rule { heads: 4, groups: 2, key_dim: 64, value_dim: 96, delta: true, later: false },
        Rule { heads: 4, groups: 2, key_dim: 16, value_dim: 32, delta: false, later: false },
        Rule { heads: 3, groups: 1, key_dim: 256, value_dim: 64, delta: false, later: true },
        Rule { heads: 2, groups: 2, key_dim: 24, value_dim: 256, delta: true, later: false },
    ];
    for rule in bench.some(&rules) {
        rule.check(bench, random).await?;
    }
    Ok(())
}

impl Rule {
    async fn check(&self, bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
        let &Self { heads, groups, key_dim, value_dim, delta, later } = self;
        let (width, keys) = (heads * value_dim, groups * key_dim);
        let [query, key, value, gate] = [1, 1 + keys, 1 + 2 * keys, 1 + 2 * keys + width];
        let step = gate + width;
        let stride = step + 2 * heads;
        let (mix, size) = (dots(random, ROWS * stride), heads * key_dim * value_dim);
        let mut matrices = random.moderate(SLOTS * size);
        let count = if delta { value_dim } else { heads };
        let [vector, bias] = [count, heads].map(|count| random.moderate(count));
        let decay: Vec<f32> = random.moderate(heads).iter().map(|x| -x.abs()).collect();
        let (batch, [order, runs]) = batch();
        let words = width.div_ceil(32);
        let params = Update {
            zero: 0,
            heads: heads as u32,
            groups: groups as u32,
            shared: if delta { 0 } else { (heads / groups) as u32 },
            key_dim: key_dim as u32,
            value_dim: value_dim as u32,
            mix_stride: stride as u32,
            query: query as u32,
            key: key as u32,
            value: value as u32,
            gate: gate as u32,
            step: step as u32,
            delta: delta.into(),
            epsilon: EPSILON,
            query_scale: QUERY_SCALE,
            decay: count as u32,
            bias: (count + heads) as u32,
            vector: 0,
            out_stride: width as u32,
            largest: if later { NONE } else { words as u32 },
            order,
            runs,
            flag: 0,
            unused: 0,
        };
        let buffers = [
            Data::read(batch),
            Data::floats(&mix),
            Data::back(bits(&matrices)),
            Data::floats(&[&vector[..], &decay, &bias].concat()),
            Data::back(vec![0; ROWS * width]),
            Data::back(vec![0; ROWS * words]),
            Data::back([0]),
        ];
        let got = bench.run(Kernel::Update, &params, &buffers, grid::by_run(RUNS.len(), heads)).await?;
        let mut out = vec![0.0; ROWS * width];
        for run in &RUNS {
            for head in 0..heads {
                let state = run.slots.map(|slot| slot.wrapping_mul(heads as u32).wrapping_add(head as u32));
                let mut own = match run.slots[0] {
                    NONE => vec![0.0; key_dim * value_dim],
                    _ => matrices[state[0] as usize * key_dim * value_dim..][..key_dim * value_dim].to_vec(),
                };
                for &row in run.rows {
                    let input = &mix[row * stride..][..stride];
                    let result = &mut out[row * width + head * value_dim..][..value_dim];
                    let numbers = [&vector[..], &decay, &bias];
                    self.step(input, [query, key, value, gate, step], head, numbers, &mut own, result)
                        .ok_or(GpuError::Mismatch("an update"))?;
                }
                matrices[state[1] as usize * key_dim * value_dim..][..key_dim * value_dim].copy_from_slice(&own);
            }
        }
        same("the state of matrices", &got[0], &bits(&matrices))?;
        same_settled("an update of matrices", &got[1], &bits(&out))?;
        let maxima: Vec<u32> = got[1].chunks(width).flat_map(largest).collect();
        same("the largest activations", &got[2], &if later { vec![0; ROWS * words] } else { maxima })
    }

    /// Computes a row of the mixer's input for a head on the CPU.
    fn step(
        &self,
        input: &[f32],
        [query, key, value, gate, step]: [usize; 5],
        head: usize,
        [vector, decay, bias]: [&[f32]; 3],
        state: &mut [f32],
        out: &mut [f32],
    ) -> Option<()> {
        let &Self { heads, groups, key_dim, value_dim, delta, .. } = self;
        let group = if delta { head % groups } else { head / (heads / groups) };
        let part = |first: usize, index: usize, len: usize| &input[first + index * len..][..len];
        let own = |x: &[f32], scale: f32| {
            let mut out = vec![0.0; x.len()];
            if delta {
                Level::SCALAR.normalize(x, scale, &mut out)
            } else {
                Level::SCALAR.settle(x, &mut out)
            }
            out
        };
        let (key, query) = (own(part(key, group, key_dim), 1.0), own(part(query, group, key_dim), QUERY_SCALE));
        let (x, mut value_of) = (part(value, head, value_dim), vec![0.0; value_dim]);
        Level::SCALAR.settle(x, &mut value_of);
        let grows = softplus(input[step + head] + settle(bias[head]));
        let strength = if delta { settle(sigmoid(input[step + heads + head])) } else { grows };
        let decay = settle(exp(settle(decay[head]) * grows));
        let (key, query, value) = (&key, &query, &value_of);
        Level::SCALAR.update_state(&Step { decay, key, query, value, strength, corrects: delta }, state, out)?;
        if delta {
            let weight: Vec<u8> = vector.iter().flat_map(|x| x.to_le_bytes()).collect();
            let norm = Norm { kind: NormKind::Rms, epsilon: EPSILON, weight: &weight, bias: &[] };
            Level::SCALAR.norm_in_place(&norm, out);
        } else {
            Level::SCALAR.combine(Combine::AddScaled(settle(vector[head])), out, x);
        }
        Level::SCALAR.gate(part(gate, head, value_dim), out);
        Some(())
    }
}

const EPSILON: f32 = 1e-5;
const QUERY_SCALE: f32 = 0.125;

pub(super) async fn group_norm(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for &(rows, groups, width) in bench.some(&[(2, 3, 96), (1, 1, 700)]) {
        let (mut x, weights) = (random.row(rows * groups * width), random.moderate(groups * width));
        let words = (groups * width).div_ceil(32);
        let params = GroupNorm {
            zero: 0,
            width: width as u32,
            stride: (groups * width) as u32,
            weight: 0,
            epsilon: EPSILON,
            largest: words as u32,
            unused: [0; 2],
        };
        let buffers = [Data::back(bits(&x)), Data::floats(&weights), Data::back(vec![0; rows * words])];
        let got = bench.run(Kernel::GroupNorm, &params, &buffers, grid::by_head(rows, groups)).await?;
        for (index, group) in x.chunks_mut(width).enumerate() {
            let weights = &weights[index % groups * width..][..width];
            let weight: Vec<u8> = weights.iter().flat_map(|x| x.to_le_bytes()).collect();
            let norm = Norm { kind: NormKind::Rms, epsilon: EPSILON, weight: &weight, bias: &[] };
            Level::SCALAR.norm_in_place(&norm, group);
        }
        same_settled("the norm of groups", &got[0], &bits(&x))?;
        let maxima: Vec<u32> = got[0].chunks(groups * width).flat_map(largest).collect();
        same("the largest activations", &got[1], &maxima)?;
    }
    Ok(())
}
