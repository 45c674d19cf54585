//! IQ3_XXS: 256 elements in 98 bytes, sub-blocks of 32.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..66 | codebook indices, one index per 4 elements |
//! | 66..98 | u32 per sub-block: four sign indices of 7 bits, one per 8 elements, then sub-scale s |
//!
//! Element: (d * (s + 1/2) / 2) * v, v of the codebook `grid_3` with its sign. In integers: (d / 4 * (2 s + 1)) * v.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, each, f16};
use super::codebook::{eight_even_signs, entry, sevens, signed_3};
use super::grid_3::IQ3_XXS;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    indices: [[[u8; 2]; 4]; 8],
    subs: [[u8; 4]; 8],
}

impl Layout256<8> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<8> {
        let mut codes = [[[0; 8]; 4]; 8];
        for ((codes, indices), signs) in codes.iter_mut().zip(&self.indices).zip(&self.subs) {
            let signs = eight_even_signs(sevens(u32::from_le_bytes(*signs).into())).to_le_bytes();
            for ((codes, indices), signs) in codes.iter_mut().zip(indices).zip(signs) {
                let [first, second] = indices.map(|index| entry(&IQ3_XXS, u16::from(index)));
                *codes = signed_3(first, second, signs);
            }
        }
        SuperBlock {
            scale: f16(self.scale) * 0.25,
            sub_scales: each(&self.subs, |[.., last]| (last >> 4) as i8 * 2 + 1),
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}
