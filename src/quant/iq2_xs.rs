//! IQ2_XS: 256 elements in 74 bytes, sub-blocks of 16.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..66 | u16 per 8 elements: index of 9 bits, index of signs of 7 bits |
//! | 66..74 | 4-bit sub-scales s: 2j in the low nibble of byte j, 2j + 1 in the high one |
//!
//! Element: (d * (s + 1/2) / 4) * v, v of the codebook `grid_2` with its sign. In integers: (d / 8 * (2 s + 1)) * v.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, each, f16};
use super::codebook::{entry, even_signs, odd_scales, signed_2};
use super::grid_2::IQ2_XS;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    indices: [[u8; 2]; 32],
    subs: [u8; 8],
}

impl Layout256<16> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<16> {
        let codes = each(&self.indices, |bytes| {
            let index = u16::from_le_bytes(bytes);
            signed_2(entry(&IQ2_XS, index), even_signs(u32::from(index >> 9)))
        });
        SuperBlock {
            scale: f16(self.scale) * 0.125,
            sub_scales: bytemuck::must_cast(each(&self.subs, odd_scales)),
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}
