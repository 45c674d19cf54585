//! NVFP4: 64 elements in 36 bytes, four parts of 16.
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | scale d of each part: a float of 8 bits (E4M3), whose sign does not count |
//! | 4..36 | 4-bit floats (E2M1) q, 8 bytes per part: the low nibbles are its first 8, the high ones the next |
//!
//! Element: (d / 2) * v, where v is twice the value of the float q, as in MXFP4.

use bytemuck::AnyBitPattern;

use super::block::{BlockOf, Parts, each};
use super::mxfp4::twice;

#[derive(Clone, Copy, AnyBitPattern)]
#[repr(C)]
pub(crate) struct Block {
    scales: [u8; 4],
    codes: [[u8; 8]; 4],
}

impl Parts<16, 4> for Block {
    #[inline(always)]
    fn parts(&self) -> [BlockOf<16>; 4] {
        // All codes are computed at once, so that compilers make vectors of it.
        let bytes: [u8; 32] = bytemuck::must_cast(self.codes);
        let [a, b, c, d]: [[i8; 8]; 4] = bytemuck::must_cast(each(&bytes, |byte| twice(byte & 15)));
        let [e, f, g, h]: [[i8; 8]; 4] = bytemuck::must_cast(each(&bytes, |byte| twice(byte >> 4)));
        let [i, j, k, l] = self.scales;
        let part = |scale, codes| BlockOf { scale: half_e4m3(scale), min: None, codes: bytemuck::must_cast(codes) };
        [part(i, [a, e]), part(j, [b, f]), part(k, [c, g]), part(l, [d, h])]
    }
}

/// Returns half of an E4M3 number without its sign. NaN, without its sign, counts as 0, as in llama.cpp.
#[inline(always)]
fn half_e4m3(bits: u8) -> f32 {
    let (exponent, mantissa) = (u32::from(bits >> 3 & 15), bits & 7);
    match (exponent, bits) {
        (_, 0x7f) => 0.0,
        // m * 2^-10.
        (0, _) => f32::from(mantissa) * f32::from_bits(117 << 23),
        // (1 + m / 8) * 2^(e - 8).
        _ => f32::from_bits((exponent + 119) << 23 | u32::from(mantissa) << 20),
    }
}
