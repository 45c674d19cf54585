//! The quantizers: as exact as those of llama.cpp, and right for odd blocks.

use std::path::Path;

use gleed::tensor::Dtype;

use crate::quantize::{needs_importance, quantize};
use common::random::Rng;

/// Mean squared errors of llama.cpp's quantizers on the rows of [`elements`], rounded down. They were measured with
/// `ggml_quantize_chunk` and no importance matrix (ggml 0.25.3, x86-64), the last three with llama.cpp's Python package
/// gguf 0.19.0. For that, `GLEED_WRITE_ELEMENTS=FOLDER` writes the elements as f32.
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

/// Returns 64 rows of 256 numbers: normal ones, normal ones with outliers, and shifted ones.
fn elements() -> [Vec<f32>; 3] {
    let mut rng = Rng::new(12);
    let normal: Vec<f32> = (0..64 * 256).map(|_| rng.normal() * 0.02).collect();
    let outliers = normal.iter().enumerate().map(|(i, x)| if i % 64 == 11 { 10.0 * x } else { *x }).collect();
    let shifted = normal.iter().map(|x| x + 0.1).collect();
    [normal, outliers, shifted]
}

/// Mean squared errors of llama.cpp's quantizers with the importance of [`importance`], weighted by [`weights`].
const WITH_IMPORTANCE: [(Dtype, [f64; 3]); 18] = [
    (Dtype::Q4_0, [2.0202e-6, 2.4574e-5, 1.6708e-5]),
    (Dtype::Q4_1, [1.3414e-6, 7.4403e-6, 4.5188e-6]),
    (Dtype::Q5_0, [4.9359e-7, 6.1573e-6, 4.1298e-6]),
    (Dtype::Q5_1, [3.1879e-7, 1.7035e-6, 1.0451e-6]),
    (Dtype::Q2_K, [1.8574e-5, 6.2079e-5, 9.0375e-5]),
    (Dtype::Q3_K, [5.9752e-6, 3.2007e-5, 5.0678e-5]),
    (Dtype::Q4_K, [1.4076e-6, 8.1308e-6, 4.6654e-6]),
    (Dtype::Q5_K, [3.7959e-7, 2.1545e-6, 1.1765e-6]),
    (Dtype::Q6_K, [8.5937e-8, 7.6218e-7, 8.4536e-7]),
    (Dtype::IQ4_NL, [1.8775e-6, 1.3968e-5, 2.9484e-5]),
    (Dtype::IQ4_XS, [1.9431e-6, 1.4725e-5, 3.0309e-5]),
    (Dtype::IQ1_S, [7.0972e-5, 4.1350e-4, 8.3910e-4]),
    (Dtype::IQ1_M, [4.9212e-5, 2.1028e-4, 1.3048e-3]),
    (Dtype::IQ2_XXS, [2.7933e-5, 3.0099e-4, 5.5318e-4]),
    (Dtype::IQ2_XS, [1.8955e-5, 1.6016e-4, 2.9012e-4]),
    (Dtype::IQ2_S, [1.6591e-5, 1.4593e-4, 3.0388e-4]),
    (Dtype::IQ3_XXS, [6.4036e-6, 5.4777e-5, 1.0215e-4]),
    (Dtype::IQ3_S, [4.5376e-6, 4.2737e-5, 9.7753e-5]),
];

/// Returns the importance of each column. Some columns count much more than others.
fn importance() -> Vec<f32> {
    let mut rng = Rng::new(13);
    (0..256).map(|_| rng.uniform().powi(4) + 1e-3).collect()
}

/// Returns the importance, multiplied by the root of x * x plus its mean.
fn weights(x: &[f32], importance: &[f32]) -> Vec<f64> {
    let mean = x.iter().map(|x| f64::from(x * x)).sum::<f64>() / x.len() as f64;
    x.iter().zip(importance).map(|(x, w)| f64::from(*w) * (mean + f64::from(x * x)).sqrt()).collect()
}

/// Returns the mean squared error of rows of 256, weighted if there is an importance.
fn error(dtype: Dtype, x: &[f32], importance: Option<&[f32]>) -> f64 {
    let (mut sum, mut total) = (0.0, 0.0);
    for x in x.chunks(256) {
        let (mut blocks, mut y) = (vec![0; dtype.row_bytes(256).unwrap()], vec![0.0; 256]);
        quantize(dtype, x, importance, &mut blocks).unwrap();
        gleed::quant::dequantize(dtype, &blocks, &mut y).unwrap();
        let weights = importance.map_or_else(|| vec![1.0; 256], |importance| weights(x, importance));
        let squares = x.iter().zip(&y).map(|(x, y)| f64::from(x - y).powi(2));
        sum += squares.zip(&weights).map(|(square, w)| square * w).sum::<f64>();
        total += weights.iter().sum::<f64>();
    }
    sum / total
}

#[test]
fn errors_are_not_larger_than_those_of_llama_cpp() {
    let (elements, importance) = (elements(), importance());
    if let Ok(folder) = std::env::var("GLEED_WRITE_ELEMENTS") {
        for (name, x) in
            ["normal", "outliers", "shifted", "importance"].iter().zip(elements.iter().chain([&importance]))
        {
            std::fs::write(Path::new(&folder).join(name), bytemuck::cast_slice(x)).unwrap();
        }
    }
    let without = LLAMA_CPP.iter().map(|row| (row, None));
    let with = WITH_IMPORTANCE.iter().map(|row| (row, Some(&importance[..])));
    for ((dtype, limits), importance) in without.chain(with) {
        for (x, limit) in elements.iter().zip(limits) {
            let error = error(*dtype, x, importance);
            println!("{dtype}, {}: {error:.3e}, llama.cpp's {limit:.3e}", importance.is_some());
            assert!(error <= *limit, "{dtype}: {error:e} is more than {limit:e}, {}", importance.is_some());
        }
    }
}

/// Errors are smaller in columns with a large importance. An importance that is 0 or tiny does no harm.
#[test]
fn importance_moves_the_error() {
    let [x, ..] = elements();
    let half: Vec<f32> = (0..256).map(|i| if i % 2 == 0 { 1.0 } else { 0.0 }).collect();
    let squares = |dtype: Dtype, importance: &[f32]| {
        let (mut blocks, mut y) = (vec![0; dtype.row_bytes(256).unwrap()], vec![0.0; 256]);
        quantize(dtype, &x[..256], Some(importance), &mut blocks).unwrap();
        gleed::quant::dequantize(dtype, &blocks, &mut y).unwrap();
        let of = |odd: usize| (odd..256).step_by(2).map(|i| f64::from(x[i] - y[i]).powi(2)).sum::<f64>();
        [of(0), of(1), y.iter().map(|y| f64::from(*y)).sum()]
    };
    for (dtype, _) in WITH_IMPORTANCE {
        let [important, other, _] = squares(dtype, &half);
        let [even, _, same] = squares(dtype, &[1.0; 256]);
        assert!(important < even && important < other, "{dtype}: {important} of {even}, {other}");
        for unit in [0.0, 1e-38, 1e30] {
            assert_eq!(squares(dtype, &[unit; 256])[2], same, "{dtype}, {unit}");
        }
    }
}

#[test]
fn types_that_need_an_importance_matrix_are_refused() {
    let names = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS"];
    for dtype in Dtype::ALL {
        assert_eq!(needs_importance(dtype), names.contains(&dtype.name()));
        let written = quantize(dtype, &vec![1.0; dtype.block_len()], None, &mut vec![0; dtype.block_bytes()]);
        match written {
            Ok(()) => assert!(!needs_importance(dtype)),
            Err(error) => assert_eq!(error, format!("{dtype} cannot be written without an importance matrix")),
        }
    }
}

/// Weights that a low format can represent are kept exactly: two values, ternary values, or 4-bit floats.
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
        quantize(dtype, &x, None, &mut bytes).unwrap();
        gleed::quant::dequantize(dtype, &bytes, &mut y).unwrap();
        assert!(x == y, "{dtype}");
    }
}

/// Blocks of zeros, of one value, with one element, and of the smallest and the largest numbers.
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
    for dtype in Dtype::ALL {
        // With few codes most elements are far from a code, and Q1_0 has no zero. Codebooks have no zero, either.
        let part = match dtype.name() {
            "Q1_0" | "Q2_0" | "TQ1_0" | "TQ2_0" => 1.0,
            name if name.starts_with("IQ") && !name.starts_with("IQ4") => 1.1,
            _ => 0.35,
        };
        let importance = needs_importance(dtype).then_some(&[1.0; 256][..]);
        for x in &blocks {
            if dtype == Dtype::NVFP4 && x.iter().any(|x| x.abs() > 448.0 * 6.0) {
                assert!(quantize(dtype, x, importance, &mut [0; 144]).unwrap_err().contains("cannot hold"));
                continue;
            }
            let mut bytes = vec![0; dtype.row_bytes(256).unwrap()];
            quantize(dtype, x, importance, &mut bytes).unwrap();
            let mut y = vec![0.0; 256];
            gleed::quant::dequantize(dtype, &bytes, &mut y).unwrap();
            let norm = |x: &mut dyn Iterator<Item = f32>| x.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            let (error, size) = (norm(&mut x.iter().zip(&y).map(|(x, y)| x - y)), norm(&mut x.iter().copied()));
            // Scales are f16 numbers, and the smallest f16 is 6e-8.
            assert!(error <= part * size + 256.0 * 6e-8, "{dtype}: {error} of {size}: {:?}", &x[..3]);
        }
    }
    for bad in [f32::NAN, f32::INFINITY, 1e9] {
        let refused = quantize(Dtype::Q4_K, &[bad; 256], None, &mut [0; 144]);
        assert!(refused.unwrap_err().contains("cannot hold"));
    }
}
