//! Root mean square normalization.

use crate::num::{is_finite, sqrt, sum_lanes};

/// `out = (x * r) * weight` with `r = 1 / sqrt(sum of squares / n + epsilon)`.
///
/// `x` and `out` are `[n]`, `weight` is `[n]` little-endian f32 of any alignment. (Zhang and Sennrich,
/// "Root Mean Square Layer Normalization", 2019.)
#[inline(always)]
pub(in crate::kernels) fn rms_norm(x: &[f32], weight: &[u8], epsilon: f32, out: &mut [f32]) {
    let r = inverse_rms(x, epsilon);
    let (weight, _) = weight.as_chunks::<4>();
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = (x * r) * f32::from_le_bytes(weight);
    }
}

/// [`rms_norm`] of `x` in its place.
#[inline(always)]
pub(in crate::kernels) fn rms_norm_in_place(x: &mut [f32], weight: &[u8], epsilon: f32) {
    let r = inverse_rms(x, epsilon);
    let (weight, _) = weight.as_chunks::<4>();
    for (x, &weight) in x.iter_mut().zip(weight) {
        *x = (*x * r) * f32::from_le_bytes(weight);
    }
}

#[inline(always)]
fn inverse_rms(x: &[f32], epsilon: f32) -> f32 {
    let mean = sum_lanes(x, x, |a, b| a * b) / x.len() as f32;
    // Squares of finite numbers can overflow; 1 / infinity would hide it.
    if is_finite(mean) { 1.0 / sqrt(mean + epsilon) } else { f32::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_definition() {
        let x: Vec<f32> = (0..37).map(|i| (i as f32 - 11.5) * 0.37).collect();
        let weight: Vec<f32> = (0..37).map(|i| 1.0 + i as f32 * 0.01).collect();
        let bytes: Vec<u8> = weight.iter().flat_map(|w| w.to_le_bytes()).collect();
        let mut out = vec![0.0; 37];
        rms_norm(&x, &bytes, 1e-5, &mut out);
        let mean = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / 37.0;
        for i in 0..37 {
            let want = f64::from(x[i]) / (mean + 1e-5).sqrt() * f64::from(weight[i]);
            assert!((f64::from(out[i]) - want).abs() < 1e-6, "{i}");
        }
        let mut in_place = x.clone();
        rms_norm_in_place(&mut in_place, &bytes, 1e-5);
        assert_eq!(in_place, out);
    }
}
