//! The random generator.

/// SplitMix64: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators",
/// OOPSLA 2014, with the constants of `java.util.SplittableRandom`.
#[derive(Clone, Copy, Debug)]
pub(super) struct SplitMix64(pub(super) u64);

impl SplitMix64 {
    /// Returns the top 24 bits of the next number.
    pub(super) fn next24(&mut self) -> u32 {
        (self.next() >> 40) as u32
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_published_generator() {
        let mut rng = SplitMix64(1_234_567);
        let want = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([rng.next(), rng.next(), rng.next()], want);
        assert_eq!(SplitMix64(0).next24(), 0xE2_20A8);
    }
}
