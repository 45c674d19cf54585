//! Random weights. All codes are random. The scales give the elements mean 0 and a given standard deviation.

use gleed::quant::dequantize;
use gleed::tensor::Dtype;
use half::{bf16, f16};

use super::random::Random;

/// Fills rows with random weights of one type.
pub enum Filler {
    /// Blocks of random bytes, with a scale and a minimum from a table.
    Blocks { layout: Layout, table: Vec<[[u8; 2]; 2]> },
    /// Elements that are drawn from a table.
    Elements { table: Vec<Vec<u8>>, len: usize },
}

/// Number of entries in a table of scales.
const SCALES: usize = 64;

/// Number of entries in a table of elements.
const ELEMENTS: usize = 4096;

/// The places of the floating-point numbers in a block.
#[derive(Clone, Copy)]
pub struct Layout {
    block: usize,
    scale: Scale,
    /// Byte offset of the minimum, and the minimum that gives the elements mean 0 when the scale is 1.
    min: Option<(usize, f32)>,
    /// Whether half of the scales are negative, because the mean of the codes is not 0.
    signed: bool,
}

/// The format and place of a block's scale.
#[derive(Clone, Copy)]
enum Scale {
    /// An f16 at this byte offset.
    At(usize),
    /// A power of two, in the first byte.
    Exponent,
    /// A float of 8 bits for each part, in the first four bytes.
    Parts,
    /// An f16 in four nibbles: each is the upper half of the last byte of one of the last four 16-bit words.
    Nibbles,
}

impl Scale {
    /// Returns the offset of a byte that `put` overwrites. Its random value chooses the scale.
    fn place(self) -> usize {
        if let Self::At(at) = self { at } else { 0 }
    }

    /// Stores a scale, given as the bytes of an f16.
    fn put(self, block: &mut [u8], bits: [u8; 2]) {
        let bits_16 = u16::from_le_bytes(bits);
        match self {
            Self::At(at) => block[at..at + 2].copy_from_slice(&bits),
            // The nearest power of two.
            Self::Exponent => block[0] = (((bits_16 + 0x200) & 0x7fff) >> 10) as u8 + 113,
            // The exponent bias of the 8-bit type is 8 less. Its smallest normal number is 2^-6.
            Self::Parts => {
                block[..4].fill((bits_16 & 0x7fff).saturating_sub(7 << 10).div_ceil(1 << 7).clamp(1, 0x7e) as u8)
            }
            Self::Nibbles => {
                for (i, upper) in block[48..].iter_mut().skip(1).step_by(2).enumerate() {
                    *upper = *upper & 15 | ((bits_16 >> (4 * i) & 15) << 4) as u8;
                }
            }
        }
    }
}

impl Filler {
    /// Returns the filler for a matrix: mean 0 and standard deviation 1 / sqrt(columns), so that activations neither
    /// grow nor vanish from layer to layer.
    pub fn matrix(dtype: Dtype, cols: usize, random: &mut Random) -> Self {
        let deviation = 1.0 / (cols as f32).sqrt();
        let Some(layout) = Layout::of(dtype) else {
            return Self::elements(dtype, 0.0, deviation, random);
        };
        let unit = Self::Blocks { layout, table: layout.table(1.0, random) };
        let scale = deviation / unit.deviation(dtype, random);
        Self::Blocks { layout, table: layout.table(scale, random) }
    }

    /// Returns the filler for f32 elements with this mean and standard deviation, such as the weights of a norm.
    pub fn numbers(mean: f32, deviation: f32, random: &mut Random) -> Self {
        Self::elements(Dtype::F32, mean, deviation, random)
    }

    /// Returns the filler for uniformly distributed elements with this mean and standard deviation.
    fn elements(dtype: Dtype, mean: f32, deviation: f32, random: &mut Random) -> Self {
        let half_width = deviation * 3.0_f32.sqrt();
        let element = |_| {
            let x = mean + half_width * (2.0 * random.unit() - 1.0);
            match dtype {
                Dtype::F16 => f16::from_f32(x).to_le_bytes().to_vec(),
                Dtype::BF16 => bf16::from_f32(x).to_le_bytes().to_vec(),
                _ => x.to_le_bytes().to_vec(),
            }
        };
        Self::Elements { table: (0..ELEMENTS).map(element).collect(), len: dtype.block_bytes() }
    }

    /// Returns the standard deviation of the elements that this filler makes.
    fn deviation(&self, dtype: Dtype, random: &mut Random) -> f32 {
        const BLOCKS: usize = 256;
        let mut bytes = vec![0; BLOCKS * dtype.block_bytes()];
        let mut elements = vec![0.0_f32; BLOCKS * dtype.block_len()];
        self.fill(&mut bytes, random);
        let _ = dequantize(dtype, &bytes, &mut elements);
        (elements.iter().map(|x| x * x).sum::<f32>() / elements.len() as f32).sqrt()
    }

    /// Fills whole rows.
    pub fn fill(&self, bytes: &mut [u8], random: &mut Random) {
        match self {
            Self::Elements { table, len } => {
                for element in bytes.chunks_exact_mut(*len) {
                    element.copy_from_slice(&table[random.draw() as usize % table.len()]);
                }
            }
            Self::Blocks { layout, table } => {
                random.fill(bytes);
                for block in bytes.chunks_exact_mut(layout.block) {
                    let [scale, min] = table[usize::from(block[layout.scale.place()]) % table.len()];
                    layout.scale.put(block, scale);
                    if let Some((at, _)) = layout.min {
                        block[at..][..2].copy_from_slice(&min);
                    }
                }
            }
        }
    }
}

impl Layout {
    /// Returns the layout of a type's blocks, or `None` if the type has no blocks.
    fn of(dtype: Dtype) -> Option<Self> {
        let (at, min) = match dtype {
            Dtype::Q4_0 | Dtype::Q5_0 | Dtype::Q8_0 | Dtype::IQ4_NL | Dtype::IQ4_XS => (0, None),
            Dtype::Q1_0 | Dtype::Q2_0 | Dtype::IQ1_S => (0, None),
            Dtype::IQ2_XXS | Dtype::IQ2_XS | Dtype::IQ2_S | Dtype::IQ3_XXS | Dtype::IQ3_S => (0, None),
            Dtype::TQ1_0 => (52, None),
            Dtype::TQ2_0 => (64, None),
            Dtype::MXFP4 => {
                return Some(Self { block: dtype.block_bytes(), scale: Scale::Exponent, min: None, signed: false });
            }
            Dtype::NVFP4 => {
                return Some(Self { block: dtype.block_bytes(), scale: Scale::Parts, min: None, signed: false });
            }
            Dtype::IQ1_M => {
                return Some(Self { block: dtype.block_bytes(), scale: Scale::Nibbles, min: None, signed: false });
            }
            // The minimum is added to codes of 0..=15 and 0..=31.
            Dtype::Q4_1 => (0, Some((2, -7.5))),
            Dtype::Q5_1 => (0, Some((2, -15.5))),
            // The minimum is multiplied by sub-minima and subtracted.
            Dtype::Q4_K => (0, Some((2, 7.5))),
            Dtype::Q5_K => (0, Some((2, 15.5))),
            Dtype::Q2_K => (80, Some((82, 1.5))),
            Dtype::Q3_K => (108, None),
            Dtype::Q6_K => (208, None),
            _ => return None,
        };
        // The codes of Q2_0 are -1 to 2.
        let signed = dtype == Dtype::Q2_0;
        Some(Self { block: dtype.block_bytes(), scale: Scale::At(at), min, signed })
    }

    /// Returns random scales around `scale`, with their minima.
    fn table(self, scale: f32, random: &mut Random) -> Vec<[[u8; 2]; 2]> {
        let mut pair = || {
            let sign = if self.signed && random.unit() < 0.5 { -1.0 } else { 1.0 };
            let scale = sign * scale * (0.8 + 0.4 * random.unit());
            let min = self.min.map_or(0.0, |(_, min)| min * scale);
            [scale, min].map(|x| f16::from_f32(x).to_le_bytes())
        };
        (0..SCALES).map(|_| pair()).collect()
    }
}
