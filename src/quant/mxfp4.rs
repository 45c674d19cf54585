//! MXFP4: 32 elements in 17 bytes. OCP, "Microscaling Formats (MX) Specification v1.0", 2023.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | exponent e: the scale is 2^(e - 128) |
//! | 1..17 | 4-bit floats (E2M1) q: element i in the low nibble of byte i, element i + 16 in the high one |
//!
//! Element: 2^(e - 128) * VALUES\[q\], twice the value of the float and half its scale.

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

/// 2^(e - 128); it is subnormal for e below 2.
#[inline(always)]
fn scale(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 1 << (21 + exponent),
        _ => (u32::from(exponent) - 1) << 23,
    })
}

/// Twice the 4-bit float in an index below 16. There is no negative zero.
#[inline(always)]
pub(super) fn twice(index: u8) -> i8 {
    const VALUES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];
    VALUES.get(usize::from(index)).copied().unwrap_or_default()
}
