//! IQ1_S: 256 elements in 50 bytes, sub-blocks of 32.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..34 | lower 8 bits of the codebook indices, one index per 8 elements |
//! | 34..50 | u16 per sub-block: upper 3 bits of its four indices, sub-scale s of 3 bits, in bit 15 the sign of delta |
//!
//! Element: (d * (2 s + 1)) * (v + delta), v of the codebook `grid_1`, delta 1/8 or -1/8. In integers:
//! (d / 8 * (2 s + 1)) * (8 v + 1), or 8 v - 1.

use bytemuck::AnyBitPattern;

use super::block::{Layout256, SuperBlock, each, f16};
use super::codebook::{entry, ternary};
use super::grid_1::IQ1;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    low: [[u8; 4]; 8],
    high: [[u8; 2]; 8],
}

impl Layout256<8> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<8> {
        let mut codes = [[[0; 8]; 4]; 8];
        for ((codes, low), high) in codes.iter_mut().zip(&self.low).zip(&self.high) {
            let high = u16::from_le_bytes(*high);
            for ((codes, &low), shift) in codes.iter_mut().zip(low).zip([0, 3, 6, 9]) {
                let index = u16::from(low) | (high >> shift & 7) << 8;
                *codes = ternary(entry(&IQ1, index), high >> 15 == 1);
            }
        }
        SuperBlock {
            scale: f16(self.scale) * 0.125,
            sub_scales: each(&self.high, |[_, high]| (high >> 4 & 7) as i8 * 2 + 1),
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}
