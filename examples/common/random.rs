//! Random numbers from a seed. They are the same on every machine.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a random number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f32 {
        (self.draw() >> 40) as f32 / (1 << 24) as f32
    }

    /// Returns random token ids below `vocab`.
    pub fn ids(&mut self, count: usize, vocab: usize) -> Vec<u32> {
        (0..count).map(|_| (self.draw() % vocab.max(1) as u64) as u32).collect()
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            let random = self.draw().to_le_bytes();
            word.copy_from_slice(&random[..word.len()]);
        }
    }
}
