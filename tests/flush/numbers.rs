//! Numbers that are hard for a machine that flushes: subnormal ones, and numbers near a bound of the arithmetic.
// Each of two tests uses only a part of this module.
#![allow(dead_code)]

use crate::random::Rng;

/// Exponents of present and past bounds of the arithmetic, of products of these, and of the smallest normal number.
const BOUNDS: [i32; 10] = [-126, -125, -100, -76, -64, -63, -51, -50, -40, -25];

/// Returns 2^exponent for exponents down to -149.
pub(crate) fn power(exponent: i32) -> f32 {
    2.0_f64.powi(exponent) as f32
}

/// Returns a number of one of several kinds, most often a small one.
pub(crate) fn hard(rng: &mut Rng) -> f32 {
    let magnitude = match rng.below(8) {
        0 => 0,
        1 => rng.below(1 << 23) as u32,
        2 | 3 => power(BOUNDS[rng.below(BOUNDS.len())]).to_bits() + rng.below(5) as u32 - 2,
        4 => ((1 + rng.below(120)) << 23 | rng.below(1 << 23)) as u32,
        5 => power(-126 - rng.below(24) as i32).to_bits(),
        _ => rng.normal().abs().to_bits(),
    };
    f32::from_bits(magnitude | (rng.below(2) as u32) << 31)
}

/// Returns a row of numbers: ordinary ones, only hard ones, a mixture of both, or ordinary ones far away from 1.
pub(crate) fn row(rng: &mut Rng, len: usize) -> Vec<f32> {
    let (kind, scale) = (rng.below(5), power(-(rng.below(150) as i32)));
    let number = |rng: &mut Rng| match kind {
        0 => rng.normal(),
        1 => hard(rng),
        2 if rng.below(4) == 0 => hard(rng),
        2 => rng.normal(),
        3 => rng.normal() * scale,
        _ if rng.below(16) == 0 => rng.normal() * 1e12,
        _ => hard(rng),
    };
    (0..len).map(|_| number(rng)).collect()
}

/// Returns the bytes of numbers.
pub(crate) fn bytes(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}
