//! Q4_K: 256 elements in 144 bytes, sub-blocks of 32.
//!
//! | bytes | what |
//! |---|---|
//! | 0..2 | scale d, f16 |
//! | 2..4 | scale of the minima dmin, f16 |
//! | 4..16 | eight 6-bit sub-scales s and eight 6-bit sub-minima m, see [`sub_scales_and_mins`] |
//! | 16..144 | 4-bit codes q, 32 bytes per 64 elements: the low nibbles are the first 32, the high ones the next |
//!
//! Element: (d * s) * q - (dmin * m).

use bytemuck::AnyBitPattern;

use super::block::{Layout256, Mins, SuperBlock, each, f16};

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scale: [u8; 2],
    min: [u8; 2],
    subs: [u8; 12],
    codes: [[u8; 32]; 4],
}

impl Layout256<8> for Block {
    #[inline(always)]
    fn unpack(&self) -> SuperBlock<8> {
        let (sub_scales, sub_mins) = sub_scales_and_mins(&self.subs);
        let codes = each(&self.codes, |bytes| [each(&bytes, |b| (b & 15) as i8), each(&bytes, |b| (b >> 4) as i8)]);
        SuperBlock {
            scale: f16(self.scale),
            sub_scales,
            mins: Some(Mins { min: f16(self.min), sub_mins }),
            codes: bytemuck::must_cast(codes),
        }
    }
}

/// Returns the eight 6-bit sub-scales and sub-minima of Q4_K and Q5_K from 12 bytes.
///
/// Bytes 0..4 hold sub-scales 0..4 in their low 6 bits, and bytes 4..8 sub-minima 0..4. Byte 8 + j holds the low 4 bits
/// of sub-scale 4 + j in its low nibble and of sub-minimum 4 + j in its high nibble. Their upper 2 bits are the upper
/// bits of bytes j and 4 + j.
#[inline(always)]
pub(super) fn sub_scales_and_mins(bytes: &[u8; 12]) -> ([i8; 8], [u8; 8]) {
    let [scales, mins, low]: [[u8; 4]; 3] = bytemuck::must_cast(*bytes);
    let six_bits = |low: [u8; 4], high: [u8; 4]| -> [u8; 4] {
        let (low, high) = (u32::from_le_bytes(low), u32::from_le_bytes(high));
        (low & 0x0f0f_0f0f | high >> 2 & 0x3030_3030).to_le_bytes()
    };
    let sub_scales: [u8; 8] = bytemuck::must_cast([scales.map(|b| b & 63), six_bits(low, scales)]);
    let sub_mins: [u8; 8] = bytemuck::must_cast([mins.map(|b| b & 63), six_bits(low.map(|b| b >> 4), mins)]);
    (sub_scales.map(|s| s as i8), sub_mins)
}
