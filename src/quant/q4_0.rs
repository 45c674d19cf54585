//! Q4_0: 32 elements in 18 bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..18 | 4-bit codes q: element i in the low nibble of byte i, element i + 16 in the high one |
//!
//! Element: d * (q - 8).

use bytemuck::AnyBitPattern;

use super::block::{Block32, Layout32, each, f16, nibbles};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    codes: [u8; 16],
}

impl Layout32 for Block {
    #[inline(always)]
    fn unpack(&self) -> Block32 {
        Block32 { scale: f16(self.scale), min: None, codes: each(&nibbles(&self.codes), |q| q as i8 - 8) }
    }
}
