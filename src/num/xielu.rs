//! xIELU, the activation function of Apertus.

use super::math::{exp, exp_polynomial, settle};

/// The numbers of [`xielu`]: factors of its three terms, and the largest x whose e^x is computed.
///
/// [Example](crate::num#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xielu {
    /// Factor of x.
    pub linear: f32,
    /// Factor of x^2, where x is above 0.
    pub positive: f32,
    /// Factor of `e^x - 1 - x`, where x is not above 0.
    pub negative: f32,
    /// Largest x whose e^x is computed, a number below 0. Larger x that are not above 0 take the e^x of this number.
    pub largest: f32,
}

/// Returns xIELU: `positive x^2 + linear x` where x is above 0, otherwise `negative (e^y - 1 - x) + linear x`, where y
/// is the smaller of x and `largest`. Each term is settled ([`settle`]), and so is their sum. (Huang and Schlag,
/// "Deriving Activation Functions Using Integration", 2024.)
#[inline]
pub fn xielu(x: f32, numbers: Xielu) -> f32 {
    let y = if x < numbers.largest { x } else { numbers.largest };
    let below = settle(numbers.negative * (exp_minus_1(y) - x));
    let above = settle(numbers.positive * settle(x * x));
    // NaN stays NaN, because it is in both terms.
    settle(if x > 0.0 { above } else { below } + settle(numbers.linear * x))
}

/// Returns e^x - 1 for x that is not above 0. Near 0, where [`exp`] needs no reduction, this is its polynomial without
/// the 1.
#[inline]
fn exp_minus_1(x: f32) -> f32 {
    let small = exp_polynomial(x) * (x * x) + x;
    if x > -0.34 { small } else { exp(x) - 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xielu_is_accurate() {
        for numbers in [
            Xielu { linear: 0.5, positive: 0.8, negative: 1.3, largest: -1e-6 },
            Xielu { linear: 0.25, positive: 3.0, negative: 0.5, largest: -0.1 },
        ] {
            for i in -200_000..200_000 {
                let x = i as f32 * 1e-4;
                let [wide, linear, positive, negative, largest] =
                    [x, numbers.linear, numbers.positive, numbers.negative, numbers.largest].map(f64::from);
                let want = match x > 0.0 {
                    true => positive * wide * wide + linear * wide,
                    false => negative * (wide.min(largest).exp_m1() - wide) + linear * wide,
                };
                let error = (f64::from(xielu(x, numbers)) - want).abs();
                // The terms have different signs, so the error is compared with the largest term.
                let size = want.abs().max(negative * wide.abs()).max(linear * wide.abs());
                assert!(error <= 4e-7 * size, "{x}: {}, not {want}", xielu(x, numbers));
            }
            assert!(xielu(f32::NAN, numbers).is_nan());
            assert_eq!(xielu(1e-30, numbers).to_bits(), 0);
        }
    }
}
