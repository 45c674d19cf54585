//! xIELU, the activation function of Apertus.

use super::math::{exp, exp_polynomial, settle};

/// The numbers of [`xielu`]: of x and x^2 above 0, of x and of `e^x - 1 - x` below it, and the largest x that e^x is
/// taken of.
///
/// [Example](crate::num#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Xielu {
    /// x is multiplied by it.
    pub linear: f32,
    /// x^2 is multiplied by it, where x is above 0.
    pub positive: f32,
    /// `e^x - 1 - x` is multiplied by it, where x is not.
    pub negative: f32,
    /// A number below 0: of larger x the first term is that of this one.
    pub largest: f32,
}

/// Returns xIELU: `positive x^2 + linear x` above 0, `negative (e^y - 1 - x) + linear x` below, where y is x or
/// `largest`, whichever is less. Each term is settled ([`settle`]), and so is their sum. (Huang and Schlag, "Deriving
/// Activation Functions Using Integration", 2024.)
#[inline]
pub fn xielu(x: f32, numbers: Xielu) -> f32 {
    let y = if x < numbers.largest { x } else { numbers.largest };
    let below = settle(numbers.negative * (exp_minus_1(y) - x));
    let above = settle(numbers.positive * settle(x * x));
    // NaN stays: it is in both.
    settle(if x > 0.0 { above } else { below } + settle(numbers.linear * x))
}

/// e^x - 1 of numbers that are not above 0: the polynomial of [`exp`] where that needs no reduction.
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
                // The terms have different signs.
                let size = want.abs().max(negative * wide.abs()).max(linear * wide.abs());
                assert!(error <= 4e-7 * size, "{x}: {}, not {want}", xielu(x, numbers));
            }
            assert!(xielu(f32::NAN, numbers).is_nan());
            assert_eq!(xielu(1e-30, numbers).to_bits(), 0);
        }
    }
}
