//! Normalization of rows.

use crate::num::{is_finite, settle, settled_of, sqrt, sum_lanes};

/// How a row is normalized.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// Elements divided by their root mean square. (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.)
    Rms,
    /// Elements less their mean, divided by their standard deviation. (Ba, Kiros and Hinton, "Layer Normalization",
    /// 2016.)
    Layer,
}

/// A normalization of rows of n elements: `y = ((x - mean) * r) * weight + bias`, with `r = 1 / sqrt(mean of (x -
/// mean)^2 + epsilon)`. With [`NormKind::Rms`] the mean is 0. Elements, the mean, differences from the mean, weights,
/// biases and products with weights count as +0 below 2^-50 in magnitude.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct Norm<'w> {
    /// Kind of the norm.
    pub kind: NormKind,
    /// Number that is added to the mean square.
    pub epsilon: f32,
    /// Weights, `[n]`, little-endian f32 of any alignment. If there are none, elements are not multiplied by weights.
    pub weight: &'w [u8],
    /// Biases, `[n]`, little-endian f32 of any alignment, or empty.
    pub bias: &'w [u8],
}

/// See [`Level::norm`](crate::kernels::Level::norm).
#[inline(always)]
pub(in crate::kernels) fn norm(norm: &Norm<'_>, x: &[f32], out: &mut [f32]) {
    match norm.kind {
        NormKind::Rms => norm_of::<false>(norm, x, out),
        NormKind::Layer => norm_of::<true>(norm, x, out),
    }
    add_bias(norm.bias, out);
}

/// See [`Level::norm_in_place`](crate::kernels::Level::norm_in_place).
#[inline(always)]
pub(in crate::kernels) fn norm_in_place(norm: &Norm<'_>, x: &mut [f32]) {
    match norm.kind {
        NormKind::Rms => norm_in_place_of::<false>(norm, x),
        NormKind::Layer => norm_in_place_of::<true>(norm, x),
    }
    add_bias(norm.bias, x);
}

#[inline(always)]
fn norm_of<const CENTERS: bool>(norm: &Norm<'_>, x: &[f32], out: &mut [f32]) {
    let (mean, r) = moments::<CENTERS>(norm.epsilon, x);
    let (weight, _) = norm.weight.as_chunks::<4>();
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = settle((centered::<CENTERS>(x, mean) * r) * settled_of(weight));
    }
    if weight.is_empty() {
        out.iter_mut().zip(x).for_each(|(out, &x)| *out = settle(centered::<CENTERS>(x, mean) * r));
    }
}

#[inline(always)]
fn norm_in_place_of<const CENTERS: bool>(norm: &Norm<'_>, x: &mut [f32]) {
    let (mean, r) = moments::<CENTERS>(norm.epsilon, x);
    let (weight, _) = norm.weight.as_chunks::<4>();
    for (x, &weight) in x.iter_mut().zip(weight) {
        *x = settle((centered::<CENTERS>(*x, mean) * r) * settled_of(weight));
    }
    if weight.is_empty() {
        x.iter_mut().for_each(|x| *x = settle(centered::<CENTERS>(*x, mean) * r));
    }
}

/// Returns the mean, or 0 unless the norm `CENTERS`, and the inverse of the root of the mean square around it.
#[inline(always)]
fn moments<const CENTERS: bool>(epsilon: f32, x: &[f32]) -> (f32, f32) {
    let count = x.len() as f32;
    let mean = if CENTERS { settle(sum_lanes(x, x, |x, _| settle(x)) / count) } else { 0.0 };
    let squares = sum_lanes(x, x, |x, _| {
        let x = centered::<CENTERS>(x, mean);
        x * x
    });
    let square = squares / count;
    // Squares of finite numbers can overflow to infinity, and 1 / infinity would hide it.
    (mean, if is_finite(square) { 1.0 / sqrt(square + epsilon) } else { f32::NAN })
}

/// Returns `x`, less the mean if the norm `CENTERS`, settled.
#[inline(always)]
fn centered<const CENTERS: bool>(x: f32, mean: f32) -> f32 {
    if CENTERS { settle(settle(x) - mean) } else { settle(x) }
}

#[inline(always)]
fn add_bias(bias: &[u8], y: &mut [f32]) {
    let (bias, _) = bias.as_chunks::<4>();
    for (y, &bias) in y.iter_mut().zip(bias) {
        *y += settled_of(bias);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_definition() {
        let x: Vec<f32> = (0..37).map(|i| (i as f32 - 11.5) * 0.37).collect();
        let weight: Vec<f32> = (0..37).map(|i| 1.0 + i as f32 * 0.01).collect();
        let bytes: Vec<u8> = weight.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / 37.0;
        for (kind, mean, bias) in [(NormKind::Rms, 0.0, &[][..]), (NormKind::Layer, mean, &bytes[..])] {
            let how = Norm { kind, epsilon: 1e-5, weight: &bytes, bias };
            let mut out = vec![0.0; 37];
            norm(&how, &x, &mut out);
            let square = x.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / 37.0;
            for i in 0..37 {
                let bias = if bias.is_empty() { 0.0 } else { f64::from(weight[i]) };
                let want = (f64::from(x[i]) - mean) / (square + 1e-5).sqrt() * f64::from(weight[i]) + bias;
                assert!((f64::from(out[i]) - want).abs() < 1e-6, "{kind:?} {i}");
            }
            let mut in_place = x.clone();
            norm_in_place(&how, &mut in_place);
            assert_eq!(in_place, out);
        }
    }
}
