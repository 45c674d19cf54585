//! Random weights of all types.

use gleed::tensor::Dtype;
use half::{bf16, f16};

use super::super::random::Rng;
use super::super::scales::set_scales;

/// Returns the values as little-endian F32.
pub fn encode_f32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Returns the Q8_0 blocks of `values`, whose count is a multiple of 32. Each block has an f16 scale of amax / 127, and
/// codes rounded to nearest.
fn encode_q8_0(values: &[f32]) -> Vec<u8> {
    let mut out = Vec::new();
    for block in values.chunks_exact(32) {
        let scale = block.iter().fold(0f32, |max, x| max.max(x.abs())) / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        out.extend(f16::from_f32(scale).to_le_bytes());
        out.extend(block.iter().map(|x| (x * inverse).round() as i8 as u8));
    }
    out
}

/// Returns `len` weights with mean 0 and about the standard deviation `std`. `len` is a multiple of the type's block.
///
/// F32, F16, BF16 and Q8_0 are rounded normal numbers. In all other types every code is random.
pub fn random_weights(dtype: Dtype, len: usize, std: f32, rng: &mut Rng) -> Vec<u8> {
    let mut normal = || -> Vec<f32> { (0..len).map(|_| rng.normal() * std).collect() };
    match dtype {
        Dtype::F32 => encode_f32(&normal()),
        Dtype::F16 => normal().iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        Dtype::BF16 => normal().iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        Dtype::Q8_0 => encode_q8_0(&normal()),
        Dtype::MXFP4 | Dtype::NVFP4 | Dtype::IQ1_M => blocks_of_odd_scales(dtype, len, std, rng),
        _ => random_blocks(dtype, len / dtype.block_len(), std, rng),
    }
}

/// Returns blocks of random bytes in a format that has its scales in several places or not as f16. It tries scales out,
/// and takes those whose weights have the standard deviation nearest to `std`.
fn blocks_of_odd_scales(dtype: Dtype, len: usize, std: f32, rng: &mut Rng) -> Vec<u8> {
    let mut out = vec![0; dtype.row_bytes(len).unwrap()];
    rng.fill(&mut out);
    let mut best = (f32::INFINITY, out.clone());
    // From 2^-12 to 2, in steps of an eighth. In a format with powers of two, some of the blocks have the next one.
    for bits in (3 << 10..16 << 10).step_by(1 << 7) {
        let mut index = 0;
        for block in out.chunks_exact_mut(dtype.block_bytes()) {
            index += 1;
            let next = if dtype == Dtype::MXFP4 && bits >> 7 & 7 > index % 8 { 1 << 10 } else { 0 };
            set_scales(dtype, block, || bits + next);
        }
        let mut values = vec![0.0; len];
        gleed::quant::dequantize(dtype, &out, &mut values).unwrap();
        let square: f32 = values.iter().map(|x| x * x).sum();
        let distance = ((square / len as f32).sqrt() / std).ln().abs();
        if distance < best.0 {
            best = (distance, out.clone());
        }
    }
    best.1
}

/// Returns blocks of random bytes with scales that give the standard deviation `std`, within 10 %.
fn random_blocks(dtype: Dtype, blocks: usize, std: f32, rng: &mut Rng) -> Vec<u8> {
    // Offset of the first f16 scale in a block, factor of the second scale (chosen so that the mean is 0), and standard
    // deviation of random codes with a first scale of 1.
    let (at, second, unit) = match dtype {
        Dtype::Q4_0 => (0, None, 4.61),
        Dtype::Q4_1 => (0, Some(-7.5), 4.61),
        Dtype::Q5_0 => (0, None, 9.23),
        Dtype::Q5_1 => (0, Some(-15.5), 9.23),
        Dtype::Q2_K => (80, Some(1.5), 13.8),
        Dtype::Q3_K => (108, None, 43.5),
        Dtype::Q4_K => (0, Some(7.5), 258.0),
        Dtype::Q5_K => (0, Some(15.5), 529.0),
        Dtype::Q6_K => (208, None, 1366.0),
        Dtype::IQ4_NL => (0, None, 67.4),
        Dtype::IQ4_XS => (0, None, 1243.0),
        Dtype::Q1_0 => (0, None, 1.0),
        Dtype::Q2_0 => (0, None, 1.22),
        Dtype::TQ1_0 => (52, None, 0.82),
        Dtype::TQ2_0 => (64, None, 1.22),
        Dtype::IQ1_S => (0, None, 7.26),
        Dtype::IQ2_XXS | Dtype::IQ2_XS | Dtype::IQ2_S => (0, None, 55.0),
        Dtype::IQ3_XXS => (0, None, 142.6),
        Dtype::IQ3_S => (0, None, 139.9),
        _ => panic!("no random blocks of type {}", dtype.name()),
    };
    let mut out = vec![0; blocks * dtype.block_bytes()];
    rng.fill(&mut out);
    for block in out.chunks_exact_mut(dtype.block_bytes()) {
        // Some scales are negative, which also cancels the small mean of an odd number of codes.
        let sign = if rng.below(2) == 0 { -1.0 } else { 1.0 };
        let scale = sign * std / unit * (1.0 + 0.1 * rng.uniform());
        block[at..at + 2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
        if let Some(factor) = second {
            block[at + 2..at + 4].copy_from_slice(&f16::from_f32(scale * factor).to_le_bytes());
        }
    }
    out
}
