//! Norms, quantized activations, choices.

use gleed::kernels::{Level, Norm, NormKind};
use gleed::num::settle;
use gleed::quant::{Form, quantize_row};

use super::random::{Random, row_words};
use super::{Bench, Data, bits, same};
use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::grid;
use crate::params::{AddNormed, Choose, Input, NONE};

const FORMS: [Form; 4] = [Form::F32, Form::Short, Form::Q8x32, Form::Q8x256];

/// The number of a form in `input.wgsl`.
pub(crate) fn form_number(form: Form) -> u32 {
    FORMS.iter().position(|&other| other == form).unwrap_or(0) as u32
}

pub(super) fn input(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for (n, form) in [256, 2560].into_iter().flat_map(|n| FORMS.map(|form| (n, form))) {
        for weight in [None, Some(NONE), Some(16)] {
            input_case(bench, random, n, form, weight)?;
        }
    }
    not_finite(bench, random)
}

/// Three rows; `weight` says whether they are normed, and where the weights begin.
fn input_case(
    bench: &Bench<'_>,
    random: &mut Random,
    n: usize,
    form: Form,
    weight: Option<u32>,
) -> Result<(), GpuError> {
    let (vector, stride) = (random.row(n + 16), row_words(form, n));
    let rows: Vec<_> = (0..3).map(|row| if row == 0 { random.moderate(n) } else { random.row(n) }).collect();
    let params = Input {
        zero: 0,
        n: n as u32,
        x_stride: n as u32,
        out_stride: stride as u32,
        norms: u32::from(weight.is_some()),
        weight: weight.unwrap_or(NONE),
        form: form_number(form),
        epsilon: 1e-5,
        flag: 2,
    };
    let buffers =
        [Data::floats(&rows.concat()), Data::floats(&vector), Data::back(vec![7; 3 * stride]), Data::back(vec![0; 4])];
    let got = bench.run(Kernel::Input, &params, &buffers, grid::by_row(3))?;
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
    same("the input of matrices", &got[0], &want)?;
    same("the check for numbers that are not finite", &got[1], &[0, 0, flag, 0])
}

fn normed(row: &[f32], weight: &[f32]) -> Vec<f32> {
    let weight: Vec<u8> = weight.iter().flat_map(|w| w.to_le_bytes()).collect();
    let mut out = vec![0.0; row.len()];
    Level::SCALAR.norm(&Norm { kind: NormKind::Rms, epsilon: 1e-5, weight: &weight, bias: &[] }, row, &mut out);
    out
}

/// An infinity among the activations is found.
fn not_finite(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
        let mut row = random.moderate(256);
        row[random.below(256)] = bad;
        let params = Input {
            zero: 0,
            n: 256,
            x_stride: 256,
            out_stride: 72,
            norms: 0,
            weight: NONE,
            form: 2,
            epsilon: 0.0,
            flag: 0,
        };
        let buffers = [Data::floats(&row), Data::read([0; 4]), Data::read([0; 72]), Data::back([0; 4])];
        let got = bench.run(Kernel::Input, &params, &buffers, grid::by_row(1))?;
        same("the check for numbers that are not finite", &got[0][..1], &[1])?;
    }
    Ok(())
}

pub(super) fn add_normed(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    for factor in [0.0, 0.37] {
        let n = 288;
        let (x, y, mut vector) = (random.row(2 * n), random.row(2 * n), random.moderate(n));
        // Products that are cut, beside nothing that hides them.
        vector.iter_mut().step_by(3).for_each(|weight| *weight *= f32::from_bits(0x2900_0000));
        let params = AddNormed { zero: 0, n: n as u32, weight: 0, epsilon: 1e-5, factor: f32::to_bits(factor) };
        let buffers = [Data::floats(&x), Data::floats(&vector), Data::back(bits(&y))];
        let got = bench.run(Kernel::AddNormed, &params, &buffers, grid::by_row(2))?;
        let normed = x.chunks(n).flat_map(|row| normed(row, &vector));
        let scaled = normed.map(|x| if factor == 0.0 { x } else { settle(x * factor) });
        let want: Vec<f32> = y.iter().zip(scaled).map(|(y, x)| y + x).collect();
        same("the norm of a branch", &got[0], &bits(&want))?;
    }
    Ok(())
}

pub(super) fn choose(bench: &Bench<'_>, random: &mut Random) -> Result<(), GpuError> {
    let n = 1000;
    let rows = 6;
    let mut logits = random.moderate(rows * n);
    // The largest twice; zeros of both signs; the first; the last; all alike.
    logits[n + 700] = 5.0;
    logits[n + 300] = 5.0;
    logits[2 * n..3 * n].fill(-1.0);
    logits[2 * n + 256] = -0.0;
    logits[2 * n + 257] = 0.0;
    logits[3 * n] = 9.0;
    logits[5 * n - 1] = 9.0;
    logits[5 * n..].fill(-3.5);
    let params = Choose { zero: 0, n: n as u32, stride: n as u32, unused: 0 };
    let got =
        bench.run(Kernel::Choose, &params, &[Data::floats(&logits), Data::back(vec![0; rows])], grid::by_row(rows))?;
    let best = |row: &[f32]| (0..n).fold(0, |best, i| if row[i] > row[best] { i } else { best }) as u32;
    same("the largest logit", &got[0], &logits.chunks(n).map(best).collect::<Vec<_>>())
}
