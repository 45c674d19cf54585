//! Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0: blocks of 32 elements with a scale of their own.

use half::f16;

use super::grid::{self, Codes, Elements, Grid, Integers};

/// Writes the block of 32 elements.
pub(super) fn q4_0(x: Elements<'_>, out: &mut [u8]) {
    let (scale, codes) = scaled::<Integers<-8, 7>>(x);
    put(out, 0, scale);
    put_nibbles(&mut out[2..], &codes.map(|code| (code + 8) as u8));
}

/// Writes the block of 32 elements.
pub(super) fn q4_1(x: Elements<'_>, out: &mut [u8]) {
    let (scale, min, codes) = with_min::<15>(x);
    put(out, 0, scale);
    put(out, 2, min);
    put_nibbles(&mut out[4..], &codes);
}

/// Writes the block of 32 elements.
pub(super) fn q5_0(x: Elements<'_>, out: &mut [u8]) {
    let (scale, codes) = scaled::<Integers<-16, 15>>(x);
    put(out, 0, scale);
    put_five_bits(&mut out[2..], &codes.map(|code| (code + 16) as u8));
}

/// Writes the block of 32 elements.
pub(super) fn q5_1(x: Elements<'_>, out: &mut [u8]) {
    let (scale, min, codes) = with_min::<31>(x);
    put(out, 0, scale);
    put(out, 2, min);
    put_five_bits(&mut out[4..], &codes);
}

/// Writes the block of 32 elements.
pub(super) fn q8_0(x: Elements<'_>, out: &mut [u8]) {
    type G = Integers<-127, 127>;
    let largest = x.extreme().abs();
    // There are so many codes that the sums of the search are not exact enough, so compare the errors themselves.
    let scale = grid::best_f16::<G>(x, largest / 127.0, 8);
    let mut codes = [0; 32];
    grid::codes::<G>(x.x, scale, 0.0, &mut codes);
    put(out, 0, scale);
    out[2..].copy_from_slice(&codes.map(|code| code as u8));
}

/// Writes a scale as f16.
pub(super) fn put(out: &mut [u8], at: usize, scale: f32) {
    out[at..at + 2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
}

/// Writes codes of 4 bits: element i in the low nibble of byte i, element i + 16 in the high one.
pub(super) fn put_nibbles(out: &mut [u8], codes: &[u8; 32]) {
    for (i, out) in out.iter_mut().take(16).enumerate() {
        *out = codes[i] & 15 | codes[i + 16] << 4;
    }
}

fn put_five_bits(out: &mut [u8], codes: &[u8; 32]) {
    let high = codes.iter().enumerate().fold(0_u32, |high, (i, code)| high | u32::from(code >> 4) << i);
    out[..4].copy_from_slice(&high.to_le_bytes());
    put_nibbles(&mut out[4..], codes);
}

/// Returns scale and codes of a block.
pub(super) fn scaled<G: Grid>(x: Elements<'_>) -> (f32, [i8; 32]) {
    let scale = grid::best_f16::<G>(x, grid::best_scale::<G>(x), 1);
    let mut codes = [0; 32];
    grid::codes::<G>(x.x, scale, 0.0, &mut codes);
    (scale, codes)
}

/// Returns scale, minimum and codes of a block.
fn with_min<const HIGH: i32>(x: Elements<'_>) -> (f32, f32, [u8; 32]) {
    let [scale, min] = grid::best_scale_and_min::<HIGH>(x, false).map(grid::rounded);
    // The minimum was rounded. Another scale may make up for that.
    let near = [-2, -1, 0, 1, 2].map(|step| f16::from_bits(f16::from_f32(scale).to_bits().saturating_add_signed(step)));
    let near = near.map(f16::to_f32).into_iter().filter(|near| near.is_finite());
    let scale = grid::least(near, |&near| grid::error_with_min::<Codes<HIGH>>(x, near, min)).unwrap_or(0.0);
    let mut codes = [0; 32];
    grid::codes::<Codes<HIGH>>(x.x, scale, min, &mut codes);
    (scale, min, codes.map(|code| code as u8))
}
