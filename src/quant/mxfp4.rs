//! MXFP4: 32 elements in 17 bytes. OCP, "Microscaling Formats (MX) Specification v1.0", 2023.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | exponent e: the scale is 2^(e - 128), 0 for e below 88 |
//! | 1..17 | 4-bit floats (E2M1) q: element i in the low nibble of byte i, element i + 16 in the high one |
//!
//! Element: scale * v. v is twice the value of the float q, because the scale is half the scale of the specification.

use bytemuck::AnyBitPattern;

use super::block::{Block32, Layout32, each, nibbles};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    exponent: u8,
    codes: [u8; 16],
}

impl Layout32 for Block {
    #[inline(always)]
    fn unpack(&self) -> Block32 {
        Block32 { scale: scale(self.exponent), min: None, codes: each(&nibbles(&self.codes), twice) }
    }
}

/// Smallest exponent of a scale that is not 0. That scale is 2^-40, while the smallest scale of other formats is 2^-27.
/// So no product with a scale of activations is subnormal.
pub(crate) const LEAST_EXPONENT: u8 = 88;

/// Returns 2^(e - 128), or 0 for e below [`LEAST_EXPONENT`].
#[inline(always)]
fn scale(exponent: u8) -> f32 {
    f32::from_bits(if exponent < LEAST_EXPONENT { 0 } else { (u32::from(exponent) - 1) << 23 })
}

/// Returns twice the value of the 4-bit float in `index`, which is below 16. There is no negative zero.
///
/// It is computed instead of looked up, so that compilers make vectors of it.
#[inline(always)]
pub(super) fn twice(index: u8) -> i8 {
    let low = index & 7;
    // The magnitudes are 0, 1, 2, 3, 4, 6, 8, 12.
    let more = u8::from(low == 5) + 2 * u8::from(low == 6) + 5 * u8::from(low == 7);
    let magnitude = (low + more) as i8;
    if index & 8 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_specification() {
        let values: [i8; 16] = core::array::from_fn(|index| twice(index as u8));
        assert_eq!(values, [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);
    }
}
