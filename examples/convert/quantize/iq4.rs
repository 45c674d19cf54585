//! IQ4_NL and IQ4_XS: 4-bit indices into a table of values that lie closer to each other around zero.

use super::grid::{Elements, Grid, LANES};
use super::legacy::{put, put_nibbles, scaled as scaled_32};
use super::sub_scales::scaled;

const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The values of the table.
struct Table;

impl Grid for Table {
    const ENDS: [f32; 2] = [-127.0, 113.0];
    const SLACK: f32 = 16.0;

    #[inline(always)]
    fn nearest(x: [f32; LANES]) -> [f32; LANES] {
        let mut values = [f32::from(VALUES[0]); LANES];
        for [middle, step] in STEPS {
            for (value, x) in values.iter_mut().zip(x) {
                *value += if x > middle { step } else { 0.0 };
            }
        }
        values
    }
}

/// Middle and difference of each two neighbouring values of the table.
const STEPS: [[f32; 2]; 15] = {
    let mut steps = [[0.0; 2]; 15];
    let mut i = 0;
    while i < 15 {
        let [low, high] = [VALUES[i] as f32, VALUES[i + 1] as f32];
        steps[i] = [0.5 * (low + high), high - low];
        i += 1;
    }
    steps
};

/// Writes the block of 32 elements.
pub(super) fn iq4_nl(x: Elements<'_>, out: &mut [u8]) {
    let (scale, values) = scaled_32::<Table>(x);
    put(out, 0, scale);
    put_nibbles(&mut out[2..], &values.map(index));
}

/// Writes the super-block of 256 elements.
pub(super) fn iq4_xs(x: Elements<'_>, out: &mut [u8]) {
    let block = scaled::<Table, 8, -32>(x);
    let subs = block.subs.map(|sub| (sub + 32) as u8);
    put(out, 0, block.scale);
    let high = subs.iter().enumerate().fold(0_u16, |high, (j, sub)| high | u16::from(sub >> 4) << (2 * j));
    out[2..4].copy_from_slice(&high.to_le_bytes());
    for (out, pair) in out[4..8].iter_mut().zip(subs.as_chunks::<2>().0) {
        *out = pair[0] & 15 | pair[1] << 4;
    }
    for (out, values) in out[8..].chunks_mut(16).zip(block.codes.as_chunks::<32>().0) {
        put_nibbles(out, &values.map(index));
    }
}

/// Returns the index of a value in the table.
fn index(value: i8) -> u8 {
    VALUES.iter().position(|&known| known == value).unwrap_or(8) as u8
}
