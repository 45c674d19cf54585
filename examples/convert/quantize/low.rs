//! Q1_0, Q2_0, TQ1_0 and TQ2_0: codes of 1 and 2 bits, and ternary ones.

use super::grid::{self, Elements, Grid, Integers, LANES};
use super::legacy::put;

/// The integers from `LOW` to `HIGH`. They are so few that extreme elements are best clamped: the search maps them to
/// around `END` and -`END`, which are in tenths of a code.
struct Few<const LOW: i32, const HIGH: i32, const END: i32>;

impl<const LOW: i32, const HIGH: i32, const END: i32> Grid for Few<LOW, HIGH, END> {
    const ENDS: [f32; 2] = [END as f32 * 0.1, END as f32 * -0.1];
    const SLACK: f32 = END as f32 * 0.08;

    #[inline(always)]
    fn nearest(x: [f32; LANES]) -> [f32; LANES] {
        Integers::<LOW, HIGH>::nearest(x)
    }
}

/// Writes the block of 128 elements.
pub(super) fn q1_0(x: Elements<'_>, out: &mut [u8]) {
    // With one magnitude for all, the best one is the weighted mean of the elements' magnitudes.
    let sum: f64 = x.each().map(|(x, w)| f64::from(x.abs()) * f64::from(w)).sum();
    let weights: f64 = x.w.iter().copied().map(f64::from).sum();
    put(out, 0, (sum / weights) as f32);
    for (out, x) in out[2..].iter_mut().zip(x.x.as_chunks::<8>().0) {
        *out = x.iter().enumerate().fold(0, |bits, (i, x)| bits | u8::from(*x >= 0.0) << i);
    }
}

/// Writes the block of 64 elements.
pub(super) fn q2_0(x: Elements<'_>, out: &mut [u8]) {
    let (scale, codes) = scaled::<Few<-1, 2, 30>, 64>(x);
    put(out, 0, scale);
    for (out, codes) in out[2..].iter_mut().zip(codes.as_chunks::<4>().0) {
        *out = codes.iter().enumerate().fold(0, |bits, (i, code)| bits | code << (2 * i));
    }
}

/// Writes the block of 256 elements.
pub(super) fn tq1_0(x: Elements<'_>, out: &mut [u8]) {
    let (scale, digits) = scaled::<Few<-1, 1, 25>, 256>(x);
    // Range of bytes, number of elements from one digit to the next, and index of the first element.
    for (bytes, step, first) in [(0..32, 32, 0), (32..48, 16, 160), (48..52, 4, 240)] {
        for (m, out) in out[bytes].iter_mut().enumerate() {
            let digit = |n: usize| if step == 4 && n == 4 { 0 } else { u16::from(digits[first + step * n + m]) };
            let number = (0..5).fold(0, |number, n| 3 * number + digit(n));
            // The fraction number / 3^5 in 256ths, rounded up, so that multiplications give the digits.
            *out = (number * 256).div_ceil(243) as u8;
        }
    }
    put(out, 52, scale);
}

/// Writes the block of 256 elements.
pub(super) fn tq2_0(x: Elements<'_>, out: &mut [u8]) {
    let (scale, codes) = scaled::<Few<-1, 1, 25>, 256>(x);
    for (out, codes) in out.chunks_mut(32).zip(codes.as_chunks::<128>().0) {
        for (i, out) in out.iter_mut().enumerate() {
            *out = (0..4).fold(0, |bits, j| bits | codes[32 * j + i] << (2 * j));
        }
    }
    put(out, 64, scale);
}

/// Returns the scale, and the codes plus 1.
fn scaled<G: Grid, const LEN: usize>(x: Elements<'_>) -> (f32, [u8; LEN]) {
    let scale = grid::best_f16::<G>(x, grid::best_scale::<G>(x), 1);
    let mut codes = [0; LEN];
    grid::codes::<G>(x.x, scale, 0.0, &mut codes);
    (scale, codes.map(|code| (code + 1) as u8))
}
