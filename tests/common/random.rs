//! Pseudo-random numbers that are the same everywhere.
// Each test uses only a part of this module.
#![allow(dead_code, unreachable_pub)]

/// SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number in `0..end`. `end` must not be 0.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.u64()) * end as u128) >> 64) as usize
    }

    /// Returns a uniform number in `-1..1`, a multiple of 2^-23.
    pub fn uniform(&mut self) -> f32 {
        (self.u64() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Returns a nearly normal number with mean 0 and standard deviation 1. It is a sum of six uniform numbers, so that
    /// no library function decides about bits.
    pub fn normal(&mut self) -> f32 {
        (0..6).map(|_| self.uniform()).sum::<f32>() * std::f32::consts::FRAC_1_SQRT_2
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }

    /// Returns `len` token ids below `vocab`.
    pub fn tokens(&mut self, len: usize, vocab: usize) -> Vec<u32> {
        (0..len).map(|_| self.below(vocab) as u32).collect()
    }
}
