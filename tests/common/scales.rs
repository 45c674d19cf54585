//! Where the blocks of a format have their scales, for tests that fill blocks with anything else.

#![allow(unreachable_pub)] // Some test files have this module alone.

use gleed::tensor::Dtype;

/// Sets the scales of a block, and those of its minima. `f16` gives the bits of a number; formats whose scales are no
/// f16 take what of these bits they have. No scale is NaN or infinite if no number is.
pub fn set_scales(dtype: Dtype, block: &mut [u8], mut f16: impl FnMut() -> u16) {
    let at: &[usize] = match dtype {
        Dtype::Q4_1 | Dtype::Q5_1 | Dtype::Q4_K | Dtype::Q5_K => &[0, 2],
        Dtype::Q2_K => &[80, 82],
        Dtype::Q3_K => &[108],
        Dtype::Q6_K => &[208],
        Dtype::TQ1_0 => &[52],
        Dtype::TQ2_0 => &[64],
        Dtype::MXFP4 => {
            // An exponent: of a subnormal number 0 or 1, with which the scale is 0.
            let bits = f16() & 0x7fff;
            block[0] = if bits < 0x400 { u8::from(bits != 0) } else { (bits >> 10) as u8 + 113 };
            return;
        }
        Dtype::NVFP4 => {
            block[..4].iter_mut().for_each(|scale| *scale = (f16() >> 6) as u8);
            return;
        }
        Dtype::IQ1_M => {
            let bits = f16();
            for (i, upper) in block[48..].iter_mut().skip(1).step_by(2).enumerate() {
                *upper = *upper & 15 | ((bits >> (4 * i) & 15) << 4) as u8;
            }
            return;
        }
        _ => &[0],
    };
    for &at in at {
        block[at..at + 2].copy_from_slice(&f16().to_le_bytes());
    }
}
