//! MXFP4 and NVFP4: floats of 4 bits with scales of 8 bits.

use super::grid::{self, Elements};
use super::legacy::put_nibbles;

/// Twice the magnitudes of the floats.
const VALUES: [f32; 8] = [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0];

/// Writes the block of 32 elements.
pub(super) fn mxfp4(x: Elements<'_>, out: &mut [u8]) {
    let largest = x.extreme().abs();
    // Try the exponent with which the largest element is 8 to 16 times the scale, and the ones above and below it.
    let exponent = (largest.to_bits() >> 23) as i32 - 2;
    let near = (exponent - 1..=exponent + 1).map(|exponent| exponent.clamp(0, 254));
    let scale = |exponent: i32| (f64::from(exponent) - 128.0).exp2() as f32;
    let exponent = grid::least(near, |&exponent| error(x, scale(exponent))).unwrap_or(0);
    out[0] = exponent as u8;
    let codes = std::array::from_fn(|i| code(x.x[i], scale(exponent)));
    put_nibbles(&mut out[1..], &codes);
}

/// Writes the block of 64 elements.
pub(super) fn nvfp4(x: Elements<'_>, out: &mut [u8]) {
    let (scales, codes) = out.split_at_mut(4);
    for ((x, scale), codes) in x.parts(16).zip(scales).zip(codes.chunks_mut(8)) {
        let largest = x.extreme().abs();
        // Numbers increase with their bits. Try the first scale that the largest element fits, and some around it.
        let fits = (0..0x7f).find(|&bits| 12.0 * half_e4m3(bits) >= largest).unwrap_or(0x7e);
        let near = fits.saturating_sub(8)..=(fits + 8).min(0x7e);
        *scale = grid::least(near, |&bits| error(x, half_e4m3(bits))).unwrap_or(0);
        for (i, byte) in codes.iter_mut().enumerate() {
            *byte = code(x.x[i], half_e4m3(*scale)) | code(x.x[i + 8], half_e4m3(*scale)) << 4;
        }
    }
}

/// Returns half the value of an 8-bit number without sign.
fn half_e4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(bits >> 3), f32::from(bits & 7));
    if exponent == 0 { mantissa * 2.0_f32.powi(-10) } else { (8.0 + mantissa) * 2.0_f32.powi(exponent - 11) }
}

/// Returns the code of the float nearest to an element, with the sign in bit 3. Zero has no sign.
fn code(x: f32, scale: f32) -> u8 {
    let magnitude = if scale == 0.0 { 0.0 } else { (x / scale).abs() };
    let code = VALUES.windows(2).take_while(|pair| magnitude > (pair[0] + pair[1]) / 2.0).count() as u8;
    if x < 0.0 && code > 0 { code | 8 } else { code }
}

/// Returns the weighted squared error.
fn error(x: Elements<'_>, scale: f32) -> f32 {
    x.each().map(|(x, w)| w * (x.abs() - VALUES[usize::from(code(x, scale) & 7)] * scale).powi(2)).sum()
}
