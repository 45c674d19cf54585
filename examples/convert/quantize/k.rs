//! Q2_K, Q3_K, Q4_K, Q5_K and Q6_K: super-blocks of 256 elements. `src/quant` describes the bytes.

use super::grid::{Elements, Integers};
use super::legacy::put;
use super::sub_scales::{scaled, with_mins};

/// Writes the super-block of 256 elements.
pub(super) fn q2_k(x: Elements<'_>, out: &mut [u8]) {
    let block = with_mins::<3, 16, 15>(x);
    for (out, (sub, min)) in out.iter_mut().zip(block.subs.iter().zip(block.sub_mins)) {
        *out = sub | min << 4;
    }
    put_bits(&mut out[16..80], 32, 2, |element| block.codes[element]);
    put(out, 80, block.scale);
    put(out, 82, block.min);
}

/// Writes the super-block of 256 elements.
pub(super) fn q3_k(x: Elements<'_>, out: &mut [u8]) {
    let block = scaled::<Integers<-4, 3>, 16, -32>(x);
    let code = |element: usize| (block.codes[element] + 4) as u8;
    put_bits(&mut out[..32], 32, 1, |element| code(element) >> 2);
    put_bits(&mut out[32..96], 32, 2, |element| code(element) & 3);
    let sub = |j: usize| (block.subs[j] + 32) as u8;
    for j in 0..8 {
        out[96 + j] = sub(j) & 15 | (sub(j + 8) & 15) << 4;
    }
    for i in 0..4 {
        out[104 + i] = (0..4).fold(0, |byte, j| byte | (sub(4 * j + i) >> 4) << (2 * j));
    }
    put(out, 108, block.scale);
}

/// Writes the super-block of 256 elements.
pub(super) fn q4_k(x: Elements<'_>, out: &mut [u8]) {
    let block = with_mins::<15, 8, 63>(x);
    put(out, 0, block.scale);
    put(out, 2, block.min);
    put_six_bits(&mut out[4..16], &block.subs, &block.sub_mins);
    put_bits(&mut out[16..144], 32, 4, |element| block.codes[element]);
}

/// Writes the super-block of 256 elements.
pub(super) fn q5_k(x: Elements<'_>, out: &mut [u8]) {
    let block = with_mins::<31, 8, 63>(x);
    put(out, 0, block.scale);
    put(out, 2, block.min);
    put_six_bits(&mut out[4..16], &block.subs, &block.sub_mins);
    put_bits(&mut out[16..48], 32, 1, |element| block.codes[element] >> 4);
    put_bits(&mut out[48..176], 32, 4, |element| block.codes[element] & 15);
}

/// Writes the super-block of 256 elements.
pub(super) fn q6_k(x: Elements<'_>, out: &mut [u8]) {
    let block = scaled::<Integers<-32, 31>, 16, -128>(x);
    let code = |element: usize| (block.codes[element] + 32) as u8;
    put_bits(&mut out[..128], 64, 4, |element| code(element) & 15);
    put_bits(&mut out[128..192], 32, 2, |element| code(element) >> 4);
    out[192..208].copy_from_slice(&block.subs.map(|sub| sub as u8));
    put(out, 208, block.scale);
}

/// Writes codes of `bits` bits: `run` elements in the lowest bits of `run` bytes, and the next ones in the bits above,
/// until the bytes are full.
fn put_bits(out: &mut [u8], run: usize, bits: usize, code: impl Fn(usize) -> u8) {
    let per_byte = 256 / out.len();
    debug_assert_eq!(per_byte * bits, 8);
    for (first, out) in out.chunks_mut(run).enumerate() {
        for (i, out) in out.iter_mut().enumerate() {
            let element = |part: usize| (first * per_byte + part) * run + i;
            *out = (0..per_byte).fold(0, |byte, part| byte | code(element(part)) << (part * bits));
        }
    }
}

/// Writes the sub-scales and sub-minima of Q4_K and Q5_K.
fn put_six_bits(out: &mut [u8], subs: &[u8; 8], mins: &[u8; 8]) {
    for j in 0..4 {
        out[j] = subs[j] | (subs[j + 4] >> 4) << 6;
        out[j + 4] = mins[j] | (mins[j + 4] >> 4) << 6;
        out[j + 8] = subs[j + 4] & 15 | (mins[j + 4] & 15) << 4;
    }
}
