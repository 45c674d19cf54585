//! A temperature of attention that falls with the position: queries get larger.

/// A factor of queries, after their rotation, that grows with the position: `1 + scale * ln(1 + floor(position /
/// length))`.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature {
    /// How fast the factor grows.
    pub scale: f32,
    /// Number of positions with the factor 1, and with each further factor. It is above 0.
    pub length: usize,
}

impl Temperature {
    /// Returns the factor at a position, rounded once from f64.
    pub fn factor(self, position: usize) -> f32 {
        let lengths = position.checked_div(self.length).unwrap_or(0);
        (1.0 + f64::from(self.scale) * libm::log(1.0 + lengths as f64)) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_with_every_length() {
        let temperature = Temperature { scale: 0.5, length: 64 };
        assert_eq!([0, 1, 63].map(|position| temperature.factor(position)), [1.0; 3]);
        let [second, third] = [2_f64, 3.0].map(|lengths| (1.0 + 0.5 * lengths.ln()) as f32);
        assert_eq!([64, 127, 128].map(|position| temperature.factor(position)), [second, second, third]);
    }
}
