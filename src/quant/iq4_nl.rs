//! IQ4_NL: 32 elements in 18 bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..18 | 4-bit indices: element i in the low nibble of byte i, element i + 16 in the high one |
//!
//! Element: d * VALUES\[index\].

use bytemuck::AnyBitPattern;

use super::block::{Block32, Layout32, each, f16, nibbles};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    indices: [u8; 16],
}

impl Layout32 for Block {
    #[inline(always)]
    fn unpack(&self) -> Block32 {
        Block32 { scale: f16(self.scale), min: None, codes: each(&nibbles(&self.indices), value) }
    }
}

/// Returns the code for an index below 16, in IQ4_NL and IQ4_XS.
#[inline(always)]
pub(super) fn value(index: u8) -> i8 {
    const VALUES: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
    VALUES.get(usize::from(index)).copied().unwrap_or_default()
}
