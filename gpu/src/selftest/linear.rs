//! Matrices, with all that is done with their outputs.

use bytemuck::Zeroable;
use gleed::kernels::{Activation, Combine, Level};
use gleed::num::{Xielu, settle, sigmoid, xielu};
use gleed::quant::{ActivationRow, dot, quantize_row};

use super::random::Random;
use super::{Bench, Data, bits, largest, same, same_settled};
use crate::catalog::{Kernel, Weights};
use crate::error::GpuError;
use crate::grid;
use crate::layout::{ALIGNED, activation_words, arranged, row_bytes, row_words};
use crate::params::{Linear, NONE, Segment, mode};

/// Activation functions in the order of their numbers in `num.wgsl`.
pub(crate) const ACTIVATIONS: [Activation; 5] =
    [Activation::Silu, Activation::GeluTanh, Activation::GeluErf, Activation::SquaredRelu, Activation::LimitedSilu];

/// Number of xIELU in `num.wgsl`. Each layer has numbers of its own for it.
pub(crate) const XIELU: u32 = 5;

/// Returns rows of weights as they lie on a device, behind `at` other bytes.
pub(super) fn words_of(at: usize, weights: Weights, cols: usize, matrix: &[u8]) -> Vec<u32> {
    bytemuck::pod_collect_to_vec(&[&vec![0xa5; at][..], &arranged(weights, cols, matrix)].concat())
}

/// Three matrices that follow each other, and rows of activations for them.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) weights: Weights,
    pub(super) cols: usize,
    outputs: [usize; 3],
    at: usize,
    matrix: Vec<u8>,
    pub(super) vector: Vec<f32>,
    rows: usize,
    /// Activations as floats.
    pub(super) floats: Vec<f32>,
    /// Activations as the matrices read them.
    inputs: Vec<u32>,
    /// All outputs of each row.
    pub(super) dots: Vec<Vec<f32>>,
}

impl Case {
    pub(super) fn new(random: &mut Random, weights: Weights, cols: usize, outputs: [usize; 3], rows: usize) -> Self {
        let all = outputs.iter().sum();
        let matrix = random.weights(weights, all, cols);
        let (form, bytes) = (weights.form(), weights.dtype().row_bytes(cols).unwrap_or(1));
        let (mut floats, mut inputs, mut dots) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rows {
            let row = random.row(cols);
            floats.extend(&row);
            let mut words = vec![0; gleed::quant::row_words(form, cols).unwrap_or(0)];
            let _ = quantize_row(form, &row, &mut words);
            let outputs = matrix
                .chunks(bytes)
                .filter_map(|weight| dot(weights.dtype(), weight, ActivationRow::from_words(form, cols, &words)?));
            dots.push(outputs.collect());
            words.truncate(activation_words(form, cols));
            words.resize(row_words(form, cols), 0);
            inputs.extend(words);
        }
        let at = ALIGNED * random.below(5);
        Self { weights, cols, outputs, at, matrix, vector: random.moderate(all), rows, floats, inputs, dots }
    }

    pub(super) fn params(&self, mode: u32) -> Linear {
        let mut segments = [Segment::zeroed(); 4];
        let (mut before, bytes) = (0, row_bytes(self.weights.dtype(), self.cols).unwrap_or(0));
        for (segment, outputs) in segments.iter_mut().zip(self.outputs) {
            *segment = Segment {
                at: (self.at + before * bytes) as u32,
                outputs: outputs as u32,
                y_at: before as u32,
                bias: before as u32,
            };
            before += outputs;
        }
        Linear {
            cols: self.cols as u32,
            x_stride: row_words(self.weights.form(), self.cols) as u32,
            y_stride: before as u32,
            mode,
            row_bytes: bytes as u32,
            segments,
            ..Linear::zeroed()
        }
    }

    async fn run(
        &self,
        bench: &Bench<'_>,
        kernel: Kernel,
        params: &Linear,
        y: &[f32],
    ) -> Result<[Vec<u32>; 3], GpuError> {
        let magnitudes = match params.raw {
            0 => vec![0; self.rows * params.largest as usize],
            _ => largest(&bits(&self.floats)),
        };
        let grid = grid::linear(kernel, params, self.rows);
        self.run_with(bench, (kernel, grid), params, y, (vec![self.rows as u32; 16], magnitudes)).await
    }

    /// Runs a kernel with the words of a batch, or with choices of experts, and with the largest magnitudes.
    pub(super) async fn run_with(
        &self,
        bench: &Bench<'_>,
        (kernel, grid): (Kernel, [u32; 3]),
        params: &Linear,
        y: &[f32],
        (rows, magnitudes): (Vec<u32>, Vec<u32>),
    ) -> Result<[Vec<u32>; 3], GpuError> {
        // Activations lie behind other words where the kernel does not quantize them.
        let others = vec![0x0102_0304; params.x_at as usize];
        let inputs = if params.raw == 0 { [others, self.inputs.clone()].concat() } else { bits(&self.floats) };
        let buffers = [
            Data::read(words_of(self.at, self.weights, self.cols, &self.matrix)),
            Data::read(inputs),
            Data::back(bits(y)),
            Data::floats(&self.vector),
            Data::back([0; 4]),
            Data::read(rows),
            Data::back(magnitudes),
        ];
        let got = bench.run(kernel, params, &buffers, grid).await?;
        <[Vec<u32>; 3]>::try_from(got).map_err(|_| GpuError::Mismatch("the results of a kernel"))
    }
}

pub(super) async fn products(
    bench: &Bench<'_>,
    kernel: Kernel,
    weights: Weights,
    random: &mut Random,
    rows: &[usize],
) -> Result<(), GpuError> {
    // More than 64 blocks of 32 are added in parts. More than 8 rows or 64 outputs have several workgroups.
    for (&rows, cols) in bench.some(rows).iter().zip([768, 2304, 256].into_iter().cycle()) {
        let case = Case::new(random, weights, cols, [61, 5, 3], rows);
        plain(bench, kernel, &case).await?;
        if is_for_floats(kernel) {
            raw(bench, kernel, &case).await?;
        }
        parted(bench, kernel, &case).await?;
        added(bench, kernel, &case, random).await?;
        logits(bench, kernel, &case).await?;
        for (number, &activation) in bench.some(&ACTIVATIONS).iter().enumerate() {
            let case = Case::new(random, weights, 512, [35, 35, 0], rows);
            gated(bench, kernel, &case, number as u32, activation).await?;
            activated(bench, kernel, &case, number as u32, activation).await?;
            if number == 0 {
                gated_twice(bench, kernel, &case, random).await?;
                multiplied(bench, kernel, &case, random).await?;
                with_numbers(bench, kernel, &case).await?;
            }
        }
    }
    Ok(())
}

/// Tests activations as floats. With 8 rows the table holds 64 blocks of 32 of each row at once, and some rows have
/// more.
pub(super) async fn raw_products(bench: &Bench<'_>, weights: Weights, random: &mut Random) -> Result<(), GpuError> {
    for &(rows, cols) in bench.some(&[(2, 768), (1, 2304), (11, 2304)]) {
        let case = Case::new(random, weights, cols, [61, 5, 3], rows);
        raw(bench, Kernel::Raw(weights), &case).await?;
    }
    Ok(())
}

/// Returns whether a kernel also reads activations as floats. Others read them quantized only.
pub(super) fn is_for_floats(kernel: Kernel) -> bool {
    match kernel {
        Kernel::Vector(weights) => weights.is_float(),
        kernel => !matches!(kernel, Kernel::Tile(_)),
    }
}

async fn plain(bench: &Bench<'_>, kernel: Kernel, case: &Case) -> Result<(), GpuError> {
    let mut params = Linear { x_at: 12, ..case.params(mode::SET) };
    params.segments.iter_mut().for_each(|segment| segment.bias = NONE);
    let dots = case.dots.concat();
    let [y, ..] = case.run(bench, kernel, &params, &vec![0.5; dots.len()]).await?;
    same(name(case.weights), &y, &bits(&dots))
}

/// Tests queries and gates of 5 heads, which the first of four matrices has in turns. The kernel separates them.
async fn parted(bench: &Bench<'_>, kernel: Kernel, case: &Case) -> Result<(), GpuError> {
    let (dim, heads) = (6, 5);
    let mut params = Linear { split: dim as u32, split_at: (dim * heads) as u32, ..case.params(mode::SET) };
    let second = params.segments[1].at;
    params.segments[0].outputs = (2 * dim * heads) as u32;
    params.segments[3] = Segment { at: second, outputs: 1, y_at: (2 * dim * heads) as u32, bias: NONE };
    params.segments.iter_mut().for_each(|segment| segment.bias = NONE);
    let parted = |row: &Vec<f32>| {
        let of = |half: usize| (0..heads).flat_map(move |head| (0..dim).map(move |i| (2 * head + half) * dim + i));
        let columns = of(0).chain(of(1)).chain([case.outputs[0]]).chain(case.outputs[0]..row.len());
        columns.map(|column| row[column]).collect::<Vec<_>>()
    };
    let want: Vec<f32> = case.dots.iter().flat_map(parted).collect();
    let [y, ..] = case.run(bench, kernel, &params, &vec![0.5; want.len()]).await?;
    same("queries and gates", &y, &bits(&want))
}

/// Tests activations that the kernel quantizes.
async fn raw(bench: &Bench<'_>, kernel: Kernel, case: &Case) -> Result<(), GpuError> {
    let cols = case.cols as u32;
    let mut params = Linear { raw: 1, x_stride: cols, largest: cols / 32, flag: 1, ..case.params(mode::SET) };
    params.segments.iter_mut().for_each(|segment| segment.bias = NONE);
    let dots = case.dots.concat();
    let [y, flag, _] = case.run(bench, kernel, &params, &vec![0.5; dots.len()]).await?;
    same("activations as floats", &y, &bits(&dots))?;
    same("the check for numbers that are not finite", &flag, &[0; 4])?;
    if case.weights.is_float() {
        return Ok(());
    }
    for bad in [f32::INFINITY, f32::NAN] {
        let mut floats = case.floats.clone();
        floats[0] = bad;
        let case = Case { floats, ..case.clone() };
        let [_, flag, _] = case.run(bench, kernel, &params, &vec![0.5; dots.len()]).await?;
        same("the check for numbers that are not finite", &flag, &[0, 1, 0, 0])?;
    }
    Ok(())
}

/// Tests outputs with biases, and with a factor, that are added to what is there.
async fn added(bench: &Bench<'_>, kernel: Kernel, case: &Case, random: &mut Random) -> Result<(), GpuError> {
    let y = random.moderate(case.dots.concat().len());
    for factor in [0.0, 0.22] {
        let params = Linear { factor: f32::to_bits(factor), ..case.params(mode::ADD) };
        let outputs = case.dots.iter().flat_map(|row| row.iter().zip(&case.vector).map(|(dot, &b)| dot + settle(b)));
        let scaled = outputs.map(|x| if factor == 0.0 { x } else { settle(x * factor) });
        let want: Vec<f32> = y.iter().zip(scaled).map(|(y, x)| y + x).collect();
        let [got, ..] = case.run(bench, kernel, &params, &y).await?;
        same("outputs that are added", &got, &bits(&want))?;
    }
    Ok(())
}

async fn logits(bench: &Bench<'_>, kernel: Kernel, case: &Case) -> Result<(), GpuError> {
    let mut params = Linear { cap: 30_f32.to_bits(), factor: 0.5_f32.to_bits(), flag: 3, ..case.params(mode::LOGITS) };
    params.segments.iter_mut().for_each(|segment| segment.bias = NONE);
    let mut want: Vec<f32> = case.dots.concat().iter().map(|&x| settle(x * 0.5)).collect();
    Level::SCALAR.soft_cap(30.0, &mut want);
    let [got, flag, _] = case.run(bench, kernel, &params, &vec![0.0; want.len()]).await?;
    same("soft caps", &got, &bits(&want))?;
    let bad = want.iter().any(|x| !x.is_finite());
    same("the check for numbers that are not finite", &flag, &[0, 0, 0, u32::from(bad)])
}

/// Tests gates times what they gate.
async fn gated(
    bench: &Bench<'_>,
    kernel: Kernel,
    case: &Case,
    number: u32,
    activation: Activation,
) -> Result<(), GpuError> {
    let outputs = case.outputs[0];
    let mut params = Linear { activation: number, y_stride: outputs as u32, ..case.params(mode::GATE) };
    params.segments[1].bias = NONE;
    let want = case.dots.iter().map(|row| {
        let (gate, up) = row.split_at(outputs);
        let mut y: Vec<f32> = gate.iter().zip(&case.vector).map(|(gate, &bias)| gate + settle(bias)).collect();
        Level::SCALAR.combine(Combine::Gate(activation), &mut y, up);
        bits(&y)
    });
    activations(bench, kernel, case, params, want.collect()).await
}

/// Tests gated activations times the sigmoid of a logit of the row, which lies behind all activations.
async fn gated_twice(bench: &Bench<'_>, kernel: Kernel, case: &Case, random: &mut Random) -> Result<(), GpuError> {
    let (outputs, at) = (case.outputs[0], case.rows * case.outputs[0]);
    let mut params = Linear { y_stride: outputs as u32, gates: at as u32, gates_stride: 3, ..case.params(mode::GATE) };
    params.segments.iter_mut().for_each(|segment| segment.bias = NONE);
    params.largest = params.y_stride.div_ceil(32);
    let mut logits = random.moderate(3 * case.rows);
    logits[0] = -80.5;
    let mut want = Vec::new();
    for (row, &logit) in case.dots.iter().zip(logits.iter().step_by(3)) {
        let (gate, up) = row.split_at(outputs);
        let mut y = gate.to_vec();
        Level::SCALAR.combine(Combine::Gate(ACTIVATIONS[0]), &mut y, up);
        y.iter_mut().for_each(|x| *x *= sigmoid(logit));
        want.push(bits(&y));
    }
    let before = [vec![0.0; at], logits.clone()].concat();
    let [got, _, magnitudes] = case.run(bench, kernel, &params, &before).await?;
    same("an expert of all rows", &got, &[want.concat(), bits(&logits)].concat())?;
    same("the largest activations", &magnitudes, &want.iter().map(|row| largest(row)).collect::<Vec<_>>().concat())
}

/// Tests activations times numbers of each row, which lie behind all activations. Then tests outputs times a factor,
/// which are not settled.
async fn multiplied(bench: &Bench<'_>, kernel: Kernel, case: &Case, random: &mut Random) -> Result<(), GpuError> {
    let (outputs, stride) = (case.outputs[0] + case.outputs[1], 71);
    let at = case.rows * outputs;
    let mut params = Linear { times: at as u32 + 1, times_stride: stride as u32, ..case.params(mode::ACTIVATE) };
    params.segments.iter_mut().for_each(|segment| segment.bias = NONE);
    params.largest = params.y_stride.div_ceil(32);
    let factors = random.moderate(case.rows * stride);
    let want = case.dots.iter().zip(factors.chunks(stride)).map(|(row, factors)| {
        let mut y = vec![0.0; row.len()];
        Level::SCALAR.combine(Combine::Activate(ACTIVATIONS[0]), &mut y, row);
        y.iter_mut().zip(&factors[1..]).for_each(|(y, factor)| *y *= factor);
        bits(&y)
    });
    let want: Vec<_> = want.collect();
    let [got, _, magnitudes] = case.run(bench, kernel, &params, &[vec![0.0; at], factors.clone()].concat()).await?;
    same_settled("activations times numbers", &got, &[want.concat(), bits(&factors)].concat())?;
    let largest: Vec<_> = want.iter().flat_map(|row| largest(row)).collect();
    same_settled("the largest activations", &magnitudes, &largest)?;
    let params = Linear { mode: mode::SET, times: 0, factor: 0.37_f32.to_bits(), ..params };
    let want: Vec<f32> = case.dots.concat().iter().map(|x| x * 0.37).collect();
    let [got, ..] = case.run(bench, kernel, &params, &vec![0.5; want.len()]).await?;
    same_settled("outputs times a factor", &got, &bits(&want))
}

/// Tests activation functions without gates.
async fn activated(
    bench: &Bench<'_>,
    kernel: Kernel,
    case: &Case,
    number: u32,
    activation: Activation,
) -> Result<(), GpuError> {
    let params = Linear { activation: number, ..case.params(mode::ACTIVATE) };
    let want = case.dots.iter().map(|row| {
        let outputs: Vec<f32> = row.iter().zip(&case.vector).map(|(dot, &bias)| dot + settle(bias)).collect();
        let mut y = vec![0.0; outputs.len()];
        Level::SCALAR.combine(Combine::Activate(activation), &mut y, &outputs);
        bits(&y)
    });
    activations(bench, kernel, case, params, want.collect()).await
}

/// Tests xIELU, whose numbers lie behind the biases.
async fn with_numbers(bench: &Bench<'_>, kernel: Kernel, case: &Case) -> Result<(), GpuError> {
    for [linear, positive, negative, largest] in [[0.5, 0.8, 1.3, -1e-6], [0.25, 3.0, 0.5, -0.4]] {
        let numbers = Xielu { linear, positive, negative, largest };
        let params = Linear { activation: XIELU, numbers: case.vector.len() as u32, ..case.params(mode::ACTIVATE) };
        let want = case.dots.iter().map(|row| {
            let outputs = row.iter().zip(&case.vector).map(|(dot, &bias)| dot + settle(bias));
            bits(&outputs.map(|x| xielu(x, numbers)).collect::<Vec<_>>())
        });
        let mut case = case.clone();
        let want = want.collect();
        case.vector.extend([linear, positive, negative, largest]);
        activations(bench, kernel, &case, params, want).await?;
    }
    Ok(())
}

/// Compares rows of activations, and their largest magnitudes.
async fn activations(
    bench: &Bench<'_>,
    kernel: Kernel,
    case: &Case,
    params: Linear,
    want: Vec<Vec<u32>>,
) -> Result<(), GpuError> {
    let params = Linear { largest: params.y_stride.div_ceil(32), ..params };
    let [got, _, magnitudes] = case.run(bench, kernel, &params, &vec![0.0; want.concat().len()]).await?;
    same("activations", &got, &want.concat())?;
    same("the largest activations", &magnitudes, &want.iter().map(|row| largest(row)).collect::<Vec<_>>().concat())
}

pub(super) fn name(weights: Weights) -> &'static str {
    match weights {
        Weights::F32 => "products of F32",
        Weights::F16 => "products of F16",
        Weights::Bf16 => "products of BF16",
        Weights::Q8_0 => "products of Q8_0",
        Weights::Q4_0 => "products of Q4_0",
        Weights::Q4K => "products of Q4_K",
        Weights::Q6K => "products of Q6_K",
        Weights::Mxfp4 => "products of MXFP4",
    }
}
