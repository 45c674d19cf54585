//! Quantizes elements to blocks. Each format is written with the smallest squared error that a search in reasonable
//! time finds.

mod codebook;
mod fp4;
mod grid;
mod iq;
mod iq4;
mod k;
mod lattice;
mod legacy;
mod low;
mod sub_scales;

use gleed::tensor::Dtype;
use grid::Elements;
use half::{bf16, f16};

/// Writes a row of elements as `dtype`. `importance` has the importance of each column. `out` is as long as the row's
/// bytes.
pub(crate) fn quantize(dtype: Dtype, x: &[f32], importance: Option<&[f32]>, out: &mut [u8]) -> Result<(), String> {
    check(dtype, x)?;
    if needs_importance(dtype) && importance.is_none() {
        return Err(format!("{dtype} cannot be written without an importance matrix"));
    }
    match dtype {
        Dtype::F32 => out.copy_from_slice(bytemuck::cast_slice(&each(x, f32::to_le_bytes))),
        Dtype::F16 => out.copy_from_slice(bytemuck::cast_slice(&each(x, |x| f16::from_f32(x).to_le_bytes()))),
        Dtype::BF16 => out.copy_from_slice(bytemuck::cast_slice(&each(x, |x| bf16::from_f32(x).to_le_bytes()))),
        _ => {
            let w = weights(x, importance, dtype.block_len());
            blocks(dtype, Elements { x, w: &w }, out)?;
        }
    }
    Ok(())
}

/// Returns whether the result is useless without an importance matrix.
pub(crate) fn needs_importance(dtype: Dtype) -> bool {
    use Dtype as D;
    matches!(dtype, D::IQ1_S | D::IQ1_M | D::IQ2_XXS | D::IQ2_XS | D::IQ2_S | D::IQ3_XXS)
}

fn each<T>(x: &[f32], bytes: impl Fn(f32) -> T) -> Vec<T> {
    x.iter().copied().map(bytes).collect()
}

/// Returns the weights of the squared errors: the importance times the root of x * x plus its mean, or 1.
///
/// So large elements count more than small ones, but less than by their square. The weights of each block have the mean
/// 1.
fn weights(x: &[f32], importance: Option<&[f32]>, block_len: usize) -> Vec<f32> {
    let Some(importances) = importance else { return vec![1.0; x.len()] };
    let mean = importances.iter().copied().map(f64::from).sum::<f64>() / importances.len().max(1) as f64;
    // An element without importance still gets a code near its value.
    let importance = |value: f32| if mean > 0.0 { (f64::from(value) / mean).max(1e-6) as f32 } else { 1.0 };
    let mut weights: Vec<f32> = importances.iter().copied().map(importance).collect();
    let span = if block_len == 256 { 256 } else { x.len() };
    for (weights, x) in weights.chunks_mut(span).zip(x.chunks(span)) {
        let square = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
        weights.iter_mut().zip(x).for_each(|(w, x)| *w *= (square + x * x).sqrt());
        weights.chunks_mut(block_len).for_each(normalize);
    }
    weights
}

/// Scales the weights so that their mean is 1.
fn normalize(weights: &mut [f32]) {
    let mean = weights.iter().sum::<f32>() / weights.len() as f32;
    let usable = mean > f32::MIN_POSITIVE;
    weights.iter_mut().for_each(|w| *w = if usable { *w / mean } else { 1.0 });
}

/// Refuses elements that the type cannot hold.
fn check(dtype: Dtype, x: &[f32]) -> Result<(), String> {
    let limit = match dtype {
        Dtype::F32 | Dtype::BF16 | Dtype::MXFP4 => f32::MAX,
        // The largest scale times the largest code.
        Dtype::NVFP4 => 448.0 * 6.0,
        // The largest f16, which bounds scales, too.
        _ => 65504.0,
    };
    match x.iter().find(|x| x.is_nan() || x.abs() > limit) {
        Some(x) => Err(format!("it has an element {x}, which {dtype} cannot hold")),
        None => Ok(()),
    }
}

/// Writes the elements block by block.
fn blocks(dtype: Dtype, elements: Elements<'_>, out: &mut [u8]) -> Result<(), String> {
    let block = writer(dtype).ok_or_else(|| format!("this build does not know {dtype}"))?;
    for (elements, out) in elements.parts(dtype.block_len()).zip(out.chunks_mut(dtype.block_bytes())) {
        block(elements, out);
    }
    Ok(())
}

/// A function that writes a block.
type Writer = Box<dyn Fn(Elements<'_>, &mut [u8])>;

fn writer(dtype: Dtype) -> Option<Writer> {
    Some(match dtype {
        Dtype::Q4_0 => Box::new(legacy::q4_0),
        Dtype::Q4_1 => Box::new(legacy::q4_1),
        Dtype::Q5_0 => Box::new(legacy::q5_0),
        Dtype::Q5_1 => Box::new(legacy::q5_1),
        Dtype::Q8_0 => Box::new(legacy::q8_0),
        Dtype::Q2_K => Box::new(k::q2_k),
        Dtype::Q3_K => Box::new(k::q3_k),
        Dtype::Q4_K => Box::new(k::q4_k),
        Dtype::Q5_K => Box::new(k::q5_k),
        Dtype::Q6_K => Box::new(k::q6_k),
        Dtype::IQ4_NL => Box::new(iq4::iq4_nl),
        Dtype::IQ4_XS => Box::new(iq4::iq4_xs),
        Dtype::Q1_0 => Box::new(low::q1_0),
        Dtype::Q2_0 => Box::new(low::q2_0),
        Dtype::TQ1_0 => Box::new(low::tq1_0),
        Dtype::TQ2_0 => Box::new(low::tq2_0),
        Dtype::MXFP4 => Box::new(fp4::mxfp4),
        Dtype::NVFP4 => Box::new(fp4::nvfp4),
        other => {
            let lattice = iq::lattice(other)?;
            Box::new(|elements, out| lattice.write(elements, out))
        }
    })
}
