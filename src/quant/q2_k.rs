//! Q2_K: 256 elements in 84 bytes, sub-blocks of 16.
//!
//! | bytes | what |
//! |---|---|
//! | 0..16 | per sub-block: 4-bit sub-scale s in the low nibble, 4-bit sub-minimum m in the high one |
//! | 16..80 | 2-bit codes q, 32 bytes per 128 elements: bits 2j and 2j + 1 of byte i are element 32 j + i |
//! | 80..82 | scale d, f16 |
//! | 82..84 | scale of the minima dmin, f16 |
//!
//! Element: (d * s) * q - (dmin * m).

use bytemuck::AnyBitPattern;

use super::block::{Layout256, Mins, SuperBlock, each, f16};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    subs: [u8; 16],
    codes: [[u8; 32]; 2],
    scale: [u8; 2],
    min: [u8; 2],
}

impl Layout256<16> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<16> {
        let codes = each(&self.codes, |bytes| each(&[0, 2, 4, 6], |shift| each(&bytes, |b| (b >> shift & 3) as i8)));
        SuperBlock {
            scale: f16(self.scale),
            sub_scales: each(&self.subs, |b| (b & 15) as i8),
            mins: Some(Mins { min: f16(self.min), sub_mins: each(&self.subs, |b| b >> 4) }),
            codes: bytemuck::must_cast(codes),
        }
    }
}
