//! Q6_K: 256 elements in 210 bytes, sub-blocks of 16.
//!
//! | bytes | what |
//! |---|---|
//! | 0..128 | low 4 bits, 64 bytes per 128 elements: the low nibbles are the first 64, the high ones the next |
//! | 128..192 | high 2 bits, 32 bytes per 128 elements: bits 2j and 2j + 1 of byte i belong to element 32 j + i |
//! | 192..208 | sub-scales s, i8 |
//! | 208..210 | scale d, f16 |
//!
//! Element: (d * s) * (q - 32), q the 6-bit code.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, combine, f16};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    low: [[[u8; 32]; 2]; 2],
    high: [[u8; 32]; 2],
    sub_scales: [i8; 16],
    scale: [u8; 2],
}

impl Layout256<16> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<16> {
        let ([low_0, low_1], [high_0, high_1]) = (&self.low, &self.high);
        let codes = [half(low_0, high_0), half(low_1, high_1)];
        SuperBlock {
            scale: f16(self.scale),
            sub_scales: self.sub_scales,
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}

/// Returns the codes of 128 elements, less 32.
#[inline(always)]
fn half([a, b]: &[[u8; 32]; 2], high: &[u8; 32]) -> [[i8; 32]; 4] {
    let code = |low: u8, high: u8| (low & 15 | (high & 3) << 4) as i8 - 32;
    [
        combine(a, high, code),
        combine(b, high, |low, high| code(low, high >> 2)),
        combine(a, high, |low, high| code(low >> 4, high >> 4)),
        combine(b, high, |low, high| code(low >> 4, high >> 6)),
    ]
}
