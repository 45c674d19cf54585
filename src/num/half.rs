//! Half precision from and to f32 without conversion instructions: branch-free, fit for vectorization.

use half::f16;

/// Returns the value of `half`. NaN stays NaN.
///
/// Normal halves: the bits are shifted into place, and the bias of the exponent is corrected. Infinity and NaN get
/// their exponent by a selection. Subnormal halves: their bits become the last bits of a number from 2^-14 to 2^-13,
/// from which 2^-14 is subtracted. So no f32 is subnormal, which a machine may flush to zero. (Fabian Giesen, "Half to
/// float done quick", 2012.)
#[inline]
pub fn f16_to_f32(half: f16) -> f32 {
    const TWO_TO_MINUS_14: f32 = f32::from_bits(113 << 23);
    let bits = u32::from(half.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    let special = if magnitude >= 0x0f80_0000 { 0x7f80_0000 } else { 0 };
    let normal = magnitude.wrapping_add(112 << 23) | special;
    let subnormal = f32::from_bits(magnitude.wrapping_add(113 << 23)) - TWO_TO_MINUS_14;
    let value = if magnitude < 1 << 23 { subnormal.to_bits() } else { normal };
    f32::from_bits(value | (bits & 0x8000) << 16)
}

/// Returns `x` rounded to the nearest half, ties to even. Too large numbers become infinite, NaN stays NaN.
///
/// Normal halves: the bias of the exponent is corrected. Then half a unit of the last place is added, minus one bit if
/// the last place is even. Subnormal halves: their unit 2^-24 is the last place of numbers from 0.5 to 1, so adding 0.5
/// rounds to it. (Fabian Giesen, "Float to half done quick", 2012.)
#[inline]
pub fn f32_to_f16(x: f32) -> f16 {
    const SMALLEST_NORMAL: u32 = 113 << 23; // 2^-14
    const TOO_LARGE: u32 = 143 << 23; // 2^16
    const INFINITY: u32 = 0x7f80_0000;
    let (sign, magnitude) = (x.to_bits() >> 16 & 0x8000, x.to_bits() & 0x7fff_ffff);
    let even = 0xfff + (magnitude >> 13 & 1);
    let normal = magnitude.wrapping_sub((127 - 15) << 23).wrapping_add(even) >> 13;
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5_f32.to_bits());
    let half = if magnitude < SMALLEST_NORMAL { subnormal } else { normal };
    let half = if magnitude >= TOO_LARGE { 0x7c00 } else { half };
    let half = if magnitude > INFINITY { 0x7e00 } else { half };
    f16::from_bits((half | sign) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All halves, the middles between them, their neighbours, and a sample of all f32 numbers.
    #[test]
    fn rounds_as_the_half_crate_does() {
        let check = |bits: u32| {
            let x = f32::from_bits(bits);
            let (got, want) = (f32_to_f16(x), f16::from_f32(x));
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{bits:#010x}");
        };
        for half in 0..=u16::MAX {
            let bits = f16_to_f32(f16::from_bits(half)).to_bits();
            for offset in [0, 1, 0xfff, 0x1000, 0x1001, 0x1fff] {
                check(bits.wrapping_add(offset));
                check(bits.wrapping_sub(offset));
            }
        }
        // The middles between subnormal halves are closer to zero than a fixed distance in bits.
        for step in 0..4096 {
            let middle = (step as f32 * 0.5 * 2.0_f32.powi(-24)).to_bits();
            for offset in [0, 1] {
                check(middle.wrapping_add(offset));
                check(middle.wrapping_sub(offset) | 0x8000_0000);
            }
        }
        for bits in (0..u32::MAX).step_by(4093) {
            check(bits);
        }
    }

    #[test]
    fn equals_the_half_crate_on_all_inputs() {
        for bits in 0..=u16::MAX {
            let half = f16::from_bits(bits);
            let (got, want) = (f16_to_f32(half), half.to_f32());
            assert!(got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(), "{bits:#06x}");
        }
    }
}
