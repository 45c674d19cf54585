//! IQ3_S: 256 elements in 110 bytes, sub-blocks of 32.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..66 | lower 8 bits of the codebook indices, one index per 4 elements |
//! | 66..74 | upper bits of the indices: bit j of byte i belongs to index 8 i + j |
//! | 74..106 | signs: bit j of byte i belongs to element 8 i + j |
//! | 106..110 | 4-bit sub-scales s: 2j in the low nibble of byte j, 2j + 1 in the high one |
//!
//! Element: (d * (2 s + 1)) * v, v of the codebook `grid_3` with its sign.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, each, f16};
use super::codebook::{entry, odd_scales, signed_3};
use super::grid_3::IQ3_S;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    low: [[[u8; 2]; 4]; 8],
    high: [u8; 8],
    signs: [[u8; 4]; 8],
    subs: [u8; 4],
}

impl Layout256<8> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<8> {
        let mut codes = [[[0; 8]; 4]; 8];
        for (((codes, low), &high), signs) in codes.iter_mut().zip(&self.low).zip(&self.high).zip(&self.signs) {
            for (((codes, [first, second]), &signs), shift) in codes.iter_mut().zip(low).zip(signs).zip([0, 2, 4, 6]) {
                let index = |low: &u8, bit: u32| entry(&IQ3_S, u16::from(*low) | u16::from(high >> bit & 1) << 8);
                *codes = signed_3(index(first, shift), index(second, shift + 1), signs);
            }
        }
        SuperBlock {
            scale: f16(self.scale),
            sub_scales: bytemuck::must_cast(each(&self.subs, odd_scales)),
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}
