//! TQ2_0: 256 elements in 66 bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..64 | 2-bit codes q, 32 bytes per 128 elements: bits 2j and 2j + 1 of byte i are element 32 j + i |
//! | 64..66 | scale d, f16 |
//!
//! Element: d * (q - 1).

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, each, f16};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    codes: [[u8; 32]; 2],
    scale: [u8; 2],
}

impl Layout256<8> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<8> {
        let codes =
            each(&self.codes, |bytes| each(&[0, 2, 4, 6], |shift| each(&bytes, |b| (b >> shift & 3) as i8 - 1)));
        SuperBlock { scale: f16(self.scale), sub_scales: [1; 8], mins: None, codes: bytemuck::must_cast(codes) }
    }
}
