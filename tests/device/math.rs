//! The arithmetic of a row.

use gleed::device::{MatrixView, NormRotateView, Row};
use gleed::kernels::{Activation, Combine, Level};
use gleed::nn::rotate;
use gleed::num::{exp, settle};
use gleed::quant::{ActivationRow, dot, form, quantize_row, row_words};

pub(crate) const LEVEL: Level = Level::SCALAR;

/// Returns `Some` if all forms of an input can hold it. Integer forms need finite numbers.
pub(crate) fn is_quantizable(x: &[f32], forms: gleed::nn::InputForms) -> Option<()> {
    forms.forms().all(|form| form.is_float() || x.iter().all(|x| x.is_finite())).then_some(())
}

/// Returns a matrix times an input.
pub(crate) fn multiply(matrix: &MatrixView<'_>, input: &[f32]) -> Vec<f32> {
    let (weights, form) = (matrix.weights, form(matrix.weights.dtype()));
    let mut words = vec![0; row_words(form, input.len()).unwrap()];
    // If the input is not finite, the batch has failed already.
    let _ = quantize_row(form, input, &mut words);
    let row = |index| {
        let x = ActivationRow::from_words(form, input.len(), &words).unwrap();
        dot(weights.dtype(), weights.row(index).unwrap(), x).unwrap()
    };
    let biases = matrix.bias.chunks(4).map(float).chain(std::iter::repeat(0.0));
    let has_bias = !matrix.bias.is_empty();
    (0..weights.rows()).map(row).zip(biases).map(|(x, bias)| if has_bias { x + bias } else { x }).collect()
}

/// Returns `activation(gate) * up`, or `activation(up)` without a gate.
pub(crate) fn gate_up(
    gate: Option<MatrixView<'_>>,
    up: &MatrixView<'_>,
    activation: Activation,
    input: &[f32],
) -> Vec<f32> {
    let up = multiply(up, input);
    let how = if gate.is_some() { Combine::Gate(activation) } else { Combine::Activate(activation) };
    let mut out = gate.map_or_else(|| vec![0.0; up.len()], |gate| multiply(&gate, input));
    LEVEL.combine(how, &mut out, &up);
    out
}

/// Reads a number of a file, settled.
pub(crate) fn float(bytes: &[u8]) -> f32 {
    settle(f32::from_le_bytes(bytes.try_into().unwrap()))
}

pub(crate) fn add_scaled(to: &mut [f32], outputs: &[f32], scale: f32) {
    let scaled = |x: f32| if scale == 1.0 { x } else { settle(x * scale) };
    to.iter_mut().zip(outputs).for_each(|(to, &x)| *to += scaled(x));
}

pub(crate) fn norm_rotate(view: &NormRotateView<'_>, row: Row, angles: &[f32], heads: &mut [f32]) {
    if view.clamp > 0.0 {
        heads.iter_mut().for_each(|x| *x = x.clamp(-view.clamp, view.clamp));
    }
    let (q, kv) = heads.split_at_mut(view.heads * view.head_dim);
    let (k, v) = kv.split_at_mut(view.kv_heads * view.head_dim);
    let v = &mut v[..view.kv_heads * view.head_dim];
    if view.keys_as_values {
        v.copy_from_slice(k);
    }
    if let Some(norm) = view.v_norm {
        v.chunks_mut(view.head_dim).for_each(|head| LEVEL.norm_in_place(&norm, head));
    }
    let rotation = &angles[view.rotation.clone()];
    for (heads, norm) in [(&mut *q, view.q_norm), (k, view.k_norm)] {
        let normalize = |heads: &mut [f32], now: bool| {
            let Some(norm) = norm.filter(|_| now) else { return };
            if norm.whole_row {
                return LEVEL.norm_in_place(&norm.norm, heads);
            }
            for (index, head) in heads.chunks_mut(view.head_dim).enumerate() {
                LEVEL.norm_in_place(&norm.of_head(index).unwrap(), head);
            }
        };
        normalize(heads, !view.norm_after_rotation);
        heads.chunks_mut(view.head_dim).for_each(|head| rotate(head, rotation, view.pairs));
        normalize(heads, view.norm_after_rotation);
    }
    if let Some(temperature) = view.temperature {
        let factor = temperature.factor(row.position as usize);
        q.iter_mut().for_each(|q| *q *= factor);
    }
}

/// Returns the results of attention: the sums of values divided by the sums of weights.
pub(crate) fn finish_heads(heads: &[(Vec<f32>, f32, f32)], sinks: &[u8]) -> Vec<f32> {
    let mut out = Vec::new();
    for (head, (values, max, sum)) in heads.iter().enumerate() {
        let inverse = match sinks.chunks(4).nth(head).map(float) {
            None => 1.0 / sum,
            Some(sink) => {
                let most = if sink > *max { sink } else { *max };
                exp(max - most) / (sum * exp(max - most) + exp(sink - most))
            }
        };
        out.extend(values.iter().map(|value| value * inverse));
    }
    out
}
