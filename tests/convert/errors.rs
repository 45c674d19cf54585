//! The quantizers: as exact as llama.cpp's, and right where blocks are odd.

use std::path::Path;

use gleed::tensor::Dtype;

use crate::common::random::Rng;
use crate::quantize::quantize;

/// The mean squared errors of llama.cpp's quantizers on what [`elements`] makes, rounded down: measured with
/// `ggml_quantize_chunk` and no importance matrix (ggml 0.25.3, x86-64), the last three with llama.cpp's Python package gguf 0.19.0. With `GLEED_WRITE_ELEMENTS=FOLDER` the elements
/// are written as f32 for that.
const LLAMA_CPP: [(Dtype, [f64; 3]); 15] = [
    (Dtype::Q4_0, [2.8293e-6, 2.5594e-5, 2.5304e-5]),
    (Dtype::Q4_1, [2.3417e-6, 1.0493e-5, 2.3417e-6]),
    (Dtype::Q5_0, [6.9765e-7, 6.6118e-6, 6.3177e-6]),
    (Dtype::Q5_1, [5.4200e-7, 2.5281e-6, 5.4200e-7]),
    (Dtype::Q8_0, [1.0886e-8, 1.0846e-7, 1.0136e-7]),
    (Dtype::Q2_K, [3.3834e-5, 1.0556e-4, 1.2049e-4]),
    (Dtype::Q3_K, [8.7239e-6, 4.1256e-5, 8.2304e-5]),
    (Dtype::Q4_K, [1.9262e-6, 9.3233e-6, 5.9333e-6]),
    (Dtype::Q5_K, [5.0009e-7, 2.3835e-6, 1.4802e-6]),
    (Dtype::Q6_K, [1.1998e-7, 8.5799e-7, 1.1167e-6]),
    (Dtype::IQ4_NL, [2.2331e-6, 1.4835e-5, 3.4360e-5]),
    (Dtype::IQ4_XS, [2.2705e-6, 1.5244e-5, 3.5031e-5]),
    (Dtype::TQ1_0, [2.5095e-4, 4.8620e-4, 3.0773e-3]),
    (Dtype::TQ2_0, [2.5095e-4, 4.8620e-4, 3.0773e-3]),
    (Dtype::MXFP4, [5.0823e-6, 2.6899e-5, 9.0818e-5]),
];

/// 64 rows of 256: normal, with outliers, shifted.
fn elements() -> [Vec<f32>; 3] {
    let mut rng = Rng::new(12);
    let normal: Vec<f32> = (0..64 * 256).map(|_| rng.normal() * 0.02).collect();
    let outliers = normal.iter().enumerate().map(|(i, x)| if i % 64 == 11 { 10.0 * x } else { *x }).collect();
    let shifted = normal.iter().map(|x| x + 0.1).collect();
    [normal, outliers, shifted]
}

#[test]
fn errors_are_not_larger_than_those_of_llama_cpp() {
    let elements = elements();
    if let Ok(folder) = std::env::var("GLEED_WRITE_ELEMENTS") {
        for (name, x) in ["normal", "outliers", "shifted"].iter().zip(&elements) {
            std::fs::write(Path::new(&folder).join(name), bytemuck::cast_slice(x)).unwrap();
        }
    }
    for (dtype, limits) in LLAMA_CPP {
        for (x, limit) in elements.iter().zip(limits) {
            let mut blocks = vec![0; dtype.row_bytes(x.len()).unwrap()];
            quantize(dtype, x, &mut blocks).unwrap();
            let mut y = vec![0.0; x.len()];
            gleed::quant::dequantize(dtype, &blocks, &mut y).unwrap();
            let squares: f64 = x.iter().zip(&y).map(|(x, y)| f64::from(x - y).powi(2)).sum();
            let error = squares / x.len() as f64;
            println!("{}: {error:.3e}, llama.cpp's {limit:.3e}", dtype);
            assert!(error <= limit, "{}: {error:e} is more than {limit:e}", dtype);
        }
    }
}

/// Whether `convert` writes the type: the others need an importance matrix.
pub(crate) fn is_written(dtype: Dtype) -> bool {
    !dtype.name().starts_with("IQ") || dtype.name().starts_with("IQ4")
}

#[test]
fn types_that_need_an_importance_matrix_are_refused() {
    for dtype in Dtype::ALL.into_iter().filter(|&dtype| !is_written(dtype)) {
        let refused = quantize(dtype, &[1.0; 256], &mut vec![0; dtype.block_bytes()]).unwrap_err();
        assert!(refused.contains("importance matrix"), "{refused}");
    }
}

/// What is ternary already, or has two values, or is what a float of 4 bits can be, is kept as it is.
#[test]
fn low_formats_keep_what_they_can_hold() {
    let mut rng = Rng::new(4);
    for (dtype, values) in [
        (Dtype::Q1_0, &[-0.75, 0.75][..]),
        (Dtype::Q2_0, &[-0.75, 0.0, 0.75, 1.5]),
        (Dtype::TQ1_0, &[-0.75, 0.0, 0.75]),
        (Dtype::TQ2_0, &[-0.75, 0.0, 0.75]),
        (Dtype::MXFP4, &[-3.0, -2.0, -0.25, 0.0, 0.5, 0.75, 1.0, 1.5]),
        (Dtype::NVFP4, &[-3.0, -2.0, -0.25, 0.0, 0.5, 0.75, 1.0, 1.5]),
    ] {
        let x: Vec<f32> = (0..1024).map(|_| values[rng.below(values.len())]).collect();
        let (mut bytes, mut y) = (vec![0; dtype.row_bytes(x.len()).unwrap()], vec![0.0; x.len()]);
        quantize(dtype, &x, &mut bytes).unwrap();
        gleed::quant::dequantize(dtype, &bytes, &mut y).unwrap();
        assert!(x == y, "{dtype}");
    }
}

/// Blocks of zeros, of one value, with one element, of the smallest and of the largest numbers.
#[test]
fn odd_blocks() {
    let mut rng = Rng::new(3);
    let mut blocks: Vec<Vec<f32>> = Vec::new();
    for unit in [0.0, -0.0, 1e-45, 1e-30, 1e-8, 1.0, 60000.0] {
        blocks.push(vec![unit; 256]);
        blocks.push(vec![-unit; 256]);
        blocks.push((0..256).map(|i| if i == 77 { unit } else { 0.0 }).collect());
        blocks.push((0..256).map(|_| unit * rng.uniform()).collect());
        blocks.push((0..256).map(|i| unit * if i < 128 { 1.0 } else { 1e-3 }).collect());
    }
    for dtype in Dtype::ALL.into_iter().filter(|&dtype| is_written(dtype)) {
        // Few codes are far from most elements; a zero of Q1_0 is not.
        let few = matches!(dtype, Dtype::Q1_0 | Dtype::Q2_0 | Dtype::TQ1_0 | Dtype::TQ2_0);
        let part = if few { 1.0 } else { 0.35 };
        for x in &blocks {
            if dtype == Dtype::NVFP4 && x.iter().any(|x| x.abs() > 448.0 * 6.0) {
                assert!(quantize(dtype, x, &mut [0; 144]).unwrap_err().contains("cannot hold"));
                continue;
            }
            let mut bytes = vec![0; dtype.row_bytes(256).unwrap()];
            quantize(dtype, x, &mut bytes).unwrap();
            let mut y = vec![0.0; 256];
            gleed::quant::dequantize(dtype, &bytes, &mut y).unwrap();
            let norm = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            let (error, size) = (norm(&mut x.iter().zip(&y).map(|(x, y)| x - y)), norm(&mut x.iter().copied()));
            // Scales are f16 numbers, of which the smallest is 6e-8.
            assert!(error <= part * size + 256.0 * 6e-8, "{dtype}: {error} of {size}: {:?}", &x[..3]);
        }
    }
    for bad in [f32::NAN, f32::INFINITY, 1e9] {
        let refused = quantize(Dtype::Q4_K, &[bad; 256], &mut [0; 144]);
        assert!(refused.unwrap_err().contains("cannot hold"));
    }
}
