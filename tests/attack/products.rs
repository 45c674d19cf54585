//! Rows of weights of any bytes, times rows of activations.

use gleed::kernels::{Inputs, Level, OUTPUTS};
use gleed::quant::{form, row_words};
use gleed::tensor::{Dtype, TensorView};

use crate::{all_same, cases, finite, levels, random, tell};
use common::random::Rng;
use common::scales::set_scales;

/// Names, least and most rows of activations. One row, a few rows, and more rows than all kernels take together run
/// different kernels.
const FAMILIES: [(&str, usize, usize); 3] =
    [("products of one row", 1, 1), ("of a few rows", 2, 14), ("of many rows", 48, 67)];

#[test]
fn products_of_one_row() {
    attack(0);
}

#[test]
fn products_of_a_few_rows() {
    attack(1);
}

#[test]
fn products_of_many_rows() {
    attack(2);
}

fn attack(family: usize) {
    let mut rng = random(0xa77ac4 + family as u64);
    let (name, fewest, most) = FAMILIES[family];
    for dtype in formats() {
        let mut done = 0;
        while done < cases() {
            let inputs = fewest + rng.below(most - fewest + 1);
            done += compare(&mut rng, dtype, inputs);
        }
        tell(name, dtype.name(), done);
    }
}

/// Returns the formats that `GLEED_FORMATS` names, or all.
fn formats() -> Vec<Dtype> {
    let Ok(wanted) = std::env::var("GLEED_FORMATS") else { return Dtype::ALL.to_vec() };
    let named = |name: &str| Dtype::ALL.into_iter().find(|dtype| dtype.name().eq_ignore_ascii_case(name));
    wanted.split(',').map(|name| named(name).unwrap_or_else(|| panic!("GLEED_FORMATS: no format {name}"))).collect()
}

/// Rows of activations that the same weights meet, if a product has fewer. Making weights takes longer than one
/// product.
const MEET: usize = 16;

/// Compares all levels on the same data. Returns the number of outputs of each level.
fn compare(rng: &mut Rng, dtype: Dtype, inputs: usize) -> u64 {
    let rows = if rng.below(4) == 0 { 1 + rng.below(OUTPUTS) } else { OUTPUTS };
    let cols = match dtype.block_len() {
        1 => 1 + rng.below(70),
        len @ ..=64 => len * (1 + rng.below(256 / len)),
        len => len * (1 + rng.below(8) / 7),
    };
    let bytes = weights(rng, dtype, rows, cols);
    let view = TensorView::new(dtype, rows, cols, &bytes).unwrap();
    (0..(MEET / inputs).max(1)).map(|_| multiply(rng, view, inputs)).sum()
}

/// Multiplies rows of weights with new activations. Returns the number of outputs of each level.
fn multiply(rng: &mut Rng, view: TensorView<'_>, inputs: usize) -> u64 {
    let (dtype, rows, cols) = (view.dtype(), view.rows(), view.cols());
    let form = form(dtype);
    let len = row_words(form, cols).unwrap();
    // The last row ends where the allocation ends.
    let stride = len + rng.below(4);
    let mut words = vec![u32::MAX; (inputs - 1) * stride + len].into_boxed_slice();
    for words in words.chunks_mut(stride) {
        Level::SCALAR.quantize_row(form, &activations(rng, cols), &mut words[..len]).unwrap();
    }
    let inputs = Inputs::new(form, inputs, cols, &words, stride).unwrap();
    let run = |level: Level| {
        let mut out = vec![0.0; inputs.rows() * OUTPUTS].into_boxed_slice();
        let mut scratch = vec![f32::NAN; level.products_scratch(dtype)].into_boxed_slice();
        level.products(view, &inputs, &mut out, &mut scratch).unwrap();
        out
    };
    let expected = run(Level::SCALAR);
    for &level in levels() {
        let out = run(level);
        let mut pairs = out.chunks(OUTPUTS).zip(expected.chunks(OUTPUTS));
        assert!(pairs.all(|(a, b)| all_same(&a[..rows], &b[..rows])), "{level} {dtype} {rows} by {cols}, {inputs:?}");
    }
    (inputs.rows() * rows) as u64
}

/// Returns blocks of any bytes or of extreme bytes, some of them with finite scales.
fn weights(rng: &mut Rng, dtype: Dtype, rows: usize, cols: usize) -> Box<[u8]> {
    const EDGES: [u16; 10] = [0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x7bff, 0xfbff];
    const CODES: [u8; 6] = [0, 0xff, 0x80, 0x7f, 0x0f, 0xf0];
    let mut bytes = vec![CODES[rng.below(6)]; rows * dtype.row_bytes(cols).unwrap()].into_boxed_slice();
    match rng.below(4) {
        0 => bytes.iter_mut().for_each(|byte| *byte = CODES[rng.below(6)]),
        1 => {}
        _ => rng.fill(&mut bytes),
    }
    if rng.below(4) > 0 {
        for block in bytes.chunks_mut(dtype.block_bytes()).filter(|block| block.len() > 4) {
            set_scales(dtype, block, || match rng.below(4) {
                0 => EDGES[rng.below(EDGES.len())],
                _ => 0x2000 | rng.u64() as u16 & 0x87ff,
            });
        }
    }
    bytes
}

/// Returns a row that can be quantized: usual numbers, numbers of one size, or numbers of all sizes.
fn activations(rng: &mut Rng, cols: usize) -> Vec<f32> {
    let kind = rng.below(4);
    let one = |_| match kind {
        0 => finite(rng),
        1 => [1.0, -1.0][rng.below(2)],
        2 => (rng.uniform() * 127.0).round() * 0.5,
        _ => rng.uniform(),
    };
    (0..cols).map(one).collect()
}
