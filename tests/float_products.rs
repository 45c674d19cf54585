//! Products of F32, F16 and BF16 weights, and the operations on their results: every level against scalar, bit for bit.

#[path = "common/random.rs"]
mod random;

use gleed::kernels::{Activation, Combine, Inputs, Level, Norm, NormKind, OUTPUTS};
use gleed::num::short;
use gleed::quant::{Form, form, row_words};
use gleed::tensor::{Dtype, TensorView};
use half::{bf16, f16};
use random::Rng;

/// Returns a number of any size, including zeros and subnormals, but none so large that a sum overflows.
fn number(rng: &mut Rng) -> f32 {
    match rng.below(16) {
        0 => 0.0,
        1 => -0.0,
        2 => rng.normal() * 1e-40,
        3 => rng.normal() * 6e-6,
        4 => rng.normal() * 1e4,
        _ => rng.normal(),
    }
}

fn encode(dtype: Dtype, numbers: impl Iterator<Item = f32>) -> Box<[u8]> {
    let bytes: Vec<u8> = match dtype {
        Dtype::F32 => numbers.flat_map(f32::to_le_bytes).collect(),
        Dtype::F16 => numbers.flat_map(|x| f16::from_f32(x).to_le_bytes()).collect(),
        _ => numbers.flat_map(|x| bf16::from_f32(x).to_le_bytes()).collect(),
    };
    // An allocation ends where its contents end.
    bytes.into_boxed_slice()
}

/// Returns the bits of the products: `[rows of inputs][rows of weights]`.
fn products(level: Level, weights: TensorView<'_>, inputs: &Inputs<'_>) -> Vec<u32> {
    let mut out = vec![0.0_f32; inputs.rows() * OUTPUTS];
    // One more element, so that scratch can begin at any address.
    let mut scratch = vec![f32::NAN; level.products_scratch(weights.dtype()) + 1];
    level.products(weights, inputs, &mut out, &mut scratch[inputs.rows() % 2..]).unwrap();
    out.chunks_exact(OUTPUTS).flat_map(|out| &out[..weights.rows()]).map(|x| x.to_bits()).collect()
}

fn check(rng: &mut Rng, dtype: Dtype, rows: usize, inputs: usize, cols: usize) {
    let bytes = encode(dtype, (0..rows * cols).map(|_| number(rng)));
    let weights = TensorView::new(dtype, rows, cols, &bytes).unwrap();
    let form = form(dtype);
    // The last row of the inputs ends where the allocation ends.
    let words: Box<[u32]> = (0..inputs * (cols + 5) - 5).map(|_| in_form(form, number(rng)).to_bits()).collect();
    let inputs = Inputs::new(form, inputs, cols, &words, cols + 5).unwrap();
    let expected = products(Level::SCALAR, weights, &inputs);
    for level in Level::available() {
        assert!(products(level, weights, &inputs) == expected, "{level}: {dtype} {rows} by {cols}, {inputs:?}");
    }
}

fn in_form(form: Form, x: f32) -> f32 {
    if form == Form::Short { short(x) } else { x }
}

#[test]
fn levels_are_equal() {
    let mut rng = Rng::new(31);
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for rows in 1..=OUTPUTS {
            check(&mut rng, dtype, rows, 1 + rows % 4, 40);
        }
        for inputs in [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 33, 64] {
            check(&mut rng, dtype, 7, inputs, 96);
        }
        for cols in (1..36).chain([160, 576, 2048]) {
            check(&mut rng, dtype, 9, 3, cols);
            check(&mut rng, dtype, 9, 1, cols);
            check(&mut rng, dtype, 9, 8, cols);
        }
    }
}

/// Many rows of inputs: every remainder of a tile, and several chunks of columns with several blocks of rows.
#[test]
fn levels_are_equal_in_batches() {
    let mut rng = Rng::new(33);
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for rows in 1..=OUTPUTS {
            check(&mut rng, dtype, rows, 12 + rows % 3, 33);
        }
        for inputs in 1..40 {
            check(&mut rng, dtype, 10, inputs, 50);
        }
        for cols in [575, 576, 577, 591, 1024, 1025, 1537, 3072] {
            for inputs in [7, 12, 14, 16] {
                check(&mut rng, dtype, 3, inputs, cols);
            }
        }
        for inputs in [47, 48, 49, 50, 96, 97, 128] {
            check(&mut rng, dtype, 3, inputs, 800);
        }
    }
}

#[test]
fn what_is_not_finite_is_no_panic() {
    let bytes = encode(Dtype::F32, [f32::NAN, f32::INFINITY, 1.0].into_iter());
    let words = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN].map(f32::to_bits);
    let inputs = Inputs::new(Form::F32, 1, 3, &words, 3).unwrap();
    for level in Level::available() {
        let weights = TensorView::new(Dtype::F32, 1, 3, &bytes).unwrap();
        assert!(f32::from_bits(products(level, weights, &inputs)[0]).is_nan());
    }
}

/// Norms, activations and quantization.
#[test]
fn the_rest_is_equal_too() {
    let mut rng = Rng::new(32);
    for len in (1..70).chain([256, 512, 1000]) {
        let (x, y): (Vec<f32>, Vec<f32>) = (0..len).map(|_| (number(&mut rng), rng.normal() * 30.0)).unzip();
        let weight = encode(Dtype::F32, (0..len).map(|_| rng.normal()));
        let results = |level: Level| {
            let mut bits = Vec::new();
            let mut out = vec![0.0; len];
            for (kind, bias) in [(NormKind::Rms, &[][..]), (NormKind::Layer, &weight)] {
                let how = Norm { kind, epsilon: 1e-5, weight: &weight, bias };
                level.norm(&how, &x, &mut out);
                bits.extend(out.iter().map(|x| x.to_bits()));
                out.copy_from_slice(&y);
                level.norm_in_place(&how, &mut out);
                bits.extend(out.iter().map(|x| x.to_bits()));
            }
            out.copy_from_slice(&y);
            level.soft_cap(5.0, &mut out);
            bits.extend(out.iter().map(|x| x.to_bits()));
            let functions = Activation::ALL.into_iter().flat_map(|f| [Combine::Activate(f), Combine::Gate(f)]);
            for how in [Combine::Set, Combine::Add, Combine::AddScaled(0.3)].into_iter().chain(functions) {
                out.copy_from_slice(&y);
                level.combine(how, &mut out, &x);
                bits.extend(out.iter().map(|x| x.to_bits()));
            }
            for form in [Form::F32, Form::Short, Form::Q8x32, Form::Q8x256] {
                let Some(words) = row_words(form, len) else { continue };
                let mut words = vec![0; words];
                level.quantize_row(form, &y, &mut words).unwrap();
                bits.extend(words);
            }
            bits
        };
        let expected = results(Level::SCALAR);
        for level in Level::available() {
            assert!(results(level) == expected, "{level}: {len}");
        }
    }
}
