//! Attention with linear biases (ALiBi): a slope for each head.

use crate::device::Slopes;

/// Fills in the slopes of ALiBi, one per head.
pub(super) fn fill_slopes(exponent: f32, slopes: &mut [f32]) {
    let all = Slopes { exponent, heads: slopes.len() };
    slopes.iter_mut().enumerate().for_each(|(head, slope)| *slope = all.get(head));
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
