//! Q5_1: 32 elements in 24 bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..4 | minimum m, f16 |
//! | 4..8 | high bits, u32: bit i is bit 4 of the code of element i |
//! | 8..24 | low 4 bits: element i in the low nibble of byte i, element i + 16 in the high one |
//!
//! Element: d * q + m, q the 5-bit code.

use bytemuck::AnyBitPattern;

use super::block::{Block32, Layout32, f16};
use super::q5_0::five_bits;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    min: [u8; 2],
    high: [u8; 4],
    low: [u8; 16],
}

impl Layout32 for Block {
    #[inline(always)]
    fn unpack(&self) -> Block32 {
        Block32 { scale: f16(self.scale), min: Some(f16(self.min)), codes: five_bits(self.high, &self.low) }
    }
}
