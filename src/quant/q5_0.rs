//! Q5_0: 32 elements in 22 bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..6 | high bits, u32: bit i is bit 4 of the code of element i |
//! | 6..22 | low 4 bits: element i in the low nibble of byte i, element i + 16 in the high one |
//!
//! Element: d * (q - 16), q the 5-bit code.

use bytemuck::AnyBitPattern;

use super::block::{Block32, Layout32, each, f16, nibbles};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    high: [u8; 4],
    low: [u8; 16],
}

impl Layout32 for Block {
    #[inline(always)]
    fn unpack(&self) -> Block32 {
        let codes = each(&five_bits(self.high, &self.low), |q| q - 16);
        Block32 { scale: f16(self.scale), min: None, codes }
    }
}

/// Returns the 5-bit codes of Q5_0 and Q5_1.
#[inline(always)]
pub(super) fn five_bits(high: [u8; 4], low: &[u8; 16]) -> [i8; 32] {
    let high = u32::from_le_bytes(high);
    let mut codes = each(&nibbles(low), |q| q as i8);
    for (i, code) in codes.iter_mut().enumerate() {
        *code |= ((high >> i & 1) << 4) as i8;
    }
    codes
}
