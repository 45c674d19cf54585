//! Norms, quantized activations.

use bytemuck::Zeroable;
use gleed::kernels::{Combine, Level, Norm, NormKind};
use gleed::num::settle;
use gleed::quant::{Form, quantize_row};

use super::random::Random;
use super::{Bench, Data, bits, largest, same, same_settled};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid;
use crate::layout::activation_words;
use crate::params::{Branch, IN_PLACE, Input, NO_INPUT, NONE, Quantize, adds, norms};

const FORMS: [Form; 4] = [Form::F32, Form::Short, Form::Q8x32, Form::Q8x256];

/// Returns the number of an activation format in `input.wgsl`.
pub(crate) fn form_number(form: Form) -> u32 {
    FORMS.iter().position(|&other| other == form).unwrap_or(0) as u32
}

/// Returns the number of a kind of norm in `input.wgsl`.
pub(crate) fn norms_number(kind: NormKind) -> u32 {
    match kind {
        NormKind::Rms => norms::RMS,
        NormKind::Layer => norms::LAYER,
    }
}

pub(super) async fn input(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let branches = [None, Some(0.0), Some(0.37)];
    for (n, form) in [256, 2560].into_iter().flat_map(|n| FORMS.map(|form| (n, form))) {
        for (weight, branch) in [None, Some(NONE), Some(16)].into_iter().zip(branches) {
            input_case(bench, random, n, form, weight, branch).await?;
        }
    }
    layer_norms(bench, random).await?;
    two_forms(bench, random).await?;
    add_normed(bench, random).await?;
    add_experts(bench, random).await?;
    all_before(bench, random).await?;
    not_finite(bench, random).await
}

/// Tests norms by mean and standard deviation, with and without weights and biases.
async fn layer_norms(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let n = 288;
    for (weight, bias) in [(Some(0), Some(n)), (Some(0), None), (None, None)] {
        let (rows, vector) = ([random.moderate(n), random.row(n)], random.row(2 * n));
        let params = Input {
            n: n as u32,
            out_stride: n as u32,
            norms: norms::LAYER,
            weight: weight.map_or(NONE, |at: usize| at as u32),
            bias: bias.map_or(NONE, |at: usize| at as u32),
            form: form_number(Form::F32),
            epsilon: 1e-5,
            ..Input::zeroed()
        };
        let unused = || Data::read([0; 4]);
        let mut buffers = [
            Data::floats(&rows.concat()),
            unused(),
            Data::floats(&vector),
            Data::back(vec![7; 2 * n]),
            unused(),
            unused(),
            unused(),
        ];
        let got = bench.run(Kernel::Input, &params, &buffers, grid::by_row(2)).await?;
        let part = |at: Option<usize>| at.map_or(&[][..], |at| &vector[at..at + n]);
        let want = rows.iter().map(|row| {
            let mut out = vec![0.0; n];
            let (weight, bias) = (bytes_of(part(weight)), bytes_of(part(bias)));
            let norm = Norm { kind: NormKind::Layer, epsilon: 1e-5, weight: &weight, bias: &bias };
            Level::SCALAR.norm(&norm, row, &mut out);
            out
        });
        let want = want.collect::<Vec<_>>().concat();
        let settled: Vec<f32> = want.iter().map(|&x| settle(x)).collect();
        same("norms by mean and deviation", &got[0], &bits(&settled))?;
        // The rows lie behind another row.
        let in_place = Input { form: IN_PLACE, first_row: 1, ..params };
        buffers[0] = Data::back([vec![7; n], bits(&rows.concat())].concat());
        let got = bench.run(Kernel::Input, &in_place, &buffers, grid::by_row(2)).await?;
        // The results are not settled: they are no input of a matrix.
        same("norms in place", &got[0], &[vec![7; n], bits(&want)].concat())?;
        same("norms in place", &got[1], &vec![7; 2 * n])?;
    }
    Ok(())
}

fn bytes_of(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Tests three rows. `weight` says whether they are normed, and at which index the weights begin. `branch` is the
/// factor of a branch whose norm is added before; 0 stands for no factor.
async fn input_case(
    bench: &Bench<'_>,
    random: &mut Random,
    n: usize,
    form: Form,
    weight: Option<u32>,
    branch: Option<f32>,
) -> Result<(), GpuError> {
    let (vector, stride) = (random.row(n + 16), activation_words(form, n));
    let mut rows: Vec<_> = (0..3).map(|row| if row == 0 { random.moderate(n) } else { random.row(n) }).collect();
    let added: Vec<_> = (0..3).map(|_| random.moderate(n)).collect();
    let params = Input {
        zero: 0,
        n: n as u32,
        out_stride: stride as u32,
        norms: u32::from(weight.is_some()),
        weight: weight.unwrap_or(NONE),
        form: form_number(form),
        epsilon: 1e-5,
        flag: 2,
        branch: branch.map_or(Branch::zeroed(), |factor| params_of(factor, NONE)),
        largest: [2, 3],
        bias: NONE,
        first_row: 0,
        out_at: 0,
        second_form: 0,
        second_stride: 0,
        second_at: 0,
    };
    let buffers = [
        Data::back(bits(&rows.concat())),
        Data::floats(&added.concat()),
        Data::floats(&vector),
        Data::back(vec![7; 3 * stride]),
        Data::back(vec![0; 4]),
        Data::back(vec![9; 7]),
        Data::back(vec![9; 10]),
    ];
    let got = bench.run(Kernel::Input, &params, &buffers, grid::by_row(3)).await?;
    if let Some(factor) = branch {
        rows.iter_mut().zip(&added).for_each(|(row, branch)| add_branch(row, branch, &[], factor));
    }
    same_settled("the norm of a branch", &got[0], &bits(&rows.concat()))?;
    let (mut want, mut flag) = (Vec::new(), 0);
    for row in rows {
        let row = match weight {
            None => row,
            Some(NONE) => normed(&row, &[]),
            Some(at) => normed(&row, &vector[at as usize..]),
        };
        let mut words = vec![0; gleed::quant::row_words(form, n).unwrap_or(0)];
        flag |= u32::from(quantize_row(form, &row, &mut words).is_err());
        want.extend(words.into_iter().take(stride));
    }
    same("the input of matrices", &got[1], &want)?;
    same("the check for numbers that are not finite", &got[2], &[0, 0, flag, 0])?;
    same("the largest activations", &got[3], &[0, 0, 0, 0, 0, 0, 9])?;
    same("the largest activations", &got[4], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 9])
}

/// Tests rows in two formats, of which the second one comes first in memory.
async fn two_forms(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for forms in [[Form::Q8x256, Form::F32], [Form::Short, Form::Q8x32]] {
        let (n, rows) = (512, 2);
        let (x, strides) = (random.moderate(rows * n), forms.map(|form| activation_words(form, n)));
        let at = 3 + rows * strides[1];
        let params = Input {
            n: n as u32,
            out_stride: strides[0] as u32,
            norms: norms::RMS,
            weight: NONE,
            bias: NONE,
            form: form_number(forms[0]),
            epsilon: 1e-5,
            out_at: at as u32,
            second_form: 1 + form_number(forms[1]),
            second_stride: strides[1] as u32,
            second_at: 3,
            ..Input::zeroed()
        };
        let unused = || Data::read([0; 4]);
        let out = Data::back(vec![7; at + rows * strides[0]]);
        let buffers = [Data::floats(&x), unused(), unused(), out, unused(), unused(), unused()];
        let got = bench.run(Kernel::Input, &params, &buffers, grid::by_row(rows)).await?;
        let mut want = vec![7; 3];
        for (form, stride) in forms.into_iter().zip(strides).rev() {
            for row in x.chunks(n) {
                let mut words = vec![0; gleed::quant::row_words(form, n).unwrap_or(0)];
                let _ = quantize_row(form, &normed(row, &[]), &mut words);
                want.extend(words.into_iter().take(stride));
            }
        }
        same("an input in two forms", &got[0], &want)?;
    }
    Ok(())
}

/// Returns the parameters of a branch whose norm is added times a factor. 0 stands for no factor.
fn params_of(factor: f32, weight: u32) -> Branch {
    Branch {
        adds: adds::NORM,
        norms: norms::RMS,
        weight,
        bias: NONE,
        epsilon: 1e-5,
        factor: factor.to_bits(),
        ..Branch::zeroed()
    }
}

fn normed(row: &[f32], weight: &[f32]) -> Vec<f32> {
    let weight = bytes_of(weight);
    let mut out = vec![0.0; row.len()];
    Level::SCALAR.norm(&Norm { kind: NormKind::Rms, epsilon: 1e-5, weight: &weight, bias: &[] }, row, &mut out);
    out
}

/// Adds the norm of a branch to a row.
fn add_branch(row: &mut [f32], branch: &[f32], weight: &[f32], factor: f32) {
    for (x, y) in row.iter_mut().zip(normed(branch, weight)) {
        *x += if factor == 0.0 { y } else { settle(y * factor) };
    }
}

/// Tests that an infinity or a NaN among the activations is found.
async fn not_finite(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let mut row = random.moderate(256);
        row[random.below(256)] = bad;
        let params = Input { n: 256, out_stride: 72, weight: NONE, form: 2, ..Input::zeroed() };
        let unused = || Data::read([0; 4]);
        let buffers =
            [Data::floats(&row), unused(), unused(), Data::read([0; 72]), Data::back([0; 4]), unused(), unused()];
        let got = bench.run(Kernel::Input, &params, &buffers, grid::by_row(1)).await?;
        same("the check for numbers that are not finite", &got[0][..1], &[1])?;
    }
    Ok(())
}

/// Tests the results of experts that are added, each times its weight, in the order of their choice.
async fn add_experts(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for (used, factor) in [(1, 0.0), (4, 0.37), (3, 0.0)] {
        let (n, rows) = (288, 2);
        let (mut x, results) = (random.row(rows * n), random.row(rows * used * n));
        let weights: Vec<f32> = (0..rows * used).map(|_| random.uniform().abs()).collect();
        let branch = Branch {
            adds: adds::EXPERTS,
            factor: f32::to_bits(factor),
            used: used as u32,
            expert_weights: (rows * used * n) as u32,
            ..Branch::zeroed()
        };
        let params = Input { n: n as u32, form: NO_INPUT, branch, ..Input::zeroed() };
        let unused = || Data::read([0; 4]);
        let buffers = [
            Data::back(bits(&x)),
            Data::floats(&[&results[..], &weights].concat()),
            unused(),
            unused(),
            unused(),
            unused(),
            unused(),
        ];
        let got = bench.run(Kernel::Input, &params, &buffers, grid::by_row(rows)).await?;
        for (pair, result) in results.chunks(n).enumerate() {
            let weight = if factor == 0.0 { weights[pair] } else { settle(weights[pair] * factor) };
            let row = &mut x[pair / used * n..][..n];
            Level::SCALAR.combine(Combine::AddScaled(settle(weight)), row, result);
        }
        same_settled("what experts give", &got[0], &bits(&x))?;
    }
    Ok(())
}

/// Tests the norm of a branch that is added without an input after it.
async fn add_normed(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for factor in [0.0, 0.37] {
        let n = 288;
        let (x, mut y, mut vector) = (random.row(2 * n), random.row(2 * n), random.moderate(n));
        // Some products are settled to 0, and rows have zeros beside which that shows.
        vector.iter_mut().step_by(3).for_each(|weight| *weight *= f32::from_bits(0x2900_0000));
        let params = Input { n: n as u32, form: NO_INPUT, branch: params_of(factor, 0), ..Input::zeroed() };
        let unused = || Data::read([0; 4]);
        let buffers = [
            Data::back(bits(&y)),
            Data::floats(&x),
            Data::floats(&vector),
            Data::back([7; 4]),
            unused(),
            unused(),
            unused(),
        ];
        let got = bench.run(Kernel::Input, &params, &buffers, grid::by_row(2)).await?;
        y.chunks_mut(n).zip(x.chunks(n)).for_each(|(row, branch)| add_branch(row, branch, &vector, factor));
        same_settled("the norm of a branch", &got[0], &bits(&y))?;
        same("the norm of a branch", &got[1], &[7; 4])?;
    }
    Ok(())
}

/// Tests all that is done before an input. The branch is normed. The results of experts, or the norm of their sum, are
/// added to it. Its norm, also by deviation, is added to the residual stream, which is scaled.
async fn all_before(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let (n, rows, used) = (288, 2, 3);
    let experts = adds::EXPERTS | adds::TO_BRANCH;
    let all = adds::NORMS_BRANCH | experts | adds::NORMS_EXPERTS | adds::NORM | adds::SCALES;
    for (what, kind) in [(all, NormKind::Rms), (experts | adds::NORM, NormKind::Layer), (adds::SCALES, NormKind::Rms)] {
        let (mut x, mut branch) = (random.row(rows * n), random.moderate(rows * n));
        let (results, vector) = (random.moderate(rows * used * n), random.moderate(4 * n));
        let weights: Vec<f32> = (0..rows * used).map(|_| random.uniform().abs()).collect();
        let before = branch.len() + results.len();
        let params = Branch {
            adds: what,
            norms: norms_number(kind),
            weight: 0,
            bias: if kind == NormKind::Layer { n as u32 } else { NONE },
            epsilon: 1e-5,
            // The factor is not one of the weights of experts.
            factor: 0.37_f32.to_bits(),
            used: used as u32,
            results: branch.len() as u32,
            expert_weights: before as u32,
            renorm_weight: 2 * n as u32,
            experts_weight: 3 * n as u32,
            scale: 0.3,
        };
        let params = Input { n: n as u32, form: NO_INPUT, branch: params, ..Input::zeroed() };
        let unused = || Data::read([0; 4]);
        let buffers = [
            Data::back(bits(&x)),
            Data::back(bits(&[&branch[..], &results, &weights].concat())),
            Data::floats(&vector),
            unused(),
            unused(),
            unused(),
            unused(),
        ];
        let got = bench.run(Kernel::Input, &params, &buffers, grid::by_row(rows)).await?;
        let part = |index: usize| &vector[index * n..(index + 1) * n];
        for (index, (row, own)) in x.chunks_mut(n).zip(branch.chunks_mut(n)).enumerate() {
            if what & adds::NORMS_BRANCH != 0 {
                own.copy_from_slice(&normed(own, part(2)));
            }
            let mut sum = if what & adds::NORMS_EXPERTS != 0 { vec![0.0; n] } else { own.to_vec() };
            for pair in index * used..(index + 1) * used {
                Level::SCALAR.combine(Combine::AddScaled(settle(weights[pair])), &mut sum, &results[pair * n..][..n]);
            }
            match what & (adds::EXPERTS | adds::NORMS_EXPERTS) {
                0 => {}
                adds::EXPERTS => own.copy_from_slice(&sum),
                _ => Level::SCALAR.combine(Combine::Add, own, &normed(&sum, part(3))),
            }
            if what & adds::NORM != 0 {
                let (weight, bias) = (bytes_of(part(0)), bytes_of(part(1)));
                let bias = if kind == NormKind::Layer { &bias[..] } else { &[] };
                let mut y = vec![0.0; n];
                Level::SCALAR.norm(&Norm { kind, epsilon: 1e-5, weight: &weight, bias }, own, &mut y);
                Level::SCALAR.combine(Combine::AddScaled(0.37), row, &y);
            }
            if what & adds::SCALES != 0 {
                row.iter_mut().for_each(|x| *x = settle(*x * 0.3));
            }
        }
        same_settled("what is done before an input", &got[0], &bits(&x))?;
        same_settled("what is done to a branch", &got[1][..branch.len()], &bits(&branch))?;
    }
    Ok(())
}

/// Tests the quantization of three rows of activations, whose largest magnitudes are known.
pub(super) async fn quantize(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let rows = 3;
    for (form, cols) in [(Form::Q8x32, 96), (Form::Q8x256, 1536), (Form::Q8x32, 1120), (Form::Q8x256, 256)] {
        let words = activation_words(form, cols);
        let floats: Vec<f32> = (0..rows).flat_map(|_| random.row(cols)).collect();
        let mut want = Vec::new();
        for row in floats.chunks(cols) {
            let mut made = vec![0; gleed::quant::row_words(form, cols).unwrap_or(0)];
            let _ = quantize_row(form, row, &mut made);
            want.extend(made.into_iter().take(words));
        }
        for bad in [None, Some(f32::INFINITY), Some(f32::NAN)] {
            let mut floats = bits(&floats);
            floats[cols + 1] = bad.map_or(floats[cols + 1], f32::to_bits);
            let params = Quantize {
                zero: 0,
                cols: cols as u32,
                out_stride: words as u32,
                largest: (cols / 32) as u32,
                parts: if form == Form::Q8x256 { 8 } else { 1 },
                flag: 2,
                unused: [0; 2],
            };
            let buffers = [
                Data::read(floats.clone()),
                Data::read(largest(&floats)),
                Data::back(vec![7; want.len()]),
                Data::back([0; 4]),
            ];
            let grid = grid::by_head(rows, cols.div_ceil(grid::QUANTIZED));
            let got = bench.run(Kernel::Quantize, &params, &buffers, grid).await?;
            if bad.is_none() {
                same("activations of many rows", &got[0], &want)?;
            }
            same("the check for numbers that are not finite", &got[1], &[0, 0, u32::from(bad.is_some()), 0])?;
        }
    }
    Ok(())
}
