//! Writes the bytes of the formats with codebooks. `src/quant` describes them.

use std::sync::LazyLock;

use gleed::tensor::Dtype;
use half::f16;

use super::lattice::{Block, Format, Lattice, Signs};
use super::legacy::put;

/// Returns the search for a format, or `None` if this build does not know the format or it has no codebook.
pub(super) fn lattice(dtype: Dtype) -> Option<&'static Lattice> {
    static ALL: LazyLock<Vec<(Dtype, Lattice)>> = LazyLock::new(|| {
        FORMATS.into_iter().filter_map(|format| Some((format.dtype, Lattice::new(format)?))).collect()
    });
    ALL.iter().find(|(known, _)| *known == dtype).map(|(_, lattice)| lattice)
}

const IQ2: Format = Format {
    dtype: Dtype::IQ2_XXS,
    sub_len: 32,
    entry_len: 8,
    entries: 256,
    signs: Signs::Even,
    top: 15,
    divisor: 8.0,
    ends: &[0.75, 0.87, 1.0, 1.13, 1.28, 1.5],
    write: iq2_xxs,
};

const IQ1: Format = Format {
    dtype: Dtype::IQ1_S,
    entries: 2048,
    signs: Signs::OfDelta,
    top: 7,
    ends: &[1.0, 1.25, 1.5, 1.8, 2.15, 2.6],
    write: iq1_s,
    ..IQ2
};

const IQ3: Format = Format { dtype: Dtype::IQ3_XXS, entry_len: 4, divisor: 4.0, write: iq3_xxs, ..IQ2 };

const FORMATS: [Format; 7] = [
    IQ2,
    Format { dtype: Dtype::IQ2_XS, sub_len: 16, entries: 512, write: iq2_xs, ..IQ2 },
    Format { dtype: Dtype::IQ2_S, sub_len: 16, entries: 1024, signs: Signs::Any, write: iq2_s, ..IQ2 },
    IQ3,
    Format { dtype: Dtype::IQ3_S, entries: 512, signs: Signs::Any, divisor: 1.0, write: iq3_s, ..IQ3 },
    IQ1,
    Format { dtype: Dtype::IQ1_M, sub_len: 16, write: iq1_m, ..IQ1 },
];

fn iq2_xxs(block: &Block, out: &mut [u8]) {
    put(out, 0, block.scale);
    let groups = block.indices.as_chunks::<4>().0.iter().zip(sub_words(block));
    for (out, (indices, word)) in out[2..].chunks_mut(8).zip(groups) {
        out[..4].copy_from_slice(&indices.map(|index| index as u8));
        out[4..].copy_from_slice(&word.to_le_bytes());
    }
}

fn iq2_xs(block: &Block, out: &mut [u8]) {
    put(out, 0, block.scale);
    for (out, (index, signs)) in out[2..66].chunks_mut(2).zip(block.indices.iter().zip(block.signs)) {
        out.copy_from_slice(&(index | u16::from(signs & 0x7f) << 9).to_le_bytes());
    }
    put_pairs(&mut out[66..], &block.subs);
}

fn iq2_s(block: &Block, out: &mut [u8]) {
    put(out, 0, block.scale);
    put_low(&mut out[2..34], &block.indices);
    out[34..66].copy_from_slice(&block.signs);
    for (out, indices) in out[66..74].iter_mut().zip(block.indices.as_chunks::<4>().0) {
        *out = (0..4).fold(0, |bits, j| bits | ((indices[j] >> 8) as u8) << (2 * j));
    }
    put_pairs(&mut out[74..], &block.subs);
}

fn iq3_xxs(block: &Block, out: &mut [u8]) {
    put(out, 0, block.scale);
    put_low(&mut out[2..66], &block.indices);
    for (out, word) in out[66..].chunks_mut(4).zip(sub_words(block)) {
        out.copy_from_slice(&word.to_le_bytes());
    }
}

fn iq3_s(block: &Block, out: &mut [u8]) {
    put(out, 0, block.scale);
    put_low(&mut out[2..66], &block.indices);
    for (out, indices) in out[66..74].iter_mut().zip(block.indices.as_chunks::<8>().0) {
        *out = (0..8).fold(0, |bits, j| bits | ((indices[j] >> 8) as u8) << j);
    }
    out[74..106].copy_from_slice(&block.signs);
    put_pairs(&mut out[106..], &block.subs);
}

fn iq1_s(block: &Block, out: &mut [u8]) {
    put(out, 0, block.scale);
    put_low(&mut out[2..34], &block.indices);
    let subs = block.indices.as_chunks::<4>().0.iter().zip(block.signs.as_chunks::<4>().0).zip(block.subs);
    for (out, ((indices, signs), sub)) in out[34..].chunks_mut(2).zip(subs) {
        let high = (0..4).fold(0, |bits, j| bits | (indices[j] >> 8) << (3 * j));
        out.copy_from_slice(&(high | u16::from(sub) << 12 | u16::from(signs[0]) << 15).to_le_bytes());
    }
}

fn iq1_m(block: &Block, out: &mut [u8]) {
    put_low(&mut out[..32], &block.indices);
    let pairs = block.indices.as_chunks::<2>().0.iter().zip(block.signs.as_chunks::<2>().0);
    for (out, (indices, signs)) in out[32..48].iter_mut().zip(pairs) {
        let nibble = |j: usize| (indices[j] >> 8) as u8 | signs[j] << 3;
        *out = nibble(0) | nibble(1) << 4;
    }
    let scale = f16::from_f32(block.scale).to_bits();
    for (i, (out, subs)) in out[48..].chunks_mut(2).zip(block.subs.as_chunks::<4>().0).enumerate() {
        let subs = (0..4).fold(0, |bits, j| bits | u16::from(subs[j]) << (3 * j));
        out.copy_from_slice(&(subs | (scale >> (4 * i) & 15) << 12).to_le_bytes());
    }
}

/// Returns a word for each sub-block of 32: the four indices of signs, and the sub-scale above them.
fn sub_words(block: &Block) -> impl Iterator<Item = u32> {
    let subs = block.signs.as_chunks::<4>().0.iter().zip(block.subs);
    // The sign of the last element of 8 follows from the others.
    subs.map(|(signs, sub)| (0..4).fold(u32::from(sub) << 28, |word, j| word | u32::from(signs[j] & 0x7f) << (7 * j)))
}

/// Writes the lower 8 bits of the indices.
fn put_low(out: &mut [u8], indices: &[u16]) {
    out.iter_mut().zip(indices).for_each(|(out, index)| *out = *index as u8);
}

/// Writes sub-scales, two in a byte, the first in the low nibble.
fn put_pairs(out: &mut [u8], subs: &[u8; 16]) {
    out.iter_mut().zip(subs.as_chunks::<2>().0).for_each(|(out, [low, high])| *out = low | high << 4);
}
