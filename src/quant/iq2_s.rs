//! IQ2_S: 256 elements in 82 bytes, sub-blocks of 16.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..34 | lower 8 bits of the codebook indices, one index per 8 elements |
//! | 34..66 | signs: bit j of byte i belongs to element 8 i + j |
//! | 66..74 | upper 2 bits of the indices: bits 2j and 2j + 1 of byte i belong to index 4 i + j |
//! | 74..82 | 4-bit sub-scales s: 2j in the low nibble of byte j, 2j + 1 in the high one |
//!
//! Element: (d * (s + 1/2) / 4) * v, v of the codebook `grid_2` with its sign. In integers: (d / 8 * (2 s + 1)) * v.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, each, f16};
use super::codebook::{entry, odd_scales, signed_2};
use super::grid_2::IQ2_S;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    low: [[u8; 4]; 8],
    signs: [[u8; 4]; 8],
    high: [u8; 8],
    subs: [u8; 8],
}

impl Layout256<16> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<16> {
        let mut codes = [[[0; 8]; 4]; 8];
        for (((codes, low), signs), high) in codes.iter_mut().zip(&self.low).zip(&self.signs).zip(self.high) {
            for (((codes, &low), &signs), shift) in codes.iter_mut().zip(low).zip(signs).zip([0, 2, 4, 6]) {
                let index = u16::from(low) | u16::from(high >> shift & 3) << 8;
                *codes = signed_2(entry(&IQ2_S, index), signs);
            }
        }
        SuperBlock {
            scale: f16(self.scale) * 0.125,
            sub_scales: bytemuck::must_cast(each(&self.subs, odd_scales)),
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}
