//! MXFP4: 32 elements in 17 bytes. OCP, "Microscaling Formats (MX) Specification v1.0", 2023.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | exponent e: the scale is 2^(e - 128), 0 for e below 88 |
//! | 1..17 | 4-bit floats (E2M1) q: element i in the low nibble of byte i, element i + 16 in the high one |
//!
//! Element: scale * VALUES\[q\], twice the value of the float and half its scale.

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

/// The least exponent of a scale that is not 0: 2^-40, where the least one of other
/// formats is 2^-27. So no product with the
/// scale of activations is subnormal.
pub(crate) const LEAST_EXPONENT: u8 = 88;

/// 2^(e - 128), and 0 for e below [`LEAST_EXPONENT`].
#[inline(always)]
fn scale(exponent: u8) -> f32 {
    f32::from_bits(if exponent < LEAST_EXPONENT { 0 } else { (u32::from(exponent) - 1) << 23 })
}

/// Twice the 4-bit float in an index below 16. There is no negative zero.
///
/// Computed, not looked up, so that compilers make vectors of it.
#[inline(always)]
pub(super) fn twice(index: u8) -> i8 {
    let low = index & 7;
    // 0, 1, 2, 3, 4, 6, 8, 12
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
