//! Positions of the scales in the blocks of each format, for tests that fill the rest of a block with any bytes.

#![allow(unreachable_pub)] // Some test files include only this module.

use gleed::tensor::Dtype;

/// Sets the scales of a block, including those of its minima. `f16` returns the bits of a number. Formats whose scales
/// are not f16 use as much of these bits as they have. No scale is NaN or infinite if no number is.
pub fn set_scales(dtype: Dtype, block: &mut [u8], mut f16: impl FnMut() -> u16) {
    let at: &[usize] = match dtype {
        Dtype::Q4_1 | Dtype::Q5_1 | Dtype::Q4_K | Dtype::Q5_K => &[0, 2],
        Dtype::Q2_K => &[80, 82],
        Dtype::Q3_K => &[108],
        Dtype::Q6_K => &[208],
        Dtype::TQ1_0 => &[52],
        Dtype::TQ2_0 => &[64],
        Dtype::MXFP4 => {
            // The scale is an exponent. A subnormal f16 becomes exponent 0 or 1, with which the scale is 0.
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
