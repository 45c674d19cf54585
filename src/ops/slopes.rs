//! Attention with linear biases: a slope for each head.

/// The slopes of ALiBi, one per head, where `2^-exponent` is the last of a power of two of heads; other numbers of
/// heads take every second slope of twice as many after that. (Press et al., "Train Short, Test Long", 2021; the
/// authors' code for other numbers.)
pub(super) fn fill_slopes(exponent: f32, slopes: &mut [f32]) {
    let heads = slopes.len();
    let power = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    for (head, slope) in slopes.iter_mut().enumerate() {
        let steps = if head < power { (head + 1) as f64 } else { (head - power) as f64 + 0.5 };
        *slope = libm::exp2(-f64::from(exponent) * steps / power as f64) as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_of_any_number_of_heads() {
        let slopes = |heads: usize| {
            let mut slopes = vec![0.0; heads];
            fill_slopes(8.0, &mut slopes);
            slopes
        };
        assert_eq!(slopes(8), [1, 2, 3, 4, 5, 6, 7, 8].map(|n| 0.5f32.powi(n)));
        assert_eq!(slopes(4), [2, 4, 6, 8].map(|n| 0.5f32.powi(n)));
        assert_eq!(slopes(6), [2, 4, 6, 8, 1, 3].map(|n| 0.5f32.powi(n)));
        assert_eq!(slopes(1), [0.5f32.powi(8)]);
        assert!(slopes(0).is_empty());
    }
}
