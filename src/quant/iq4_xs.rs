//! IQ4_XS: 256 elements in 136 bytes, sub-blocks of 32.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..4 | upper 2 bits of the sub-scales, u16: bits 2j and 2j + 1 belong to sub-scale j |
//! | 4..8 | low 4 bits of the sub-scales: 2j in the low nibble of byte j, 2j + 1 in the high one |
//! | 8..136 | 4-bit indices, 16 bytes per sub-block: the low nibbles are the first 16, the high ones the next |
//!
//! Element: (d * (s - 32)) * VALUES\[index\] with the values of IQ4_NL, s the 6-bit sub-scale.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, each, f16, nibbles};
use super::iq4_nl::value;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    high: [u8; 2],
    low: [u8; 4],
    indices: [[u8; 16]; 8],
}

impl Layout256<8> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<8> {
        let codes = each(&self.indices, |bytes| each(&nibbles(&bytes), value));
        SuperBlock {
            scale: f16(self.scale),
            sub_scales: self.sub_scales(),
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}

impl Block {
    /// Returns the eight sub-scales, less 32.
    #[inline(always)]
    fn sub_scales(&self) -> [i8; 8] {
        let (low, high) = (u32::from_le_bytes(self.low), u16::from_le_bytes(self.high));
        let mut sub_scales = [0; 8];
        for (j, s) in sub_scales.iter_mut().enumerate() {
            *s = (low >> (4 * j) & 15) as i8 + ((high >> (2 * j) & 3) << 4) as i8 - 32;
        }
        sub_scales
    }
}
