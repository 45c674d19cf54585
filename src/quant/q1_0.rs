//! Q1_0: 128 elements in 18 bytes.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..18 | 1-bit codes q: bit j of byte i is element 8 i + j |
//!
//! Element: d * (2 q - 1).

use bytemuck::AnyBitPattern;

use super::block::{BlockOf, Parts, each, f16};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    bits: [[u8; 4]; 4],
}

impl Parts<32, 4> for Block {
    #[inline(always)]
    fn parts(&self) -> [BlockOf<32>; 4] {
        let scale = f16(self.scale);
        self.bits.map(|bytes| {
            let codes = each(&bytes, |byte| each(&[0, 1, 2, 3, 4, 5, 6, 7], |bit| (byte >> bit & 1) as i8 * 2 - 1));
            BlockOf { scale, min: None, codes: bytemuck::must_cast(codes) }
        })
    }
}
