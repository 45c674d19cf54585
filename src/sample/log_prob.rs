//! The logarithm of a token's probability.

use crate::kernels::fpenv;
use crate::num::{exp, sum_lanes};

/// Returns the natural logarithm of the probability of a token at temperature 1: `(l - m) - ln(sum of e^(l - m))`,
/// where m is the largest logit. The sum is in 16 lanes (`docs/arithmetic.md`, section 4). The logarithm is computed in
/// f64 and rounded once. Returns `None` if the token has no logit.
pub fn log_prob(logits: &[f32], token: u32) -> Option<f32> {
    let logit = *logits.get(usize::try_from(token).ok()?)?;
    fpenv::with_default(|| {
        let max = logits.iter().fold(f32::NEG_INFINITY, |max, &logit| if logit > max { logit } else { max });
        let sum = sum_lanes(logits, logits, |logit, _| exp(logit - max));
        Some((logit - max) - libm::log(sum.into()) as f32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_logarithm_of_the_softmax() {
        let logits = [1.5, -2.0, 0.25, 3.0];
        let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
        for (token, &logit) in logits.iter().enumerate() {
            let expected = f64::from(logit) - sum.ln();
            let found = log_prob(&logits, token as u32).unwrap();
            assert!((f64::from(found) - expected).abs() < 1e-6, "{found} for {expected}");
        }
        assert_eq!(log_prob(&logits, 4), None);
        assert_eq!(log_prob(&[], 0), None);
    }
}
