//! Rotary position embedding. (Su et al., "RoFormer", 2021.)

use crate::num::settle;

/// The way in which elements of a head form pairs.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairs {
    /// Elements 2i and 2i + 1.
    Adjacent,
    /// Elements i and i + dims / 2.
    Halves,
}

/// Angular frequencies of the pairs, per position.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frequencies {
    /// Base: pair i of n / 2 has the frequency `base^(-2i / n)`.
    pub base: f32,
    /// Divisor of the frequencies.
    pub factor: f32,
    /// Selects the frequencies that are divided by the factor. `None` divides all.
    pub yarn: Option<Yarn>,
    /// Factor of cosines and sines.
    pub magnitude: f32,
}

/// A selection of frequencies: fast ones stay, slow ones are divided by the factor, and a ramp joins them. (Peng et
/// al., "YaRN", 2023, section 3.2.)
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// Number of tokens of context that the model was first trained with.
    pub context: f32,
    /// Number of turns in this context of the pair at which the ramp begins.
    pub fast: f32,
    /// Number of turns in this context of the pair at which the ramp ends.
    pub slow: f32,
}

impl Frequencies {
    /// Returns the frequencies of a base, not scaled.
    pub const fn plain(base: f32) -> Self {
        Self { base, factor: 1.0, yarn: None, magnitude: 1.0 }
    }

    /// Computes the frequency of every pair: `out` is `[dims / 2]`.
    ///
    /// `divisors` has a further divisor per pair (`rope_freqs` of Llama 3), or is empty.
    pub fn fill(&self, divisors: impl Iterator<Item = f32>, out: &mut [f64]) {
        let dims = (out.len() * 2) as f64;
        let (base, factor) = (f64::from(self.base), f64::from(self.factor));
        let ramp = self.yarn.map(|yarn| yarn.ramp(dims, base));
        let divisors = divisors.map(f64::from).chain(core::iter::repeat(1.0));
        for ((i, frequency), divisor) in out.iter_mut().enumerate().zip(divisors) {
            let fast = libm::pow(base, -((2 * i) as f64) / dims);
            let slow = fast / factor;
            let mixed = ramp.map_or(slow, |[low, high]| {
                let slowed = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
                slow * slowed + fast * (1.0 - slowed)
            });
            *frequency = mixed / divisor;
        }
    }

    /// Returns YaRN's factor of cosines and sines: `0.1 ln(factor) + 1`, or 1 if the factor is at most 1.
    pub fn yarn_magnitude(&self) -> f32 {
        if self.factor > 1.0 { (0.1 * libm::log(self.factor.into()) + 1.0) as f32 } else { 1.0 }
    }
}

impl Yarn {
    /// Returns the indices of the pairs at which the ramp begins and ends.
    fn ramp(&self, dims: f64, base: f64) -> [f64; 2] {
        let turning = |turns: f32| {
            let wavelengths = f64::from(self.context) / (f64::from(turns) * 2.0 * core::f64::consts::PI);
            dims * libm::log(wavelengths) / (2.0 * libm::log(base))
        };
        let low = libm::floor(turning(self.fast)).max(0.0);
        let high = libm::ceil(turning(self.slow)).min(dims - 1.0);
        [low, high.max(low + 0.001)]
    }
}

/// Computes cosines, then sines, of the angles of one position, times `magnitude`. `out` is `[dims]`. Each number is
/// rounded once from f64, and settled ([`settle`]).
pub fn rotation(position: usize, frequencies: &[f64], magnitude: f32, out: &mut [f32]) {
    let Some((cosines, sines)) = out.split_at_mut_checked(frequencies.len()) else { return };
    let magnitude = f64::from(magnitude);
    for ((cosine, sine), &frequency) in cosines.iter_mut().zip(sines).zip(frequencies) {
        let angle = position as f64 * frequency;
        *cosine = settle((libm::cos(angle) * magnitude) as f32);
        *sine = settle((libm::sin(angle) * magnitude) as f32);
    }
}

/// Rotates the first `rotation.len()` elements of one head by the cosines and sines that [`rotation`] computed.
pub fn rotate(head: &mut [f32], rotation: &[f32], pairs: RopePairs) {
    let half = rotation.len() / 2;
    let (Some((cosines, sines)), Some(rotated)) = (rotation.split_at_checked(half), head.get_mut(..rotation.len()))
    else {
        return;
    };
    let angles = cosines.iter().zip(sines);
    match pairs {
        RopePairs::Adjacent => {
            let (pairs, _) = rotated.as_chunks_mut::<2>();
            for ([a, b], (&cosine, &sine)) in pairs.iter_mut().zip(angles) {
                (*a, *b) = turn(*a, *b, cosine, sine);
            }
        }
        RopePairs::Halves => {
            let Some((low, high)) = rotated.split_at_mut_checked(half) else { return };
            for ((a, b), (&cosine, &sine)) in low.iter_mut().zip(high).zip(angles) {
                (*a, *b) = turn(*a, *b, cosine, sine);
            }
        }
    }
}

fn turn(a: f32, b: f32, cosine: f32, sine: f32) -> (f32, f32) {
    (a * cosine - b * sine, a * sine + b * cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rotates_pairs_by_their_angles() {
        let mut frequencies = [0.0; 2];
        Frequencies::plain(100.0).fill([1.0, 2.0].into_iter(), &mut frequencies);
        assert_eq!(frequencies, [1.0, 0.05]);
        let mut table = [0.0; 4];
        rotation(3, &frequencies, 1.0, &mut table);
        let (c, s) = (3f64.cos() as f32, 3f64.sin() as f32);
        let (d, t) = (0.15f64.cos() as f32, 0.15f64.sin() as f32);
        assert_eq!(table, [c, d, s, t]);

        let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
        rotate(&mut head, &table, RopePairs::Adjacent);
        assert_eq!(head, [c - 2.0 * s, s + 2.0 * c, 3.0 * d - 4.0 * t, 3.0 * t + 4.0 * d, 5.0]);
        let mut head = [1.0, 2.0, 3.0, 4.0, 5.0];
        rotate(&mut head, &table, RopePairs::Halves);
        assert_eq!(head, [c - 3.0 * s, 2.0 * d - 4.0 * t, s + 3.0 * c, 2.0 * t + 4.0 * d, 5.0]);
    }

    #[test]
    fn yarn_slows_down_what_is_slow() {
        let yarn = Yarn { context: 512.0, fast: 32.0, slow: 1.0 };
        let scaled = Frequencies { factor: 4.0, yarn: Some(yarn), ..Frequencies::plain(10_000.0) };
        let (mut ours, mut plain) = ([0.0; 32], [0.0; 32]);
        scaled.fill(core::iter::empty(), &mut ours);
        Frequencies::plain(10_000.0).fill(core::iter::empty(), &mut plain);
        let ratios: Vec<f64> = ours.iter().zip(plain).map(|(ours, plain)| plain / ours).collect();
        // The ramp begins at 64 ln(512 / (32 * 2 pi)) / (2 ln 10000) = 3.2. It ends at 15.3, the same for one turn.
        assert!(ratios[..4].iter().all(|&ratio| ratio == 1.0), "{ratios:?}");
        assert!(ratios[4..16].is_sorted() && ratios[4] > 1.0 && ratios[15] < 4.0, "{ratios:?}");
        assert!(ratios[16..].iter().all(|&ratio| ratio == 4.0), "{ratios:?}");
        assert!((scaled.yarn_magnitude() - 1.138_629_4).abs() < 1e-6);
    }
}
