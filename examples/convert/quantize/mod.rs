//! Elements to blocks: each format is written with as small a squared error as a search in reasonable time finds.

mod fp4;
mod grid;
mod iq4;
mod k;
mod legacy;
mod low;
mod sub_scales;

use gleed::tensor::Dtype;
use half::{bf16, f16};

/// Writes rows of elements as `dtype`. `out` has the bytes of all of them.
pub(crate) fn quantize(dtype: Dtype, x: &[f32], out: &mut [u8]) -> Result<(), String> {
    check(dtype, x)?;
    match dtype {
        Dtype::F32 => blocks(x, out, |x: &[f32; 1], out| out.copy_from_slice(&x[0].to_le_bytes())),
        Dtype::F16 => blocks(x, out, |x: &[f32; 1], out| out.copy_from_slice(&f16::from_f32(x[0]).to_le_bytes())),
        Dtype::BF16 => blocks(x, out, |x: &[f32; 1], out| out.copy_from_slice(&bf16::from_f32(x[0]).to_le_bytes())),
        Dtype::Q4_0 => blocks(x, out, legacy::q4_0),
        Dtype::Q4_1 => blocks(x, out, legacy::q4_1),
        Dtype::Q5_0 => blocks(x, out, legacy::q5_0),
        Dtype::Q5_1 => blocks(x, out, legacy::q5_1),
        Dtype::Q8_0 => blocks(x, out, legacy::q8_0),
        Dtype::Q2_K => blocks(x, out, k::q2_k),
        Dtype::Q3_K => blocks(x, out, k::q3_k),
        Dtype::Q4_K => blocks(x, out, k::q4_k),
        Dtype::Q5_K => blocks(x, out, k::q5_k),
        Dtype::Q6_K => blocks(x, out, k::q6_k),
        Dtype::IQ4_NL => blocks(x, out, iq4::iq4_nl),
        Dtype::IQ4_XS => blocks(x, out, iq4::iq4_xs),
        Dtype::Q1_0 => blocks(x, out, low::q1_0),
        Dtype::Q2_0 => blocks(x, out, low::q2_0),
        Dtype::TQ1_0 => blocks(x, out, low::tq1_0),
        Dtype::TQ2_0 => blocks(x, out, low::tq2_0),
        Dtype::MXFP4 => blocks(x, out, fp4::mxfp4),
        Dtype::NVFP4 => blocks(x, out, fp4::nvfp4),
        other => return Err(format!("{other} cannot be written: its quantization needs an importance matrix")),
    }
    Ok(())
}

/// Refuses what the type cannot hold.
fn check(dtype: Dtype, x: &[f32]) -> Result<(), String> {
    let limit = match dtype {
        Dtype::F32 | Dtype::BF16 | Dtype::MXFP4 => f32::MAX,
        // The largest scale times the largest code.
        Dtype::NVFP4 => 448.0 * 6.0,
        // Also the largest scale.
        _ => 65504.0,
    };
    match x.iter().find(|x| x.is_nan() || x.abs() > limit) {
        Some(x) => Err(format!("it has an element {x}, which {dtype} cannot hold")),
        None => Ok(()),
    }
}

/// Block after block.
fn blocks<const LEN: usize>(x: &[f32], out: &mut [u8], block: impl Fn(&[f32; LEN], &mut [u8])) {
    let blocks = x.as_chunks::<LEN>().0;
    let bytes = out.len() / blocks.len().max(1);
    for (x, out) in blocks.iter().zip(out.chunks_mut(bytes.max(1))) {
        block(x, out);
    }
}
