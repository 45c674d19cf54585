//! Rotary position embedding. (Su et al., "RoFormer", 2021.)

/// Which elements of a head form a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopePairs {
    /// 2i and 2i + 1.
    Adjacent,
    /// i and i + dims / 2.
    Halves,
}

/// Angular frequencies per position: `base^(-2i / dims) / factor`, `[dims / 2]`.
///
/// `divisors` gives a further divisor per frequency (`rope_freqs` of Llama 3), or nothing.
pub fn inverse_frequencies(base: f64, factor: f64, divisors: impl Iterator<Item = f32>, out: &mut [f64]) {
    let dims = (out.len() * 2) as f64;
    let divisors = divisors.map(f64::from).chain(core::iter::repeat(1.0));
    for ((i, frequency), divisor) in out.iter_mut().enumerate().zip(divisors) {
        *frequency = libm::pow(base, -((2 * i) as f64) / dims) / factor / divisor;
    }
}

/// Cosines, then sines, of the angles of one position: `out` is `[dims]`, each rounded once from f64.
pub fn rotation(position: usize, inverse_frequencies: &[f64], out: &mut [f32]) {
    let Some((cosines, sines)) = out.split_at_mut_checked(inverse_frequencies.len()) else { return };
    for ((cosine, sine), &frequency) in cosines.iter_mut().zip(sines).zip(inverse_frequencies) {
        let angle = position as f64 * frequency;
        *cosine = libm::cos(angle) as f32;
        *sine = libm::sin(angle) as f32;
    }
}

/// Rotates the first `rotation.len()` elements of one head by the table that [`rotation`] made.
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
        inverse_frequencies(100.0, 1.0, [1.0, 2.0].into_iter(), &mut frequencies);
        assert_eq!(frequencies, [1.0, 0.05]);
        let mut table = [0.0; 4];
        rotation(3, &frequencies, &mut table);
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
}
