//! Q3_K: 256 elements in 110 bytes, sub-blocks of 16.
//!
//! | bytes | what |
//! |---|---|
//! | 0..32 | high bits: bit j of byte i is bit 2 of the code of element 32 j + i |
//! | 32..96 | low 2 bits, 32 bytes per 128 elements: bits 2j and 2j + 1 of byte i belong to element 32 j + i |
//! | 96..108 | sixteen 6-bit sub-scales s, see [`sub_scales`] |
//! | 108..110 | scale d, f16 |
//!
//! Element: (d * (s - 32)) * (q - 4), q the 3-bit code.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, combine, each, f16};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    high: [u8; 32],
    low: [[u8; 32]; 2],
    subs: [u8; 12],
    scale: [u8; 2],
}

impl Layout256<16> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<16> {
        let [first, second] = &self.low;
        let codes = each(&[(first, 0), (second, 4)], |(low, bit)| {
            each(&[0, 1, 2, 3], |j| {
                combine(low, &self.high, |low, high| (low >> (2 * j) & 3 | (high >> (bit + j) & 1) << 2) as i8 - 4)
            })
        });
        SuperBlock {
            scale: f16(self.scale),
            sub_scales: sub_scales(&self.subs),
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}

/// Returns the sixteen sub-scales, less 32.
///
/// The low 4 bits of sub-scales 0..8 are the low nibbles of bytes 0..8, and those of sub-scales 8..16 are the high
/// nibbles. The upper 2 bits of sub-scale 4 j + i are bits 2j and 2j + 1 of byte 8 + i.
#[inline(always)]
fn sub_scales(bytes: &[u8; 12]) -> [i8; 16] {
    let [a, b, high]: [[u8; 4]; 3] = bytemuck::must_cast(*bytes);
    let six_bits = |low: u8, high: u8| (low & 15 | (high & 3) << 4) as i8 - 32;
    bytemuck::must_cast([
        combine(&a, &high, six_bits),
        combine(&b, &high, |low, high| six_bits(low, high >> 2)),
        combine(&a, &high, |low, high| six_bits(low >> 4, high >> 4)),
        combine(&b, &high, |low, high| six_bits(low >> 4, high >> 6)),
    ])
}
