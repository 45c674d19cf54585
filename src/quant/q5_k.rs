//! Q5_K: 256 elements in 176 bytes, sub-blocks of 32.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..4 | scale of the minima dmin, f16 |
//! | 4..16 | eight 6-bit sub-scales s and sub-minima m, see [`sub_scales_and_mins`] |
//! | 16..48 | high bits: bit j of byte i is bit 4 of the code of element 32 j + i |
//! | 48..176 | low 4 bits, 32 bytes per 64 elements: the low nibbles are the first 32, the high ones the next |
//!
//! Element: (d * s) * q - (dmin * m), q the 5-bit code.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, Mins, SuperBlock, combine, each, f16};
use super::q4_k::sub_scales_and_mins;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    min: [u8; 2],
    subs: [u8; 12],
    high: [u8; 32],
    low: [[u8; 32]; 4],
}

impl Layout256<8> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<8> {
        let (sub_scales, sub_mins) = sub_scales_and_mins(&self.subs);
        let [a, b, c, d] = &self.low;
        let codes = each(&[(a, 0), (b, 2), (c, 4), (d, 6)], |(low, bit)| {
            [
                combine(low, &self.high, |low, high| (low & 15 | (high >> bit & 1) << 4) as i8),
                combine(low, &self.high, |low, high| (low >> 4 | (high >> (bit + 1) & 1) << 4) as i8),
            ]
        });
        SuperBlock {
            scale: f16(self.scale),
            sub_scales,
            mins: Some(Mins { min: f16(self.min), sub_mins }),
            codes: bytemuck::must_cast(codes),
        }
    }
}
