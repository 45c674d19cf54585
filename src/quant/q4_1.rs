//! Q4_1: 32 elements in 20 bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..4 | minimum m, f16 |
//! | 4..20 | 4-bit codes q: element i in the low nibble of byte i, element i + 16 in the high one |
//!
//! Element: d * q + m.

use bytemuck::AnyBitPattern;

use super::block::{Block32, Layout32, each, f16, nibbles};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    min: [u8; 2],
    codes: [u8; 16],
}

impl Layout32 for Block {
    #[inline(always)]
    fn unpack(&self) -> Block32 {
        Block32 { scale: f16(self.scale), min: Some(f16(self.min)), codes: each(&nibbles(&self.codes), |q| q as i8) }
    }
}
