//! The contents of tensors.

use gleed::tensor::Dtype;

use super::shape::{Role, TensorShape};
use crate::blocks::Filler;
use crate::random::Random;

/// Makes the contents of a tensor.
pub enum Contents {
    Random(Filler),
    Fixed(Vec<u8>),
}

impl Contents {
    pub fn new(tensor: &TensorShape, dtype: Dtype, random: &mut Random) -> Self {
        match tensor.role {
            Role::RopeDivisors => Self::Fixed(rope_divisors(tensor.cols())),
            Role::Norm => Self::Random(Filler::numbers(1.0, 0.1, random)),
            Role::Bias => Self::Random(Filler::numbers(0.0, 0.1, random)),
            Role::Decay => Self::Random(Filler::numbers(-8.5, 4.3, random)),
            // These biases give steps of 0.001 to 0.1.
            Role::StepBias => Self::Random(Filler::numbers(-4.5, 1.3, random)),
            _ => Self::Random(Filler::matrix(dtype, tensor.cols(), random)),
        }
    }

    /// Fills the next rows.
    pub fn fill(&self, bytes: &mut [u8], random: &mut Random) {
        match self {
            Self::Random(filler) => filler.fill(bytes, random),
            Self::Fixed(contents) => bytes.copy_from_slice(contents),
        }
    }
}

/// Returns the divisors of Llama 3.2's rotary frequencies: 32 for long waves, 1 for short ones, and a mixture between
/// them.
fn rope_divisors(count: usize) -> Vec<u8> {
    const FACTOR: f32 = 32.0;
    const TRAINED: f32 = 8192.0;
    const BASE: f32 = 500_000.0;
    let divisor = |index: usize| {
        let wave = 2.0 * std::f32::consts::PI * BASE.powf(index as f32 / count as f32);
        let smooth = (TRAINED / wave - 1.0) / 3.0;
        1.0 / ((1.0 - smooth.clamp(0.0, 1.0)) / FACTOR + smooth.clamp(0.0, 1.0))
    };
    (0..count).flat_map(|index| divisor(index).to_le_bytes()).collect()
}
