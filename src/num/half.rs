//! Half precision to f32 without a conversion instruction: exact, branch-free, fit for vectorization.

use half::f16;

/// The value of `half`; NaN stays NaN.
///
/// The bits are shifted into place and the exponent's bias corrected by a multiplication by 2^112, which is
/// exact, also for subnormals; infinity and NaN get their exponent by selection. (Fabian Giesen,
/// "Half to float done quick", 2012.)
#[inline]
pub fn f16_to_f32(half: f16) -> f32 {
    const TWO_TO_112: f32 = f32::from_bits(0x7780_0000);
    let bits = u32::from(half.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    let value = (f32::from_bits(magnitude) * TWO_TO_112).to_bits() | special;
    f32::from_bits(value | (bits & 0x8000) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_half_crate_on_all_inputs() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            let (got, want) = (f16_to_f32(half), half.to_f32());
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{bits:#06x}");
        }
    }
}
