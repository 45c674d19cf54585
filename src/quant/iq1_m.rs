//! IQ1_M: 256 elements in 56 bytes, sub-blocks of 16.
//!
//! | bytes | what |
//! |---|---|
//! | 0..32 | lower 8 bits of the codebook indices, one index per 8 elements |
//! | 32..48 | a nibble per index, the lower nibble first: upper 3 bits of the index, then the sign of delta |
//! | 48..56 | u16 per 64 elements: four sub-scales s of 3 bits, then a nibble of the scale d, f16, the lowest first |
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
    low: [[u8; 2]; 16],
    high: [u8; 16],
    subs: [[u8; 2]; 4],
}

impl Layout256<16> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<16> {
        let mut codes = [[[0; 8]; 2]; 16];
        for ((codes, low), high) in codes.iter_mut().zip(&self.low).zip(&self.high) {
            for ((codes, &low), shift) in codes.iter_mut().zip(low).zip([0, 4]) {
                let high = high >> shift;
                *codes = ternary(entry(&IQ1, u16::from(low) | u16::from(high & 7) << 8), high & 8 != 0);
            }
        }
        let subs = each(&self.subs, |bytes| {
            let subs = u16::from_le_bytes(bytes);
            each(&[0, 3, 6, 9], |shift| (subs >> shift & 7) as i8 * 2 + 1)
        });
        SuperBlock {
            scale: self.scale() * 0.125,
            sub_scales: bytemuck::must_cast(subs),
            mins: None,
            codes: bytemuck::must_cast(codes),
        }
    }
}

impl Block {
    #[inline(always)]
    fn scale(&self) -> f32 {
        let [[_, a], [_, b], [_, c], [_, d]] = self.subs;
        f16([a >> 4 | b & 0xf0, c >> 4 | d & 0xf0])
    }
}
