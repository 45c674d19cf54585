//! Elementary functions, each a fixed sequence of IEEE f32 operations.

/// Adding and subtracting this rounds any |x| < 2^22 to an integer, ties to even.
const ROUND_MAGIC: f32 = 12_582_912.0; // 1.5 * 2^23

/// Returns `x`, |x| < 2^22, rounded to the nearest integer, ties to even. The result is within i32.
#[inline]
pub fn round_half_even(x: f32) -> f32 {
    (x + ROUND_MAGIC) - ROUND_MAGIC
}

/// Returns [`round_half_even`] as an integer, for |x| < 127.5. The low bits of the sum are the integer in two's
/// complement.
#[inline]
pub fn round_to_i8(x: f32) -> i8 {
    (x + ROUND_MAGIC).to_bits() as i8
}

/// Returns e^x by range reduction to |r| <= ln(2)/2 and a polynomial of degree 6 (Cephes `expf` coefficients).
///
/// Below -87 the result is +0, above +88 it is +infinity, and for NaN it is NaN. In between the relative error is at
/// most 2e-7, and no result is subnormal. Multiplications and additions are rounded one by one.
#[inline]
pub fn exp(x: f32) -> f32 {
    exp_from(x, -87.0)
}

/// Returns the weight in attention of a score that exceeds the largest score by `x`: [`exp`], and +0 below
/// [`WEIGHT_MIN`].
#[inline]
pub(crate) fn weight(x: f32) -> f32 {
    exp_from(x, WEIGHT_MIN)
}

/// Smallest score, relative to the largest one, whose weight in attention is not 0. e^-27.5 is more than 2^-40.
pub(crate) const WEIGHT_MIN: f32 = -27.5;

/// Returns e^x, and +0 below `least`.
#[inline]
fn exp_from(x: f32, least: f32) -> f32 {
    const LOG2_E: f32 = core::f32::consts::LOG2_E;
    // ln 2 in two parts. The first has 9 significant bits, so n * LN2_HI is exact.
    const LN2_HI: f32 = 0.693_359_4;
    const LN2_LO: f32 = -2.121_944_4e-4;
    let shifted = x * LOG2_E + ROUND_MAGIC;
    let n = shifted - ROUND_MAGIC;
    let r = (x - n * LN2_HI) - n * LN2_LO;
    let y = (exp_polynomial(r) * (r * r) + r) + 1.0;
    // The low bits of `shifted` hold n in two's complement. Wherever the result is used, -126 <= n <= 127.
    let exponent = shifted.to_bits().wrapping_sub(ROUND_MAGIC.to_bits()).wrapping_add(127);
    let result = y * f32::from_bits(exponent << 23);
    // Selections at the end, so that loops over this have no branches.
    let result = if x > 88.0 { f32::INFINITY } else { result };
    if x < least { 0.0 } else { result }
}

/// Returns 1 / (1 + e^-x), and +0 below -80: no result is subnormal.
#[inline]
pub fn sigmoid(x: f32) -> f32 {
    let result = 1.0 / (1.0 + exp(-x));
    if x < -80.0 { 0.0 } else { result }
}

/// Returns ln(1 + e^x), as `max(x, 0) + ln(1 + t)` with `t = e^-|x|`. The logarithm is 2 artanh(t / (2 + t)), computed
/// by the series up to the power 15. Its argument is at most 1/3. The result is settled ([`settle`]).
#[inline]
pub fn softplus(x: f32) -> f32 {
    let t = exp(-abs(x));
    let s = t / (2.0 + t);
    let square = s * s;
    let mut p = 1.0 / 15.0_f32;
    p = p * square + 1.0 / 13.0;
    p = p * square + 1.0 / 11.0;
    p = p * square + 1.0 / 9.0;
    p = p * square + 1.0 / 7.0;
    p = p * square + 1.0 / 5.0;
    p = p * square + 1.0 / 3.0;
    p = p * square + 1.0;
    let positive = if x > 0.0 { x } else { 0.0 };
    // NaN stays NaN, because it is in t.
    settle(positive + (2.0 * s) * p)
}

/// Returns `x`, or +0 where its magnitude is below 2^-50. Sums of products of two such numbers are never subnormal:
/// each product is 0 or a multiple of 2^-123.
#[inline]
pub fn settle(x: f32) -> f32 {
    if abs(x) < SETTLED_MIN { 0.0 } else { x }
}

/// 2^-50: settled numbers other than 0 are at least this in magnitude.
pub(crate) const SETTLED_MIN: f32 = f32::from_bits(0x2680_0000);

/// Returns a little-endian number of a file, settled ([`settle`]).
#[inline]
pub(crate) fn settled_of(bytes: [u8; 4]) -> f32 {
    settle(f32::from_le_bytes(bytes))
}

/// Returns x / (1 + e^-x), with one IEEE division.
#[inline]
pub fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

/// Returns x limited to -7..=7. NaN stays NaN.
#[inline]
pub fn limited(x: f32) -> f32 {
    let below = if x > 7.0 { 7.0 } else { x };
    if below < -7.0 { -7.0 } else { below }
}

/// Returns x / (1 + e^(-1.702 x)), where x above 7 counts as 7.
#[inline]
pub fn limited_silu(x: f32) -> f32 {
    let x = if x > 7.0 { 7.0 } else { x };
    x / (1.0 + exp(-1.702 * x))
}

/// Returns x^2 where x is above 0, and 0 where it is below, settled ([`settle`]).
#[inline]
pub fn squared_relu(x: f32) -> f32 {
    // The comparison keeps NaN.
    let above = if x < 0.0 { 0.0 } else { x };
    settle(above * above)
}

/// Returns (e^r - 1 - r) / r^2.
#[inline]
pub(super) fn exp_polynomial(r: f32) -> f32 {
    let mut p = 1.987_569_1e-4_f32;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p * r + 0.5
}

/// Returns the tanh form of GELU, x / (1 + e^(x (a + b x^2))) with `a = -2 sqrt(2 / pi)` and `b = 0.044715 a`. It
/// equals `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`. (Hendrycks and Gimpel, "Gaussian Error Linear Units",
/// 2016.)
#[inline]
pub fn gelu_tanh(x: f32) -> f32 {
    x / (1.0 + exp(x * (-1.595_769_2 + -0.071_354_814 * (x * x))))
}

/// Returns GELU, `x / 2 (1 + erf(x / sqrt(2)))`. Let h be half the complementary error function of |x| / sqrt(2). For x
/// < 0 the result is x h, otherwise x - |x| h. It is settled ([`settle`]). (The relative error of the complementary
/// error function is 1.2e-7 before rounding: Press et al., "Numerical Recipes in C", 2nd edition, 6.2, `erfcc`.)
#[inline]
pub fn gelu_erf(x: f32) -> f32 {
    const COEFFICIENTS: [f32; 9] = [
        -0.822_152_2,
        1.488_515_9,
        -1.135_204,
        0.278_868_08,
        -0.186_288_06,
        0.096_784_18,
        0.374_091_96,
        1.000_023_7,
        -1.265_512_2,
    ];
    let z = abs(x) * core::f32::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * z);
    let p = COEFFICIENTS.into_iter().fold(0.170_872_77_f32, |p, c| p * t + c);
    let tail = (0.5 * abs(x)) * (t * exp(p - z * z));
    // 0.5 * infinity * 0 would be NaN.
    let tail = if z > 20.0 { 0.0 } else { tail };
    settle(if x < 0.0 { -tail } else { x - tail })
}

/// Returns the hyperbolic tangent: a polynomial below 0.625 (Cephes `tanhf`), `1 - 2 / (e^2|x| + 1)` above.
#[inline]
pub fn tanh(x: f32) -> f32 {
    let (square, magnitude) = (x * x, abs(x));
    let mut p = -5.704_988_7e-3_f32;
    p = p * square + 2.063_909e-2;
    p = p * square + -5.373_971_6e-2;
    p = p * square + 1.333_144_2e-1;
    p = p * square + -3.333_328e-1;
    let small = (p * square) * x + x;
    let large = 1.0 - 2.0 / (exp(2.0 * magnitude) + 1.0);
    let large = if x < 0.0 { -large } else { large };
    if magnitude < 0.625 { small } else { large }
}

/// Returns `x` rounded to 13 significant bits (Veltkamp's splitting: Dekker, "A floating-point technique for extending
/// the available precision", 1971). Its product with any f16 is exact in f32. The result is +0 below 2^-50 in
/// magnitude, as for [`settle`], and NaN from 2^100 on.
#[inline]
pub fn short(x: f32) -> f32 {
    const HUGE: f32 = f32::from_bits(0x7180_0000);
    let magnitude = x.to_bits() & 0x7fff_ffff;
    let split = x * SHORT_SPLIT;
    let rounded = split - (split - x);
    let rounded = if magnitude < SETTLED_MIN.to_bits() { 0.0 } else { rounded };
    if magnitude >= HUGE.to_bits() { f32::NAN } else { rounded }
}

/// 2^11 + 1, which splits off 11 of 24 bits.
pub(crate) const SHORT_SPLIT: f32 = 2049.0;

/// Returns the magnitude, by clearing the sign bit.
#[inline]
fn abs(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0x7fff_ffff)
}

/// Returns the correctly rounded square root.
#[inline]
pub fn sqrt(x: f32) -> f32 {
    libm::sqrtf(x)
}

/// Returns whether `x` is neither infinite nor NaN, decided on the bits.
#[inline]
pub fn is_finite(x: f32) -> bool {
    x.to_bits() & 0x7fff_ffff < 0x7f80_0000
}

/// Returns whether no element is infinite or NaN. It looks at all elements, several at a time.
pub fn all_finite(x: &[f32]) -> bool {
    // The top bit becomes 1 if the exponent is the largest.
    x.iter().fold(0, |any, x| any | ((x.to_bits() & 0x7fff_ffff) + 0x0080_0000)) >> 31 == 0
}

/// Returns the sum of 16 lanes by the fixed tree: lanes i and i + 8, then i and i + 4, i and i + 2, 0 and 1.
#[inline]
pub fn tree16(lanes: [f32; 16]) -> f32 {
    let [a0, a1, a2, a3, a4, a5, a6, a7, b0, b1, b2, b3, b4, b5, b6, b7] = lanes;
    let [c0, c1, c2, c3] = [(a0 + b0) + (a4 + b4), (a1 + b1) + (a5 + b5), (a2 + b2) + (a6 + b6), (a3 + b3) + (a7 + b7)];
    (c0 + c2) + (c1 + c3)
}

/// Returns the canonical float sum: `value(a, b)` of each pair is added to lane `index mod 16` in increasing order,
/// starting from +0, and the lanes are summed by [`tree16`]. The slices are equally long.
// Kernels have it with their own instructions.
#[inline(always)]
pub fn sum_lanes<A: Copy, B: Copy>(a: &[A], b: &[B], value: impl Fn(A, B) -> f32) -> f32 {
    let mut lanes = [0.0_f32; 16];
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a.iter().zip(b) {
        for ((lane, &a), &b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += value(a, b);
        }
    }
    for ((lane, &a), &b) in lanes.iter_mut().zip(a_tail).zip(b_tail) {
        *lane += value(a, b);
    }
    tree16(lanes)
}

/// Replaces logits by their softmax, settled ([`settle`]). The exponentials of the differences from the largest logit
/// are divided by their sum, which is added up in order.
pub(crate) fn softmax(logits: &mut [f32]) {
    let max = logits.iter().fold(f32::NEG_INFINITY, |max, &logit| if logit > max { logit } else { max });
    let mut sum = 0.0;
    for logit in logits.iter_mut() {
        *logit = exp(*logit - max);
        sum += *logit;
    }
    logits.iter_mut().for_each(|logit| *logit = settle(*logit / sum));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate_and_clamped() {
        let mut worst = 0.0_f64;
        for i in -870_000..880_000 {
            let x = i as f32 * 1e-4;
            let want = (f64::from(x)).exp();
            let got = f64::from(exp(x));
            // Results below the normal range are rounded to the subnormal grid.
            if want > 1.2e-38 {
                worst = worst.max(((got - want) / want).abs());
            }
        }
        assert!(worst < 2e-7, "{worst}");
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1e9).to_bits(), 0);
        assert_eq!(exp(1e9), f32::INFINITY);
        assert!(exp(f32::NAN).is_nan());
        assert_eq!(silu(-1e4), -0.0);
    }

    #[test]
    fn one_of_many_that_is_not_finite_is_found() {
        let finite = [0.0, -0.0, f32::MAX, f32::MIN, f32::MIN_POSITIVE, f32::from_bits(1)];
        let many: [f32; 101] = core::array::from_fn(|i| finite[i % finite.len()]);
        assert!(all_finite(&many) && all_finite(&[]));
        for other in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
            for place in 0..many.len() {
                let mut many = many;
                many[place] = other;
                assert!(!all_finite(&many), "{other} at {place}");
            }
        }
    }

    #[test]
    fn softplus_is_accurate() {
        for i in -1_000_000..1_000_000 {
            let x = i as f32 * 1e-4;
            let want = f64::from(x).exp().ln_1p();
            let error = (f64::from(softplus(x)) - want).abs();
            let settled = want < f64::from(SETTLED_MIN) && softplus(x).to_bits() == 0;
            assert!(settled || error <= 3e-7 * want, "{x}: {}, not {want}", softplus(x));
        }
        assert_eq!([-1e9, 1e9, f32::INFINITY].map(softplus), [0.0, 1e9, f32::INFINITY]);
        assert!(softplus(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan());
        assert_eq!([-1e9, -80.1, 0.0, 1e9].map(sigmoid), [0.0, 0.0, 0.5, 1.0]);
        assert!((sigmoid(-80.0) - 1.804_851_4e-35).abs() < 1e-41);
    }

    #[test]
    fn settled_numbers_have_normal_products() {
        assert_eq!(SETTLED_MIN, 2.0_f32.powi(-50));
        let most = f32::from_bits(SETTLED_MIN.to_bits() - 1);
        assert_eq!([most, -most, -0.0, 1e-40].map(|x| settle(x).to_bits()), [0; 4]);
        assert_eq!([SETTLED_MIN, -SETTLED_MIN, 3.0].map(settle), [SETTLED_MIN, -SETTLED_MIN, 3.0]);
        assert!(settle(f32::NAN).is_nan());
    }

    #[test]
    fn weights_begin_above_two_to_minus_40() {
        assert_eq!([0.0, -1.0, -20.5, WEIGHT_MIN].map(weight), [0.0, -1.0, -20.5, WEIGHT_MIN].map(exp));
        assert!(weight(WEIGHT_MIN) > 2.0_f32.powi(-40) && weight(f32::NAN).is_nan());
        assert_eq!([-27.500_002, -87.0, f32::NEG_INFINITY].map(|x| weight(x).to_bits()), [0; 3]);
    }

    #[test]
    fn activations_are_accurate() {
        for i in -100_000..100_000 {
            let x = i as f32 * 1e-4;
            let wide = f64::from(x);
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (wide + 0.044715 * wide.powi(3));
            for (name, got, want) in [
                ("tanh", tanh(x), wide.tanh()),
                ("gelu_tanh", gelu_tanh(x), 0.5 * wide * (1.0 + inner.tanh())),
                ("gelu_erf", gelu_erf(x), 0.5 * wide * libm::erfc(-wide / 2f64.sqrt())),
                ("sigmoid", sigmoid(x), 1.0 / (1.0 + (-wide).exp())),
                ("limited_silu", limited_silu(x), wide.min(7.0) / (1.0 + (-1.702 * wide.min(7.0)).exp())),
                ("squared_relu", squared_relu(x), wide.max(0.0).powi(2)),
            ] {
                let error = (f64::from(got) - want).abs();
                assert!(error <= 3e-7 * want.abs().max(0.25), "{name} of {x}: {got}, not {want}");
            }
        }
        for function in [limited, limited_silu, squared_relu] {
            assert!(function(f32::NAN).is_nan());
        }
        assert_eq!([-8.0, -7.0, 0.5, 7.5].map(limited), [-7.0, -7.0, 0.5, 7.0]);
        assert_eq!([-1e9, -0.0, 3.0].map(squared_relu), [0.0, 0.0, 9.0]);
        for function in [gelu_tanh, gelu_erf] {
            assert_eq!([0.0, -1e9, 1e9, f32::INFINITY].map(function), [0.0, -0.0, 1e9, f32::INFINITY]);
            assert!(function(f32::NAN).is_nan());
        }
        assert_eq!([0.0, -1e9, 1e9, f32::NEG_INFINITY].map(tanh), [0.0, -1.0, 1.0, -1.0]);
        assert!(tanh(f32::NAN).is_nan());
    }

    /// Checks all mantissas, with the smallest and the largest exponent and two in between.
    #[test]
    fn short_numbers_have_exact_products() {
        let bits = |exponent: i32, mantissa: u32| f32::from_bits(((exponent + 127) as u32) << 23 | mantissa);
        for mantissa in 0..1 << 23 {
            for exponent in [-50, -1, 0, 99] {
                let x = bits(exponent, mantissa);
                let rounded = short(x);
                let reach = (1 << 23) - (1 << 10);
                assert!(rounded.to_bits().trailing_zeros() >= 11, "{x}");
                assert!((rounded - x).abs() <= bits(exponent, 0) * f32::from_bits(0x3900_0000), "{x}");
                assert!(exponent < 99 || mantissa >= reach || rounded < f32::from_bits(0x7180_0000));
                assert_eq!(short(-x), -rounded);
            }
        }
        // The extremes of f16: 2^-24, which is subnormal, 2^-14 with all mantissa bits, and the largest.
        for half in [f32::from_bits(0x3380_0000), f32::from_bits(0x38ff_e000), 65_504.0] {
            for x in [SETTLED_MIN, short(1.999_9 * SETTLED_MIN), short(1.234_567), f32::from_bits(0x717f_f800)] {
                assert_eq!(f64::from(half * x), f64::from(half) * f64::from(x), "{half} {x}");
            }
        }
        let huge = f32::from_bits(0x7180_0000);
        assert_eq!([0.0, -0.0, SETTLED_MIN * 0.999, -1e-40].map(|x| short(x).to_bits()), [0; 4]);
        assert!([huge, -huge, f32::MAX, f32::INFINITY, f32::NAN].into_iter().all(|x| short(x).is_nan()));
    }

    #[test]
    fn rounding_is_half_to_even() {
        for (x, want) in [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, 0.0), (-1.5, -2.0), (126.5, 126.0), (127.4, 127.0)]
        {
            assert_eq!(round_half_even(x), want, "{x}");
        }
    }

    #[test]
    fn the_tree_is_the_documented_one() {
        let lanes: [f32; 16] = core::array::from_fn(|i| 1.0 + (i as f32) * 1e-7 * 3f32.powi(i as i32));
        let mut v = lanes.to_vec();
        while v.len() > 1 {
            let half = v.len() / 2;
            v = (0..half).map(|i| v[i] + v[i + half]).collect();
        }
        assert_eq!(tree16(lanes).to_bits(), v[0].to_bits());
    }
}
