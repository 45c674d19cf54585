//! Q2_0: 64 elements in 18 bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..18 | 2-bit codes q: bits 2j and 2j + 1 of byte i are element 4 i + j |
//!
//! Element: d * (q - 1).

use bytemuck::AnyBitPattern;

use super::block::{BlockOf, Parts, each, f16};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    codes: [[u8; 8]; 2],
}

impl Parts<32, 2> for Block {
    #[inline(always)]
    fn parts(&self) -> [BlockOf<32>; 2] {
        let scale = f16(self.scale);
        self.codes.map(|bytes| {
            let codes = each(&bytes, |byte| each(&[0, 2, 4, 6], |shift| (byte >> shift & 3) as i8 - 1));
            BlockOf { scale, min: None, codes: bytemuck::must_cast(codes) }
        })
    }
}
