//! A plain implementation of the element types of keys and values in section 7 of `docs/arithmetic.md`.
// Each test uses only a part of this module.
#![allow(dead_code, unreachable_pub)]

use gleed::KvElement;
use half::f16;

/// Returns a head of a key or a value as a reader gets it.
pub fn rounded(element: KvElement, head: &[f32]) -> Vec<f32> {
    let head: Vec<f32> = head.iter().map(|&x| if x.abs() < 2.0_f32.powi(-50) { 0.0 } else { x }).collect();
    match element {
        KvElement::F32 => head,
        KvElement::F16 => head.iter().map(|&x| f16::from_f32(x).to_f32()).collect(),
        KvElement::Q8_0 => head.chunks(32).flat_map(q8_0).collect(),
        KvElement::Q4_0 => head.chunks(32).flat_map(q4_0).collect(),
        _ => unreachable!(),
    }
}

fn q8_0(block: &[f32]) -> Vec<f32> {
    dequantize(block, scale(KvElement::Q8_0, block), 127.0)
}

fn q4_0(block: &[f32]) -> Vec<f32> {
    dequantize(block, scale(KvElement::Q4_0, block), 7.0)
}

/// Returns the scale of a block of q8_0 or q4_0.
pub fn scale(element: KvElement, block: &[f32]) -> f32 {
    let amax = amax(block);
    match element {
        KvElement::Q8_0 => smallest_scale(block, 127.0),
        // The largest element gets the code -8, so the scale has the opposite sign.
        _ if amax > 0.0 && block.contains(&amax) => -smallest_scale(block, 8.0),
        _ => smallest_scale(block, 8.0),
    }
}

fn dequantize(block: &[f32], scale: f32, largest: f32) -> Vec<f32> {
    if amax(block) == 0.0 {
        return vec![0.0; block.len()];
    }
    block.iter().map(|x| scale * (x * (1.0 / scale)).round_ties_even().min(largest)).collect()
}

fn amax(block: &[f32]) -> f32 {
    block.iter().fold(0.0, |amax, x| x.abs().max(amax))
}

/// Returns the smallest f16 with which the codes up to `largest` reach every element.
fn smallest_scale(block: &[f32], largest: f32) -> f32 {
    let amax = f64::from(amax(block));
    let (mut low, mut high) = (0, 0x7c00);
    while low < high {
        let middle = (low + high) / 2;
        if f16::from_bits(middle).to_f64() * f64::from(largest) >= amax { high = middle } else { low = middle + 1 }
    }
    f16::from_bits(low).to_f32()
}
