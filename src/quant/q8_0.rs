//! Q8_0: 32 elements in 34 bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..34 | codes q, i8: element i in byte i |
//!
//! Element: d * q.

use bytemuck::AnyBitPattern;

use super::block::{Block32, Layout32, f16};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    codes: [i8; 32],
}

impl Layout32 for Block {
    #[inline(always)]
    fn unpack(&self) -> Block32 {
        Block32 { scale: f16(self.scale), min: None, codes: self.codes }
    }
}
