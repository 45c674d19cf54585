//! Numbers to test with.

use crate::catalog::Weights;

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.bits()) * end as u128) >> 64) as usize
    }

    /// Returns a number from -1 to 1.
    pub(super) fn uniform(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Returns a row of activations: mostly moderate, in some blocks tiny, subnormal, huge, equal or zero.
    pub(super) fn row(&mut self, len: usize) -> Vec<f32> {
        let mut row = Vec::with_capacity(len);
        while row.len() < len {
            let scale = match self.below(8) {
                0 => f32::from_bits(0x2680_0000), // 2^-50
                1 => f32::from_bits(0x0010_0000),
                2 => 1e15,
                3 => 0.0,
                _ => 1.0,
            };
            let level = self.below(16) == 0;
            row.extend((0..32).map(|_| if level { scale } else { self.uniform() * scale }));
        }
        row.truncate(len);
        row
    }

    /// Returns numbers from -3 to 3.
    pub(super) fn moderate(&mut self, len: usize) -> Vec<f32> {
        (0..len).map(|_| self.uniform() * 3.0).collect()
    }

    /// Returns rows of weights: any codes, finite scales. Some blocks have extreme codes.
    pub(super) fn weights(&mut self, weights: Weights, rows: usize, cols: usize) -> Vec<u8> {
        let dtype = weights.dtype();
        let (block, bytes) = (dtype.block_len(), dtype.block_bytes());
        let mut out = vec![0; rows * cols / block * bytes];
        for block in out.chunks_exact_mut(bytes) {
            let extreme = [0x80, 0x7f, 0xff][self.below(3)];
            let is_extreme = self.below(4) == 0;
            block.iter_mut().for_each(|byte| *byte = if is_extreme { extreme } else { self.bits() as u8 });
            match weights {
                Weights::F32 => block.copy_from_slice(&self.row(1)[0].to_le_bytes()),
                Weights::Bf16 => block.copy_from_slice(&self.row(1)[0].to_le_bytes()[2..]),
                Weights::F16 | Weights::Q8_0 | Weights::Q4_0 => self.half(block, 0),
                Weights::Q4K => (0..2).for_each(|i| self.half(block, 2 * i)),
                Weights::Q6K => self.half(block, 208),
                // From exponents whose scale is 0 to scales of 2^12.
                Weights::Mxfp4 => block[0] = 84 + self.below(57) as u8,
            }
        }
        out
    }

    /// Writes a finite f16, which can be subnormal, at byte `at`.
    fn half(&mut self, block: &mut [u8], at: usize) {
        let bits = self.bits() as u16;
        let bits = if bits & 0x7c00 == 0x7c00 { bits & 0xbfff } else { bits };
        block[at..at + 2].copy_from_slice(&bits.to_le_bytes());
    }
}
