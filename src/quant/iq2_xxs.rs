//! IQ2_XXS: 256 elements in 66 bytes, sub-blocks of 32.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..66 | 8 bytes per sub-block: four codebook indices, one per 8 elements; u32: four 7-bit sign indices, then s |
//!
//! Element: (d * (s + 1/2) / 4) * v, v of the codebook `grid_2` with its sign. In integers: (d / 8 * (2 s + 1)) * v.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, each, f16};
use super::codebook::{eight_even_signs, entry, sevens, signed_2};
use super::grid_2::IQ2_XXS;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    subs: [[[u8; 4]; 2]; 8],
}

impl Layout256<8> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<8> {
        let codes = each(&self.subs, |[indices, signs]| {
            let signs = eight_even_signs(sevens(u32::from_le_bytes(signs).into())).to_le_bytes();
            let mut codes = [[0; 8]; 4];
            for ((codes, &index), signs) in codes.iter_mut().zip(&indices).zip(signs) {
                *codes = signed_2(entry(&IQ2_XXS, u16::from(index)), signs);
            }
            codes
        });
        SuperBlock {
            scale: f16(self.scale) * 0.125,
            sub_scales: each(&self.subs, |[_, [.., last]]| (last >> 4) as i8 * 2 + 1),
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}
