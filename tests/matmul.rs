//! Rows of quantized weights times two or more rows of activations: every level gives the bits of the scalar one.

use common::random::Rng;
use common::scales::set_scales;
use gleed::kernels::{Inputs, Level, OUTPUTS};
use gleed::quant::{Form, form, quantize_row, row_words};
use gleed::tensor::{Dtype, TensorView};

fn quantized() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(|dtype| !form(*dtype).is_float())
}

/// Returns weights `[rows, cols]` of the given bytes. Every block gets scales and minima from `scale`.
fn weights(
    dtype: Dtype,
    rows: usize,
    cols: usize,
    byte: impl FnMut() -> u8,
    mut scale: impl FnMut() -> f32,
) -> Box<[u8]> {
    let len = rows * dtype.row_bytes(cols).unwrap();
    let mut bytes: Box<[u8]> = std::iter::repeat_with(byte).take(len).collect();
    for block in bytes.chunks_mut(dtype.block_bytes()) {
        set_scales(dtype, block, || half::f16::from_f32(scale()).to_bits());
    }
    bytes
}

/// Compares all levels with the scalar one. There is a gap between the rows of inputs, which must not matter.
fn check(dtype: Dtype, bytes: &[u8], weight_rows: usize, cols: usize, x: &[Vec<f32>], what: &str) {
    let weights = TensorView::new(dtype, weight_rows, cols, bytes).unwrap();
    let form = form(dtype);
    let len = row_words(form, cols).unwrap();
    let stride = len + 3;
    let mut words = vec![0xdead_beef; (x.len() - 1) * stride + len];
    for (x, words) in x.iter().zip(words.chunks_mut(stride)) {
        quantize_row(form, x, &mut words[..len]).unwrap();
    }
    let inputs = Inputs::new(form, x.len(), cols, &words, stride).unwrap();
    let run = |level: Level| -> Vec<u32> {
        // Scratch with any content, at an odd address.
        let mut scratch = vec![f32::NAN; level.products_scratch(dtype) + 1];
        let mut out = vec![f32::NAN; x.len() * OUTPUTS];
        level.products(weights, &inputs, &mut out, &mut scratch[1..]).unwrap();
        out.chunks(OUTPUTS).flat_map(|row| row[..weight_rows].iter().map(|y| y.to_bits())).collect()
    };
    let want = run(Level::SCALAR);
    Level::allow_amx();
    for level in Level::available() {
        let got = run(level);
        let shape = format!("{level} {dtype} {weight_rows} x {cols} x {} {what}", x.len());
        let wrong = got.iter().zip(&want).position(|(got, want)| got != want);
        assert_eq!(wrong.map(|i| (i, f32::from_bits(got[i]), f32::from_bits(want[i]))), None, "{shape}");
    }
}

fn random_rows(rng: &mut Rng, rows: usize, cols: usize) -> Vec<Vec<f32>> {
    (0..rows).map(|_| (0..cols).map(|_| rng.normal()).collect()).collect()
}

fn check_random(rng: &mut Rng, dtype: Dtype, weight_rows: usize, rows: usize, cols: usize) {
    let mut random = rng.clone();
    let bytes = weights(dtype, weight_rows, cols, || random.u64() as u8, || rng.uniform());
    let x = random_rows(rng, rows, cols);
    check(dtype, &bytes, weight_rows, cols, &x, "random");
}

#[test]
fn every_number_of_weight_rows() {
    let mut rng = Rng::new(1);
    for dtype in quantized() {
        for weight_rows in 1..=OUTPUTS {
            check_random(&mut rng, dtype, weight_rows, 2 + weight_rows % 3, 2 * dtype.block_len());
        }
    }
}

#[test]
fn every_tail_of_input_rows() {
    let mut rng = Rng::new(2);
    for dtype in quantized() {
        for rows in (1..=17).chain([33]).chain(47..=49).chain([64, 70]) {
            check_random(&mut rng, dtype, 19, rows, dtype.block_len());
        }
    }
}

#[test]
fn every_number_of_blocks() {
    let mut rng = Rng::new(3);
    for dtype in quantized() {
        for blocks in [1, 2, 3, 4, 5, 7, 9, 17] {
            check_random(&mut rng, dtype, 32, 9, blocks * dtype.block_len());
            check_random(&mut rng, dtype, 32, 50, blocks * dtype.block_len());
        }
        for cols in [1024, 1024 + dtype.block_len(), 2048, 3072 - dtype.block_len()] {
            check_random(&mut rng, dtype, 32, 11, cols);
        }
    }
}

#[test]
fn extreme_codes_and_scales() {
    let scales = [0.0, -0.0, 5.96e-8, -6.0e-5, 65504.0, -65504.0, 1.0, -0.1];
    for dtype in quantized() {
        let cols = 2 * dtype.block_len();
        for byte in [0x00, 0xff, 0x0f, 0xf0, 0x7f, 0x80, 0x88, 0x77, 0x3f, 0xc0, 0x55, 0xaa] {
            // Every row of weights has its own pair of scales.
            let per_row = 2 * 2;
            let mut i = 0;
            let scale = || {
                i += 1;
                scales[(i / per_row + i) % scales.len()]
            };
            let bytes = weights(dtype, 16, cols, || byte, scale);
            // Signs of the activations: all positive, all negative, alternating, equal to the weights', and opposite to
            // them.
            let mut signs = vec![vec![1.0; cols], vec![-1.0; cols]];
            signs.push((0..cols).map(|i| [1.0, -1.0][i % 2]).collect());
            let unit = weights(dtype, 1, cols, || byte, || 1.0);
            let mut w = vec![0.0; cols];
            gleed::quant::dequantize(dtype, &unit, &mut w).unwrap();
            signs.push(w.iter().map(|w| if *w < 0.0 { -1.0 } else { 1.0 }).collect());
            signs.push(w.iter().map(|w| if *w < 0.0 { 1.0 } else { -1.0 }).collect());
            for amax in [127.0, 1.0, 1.7e38, 3e-30, 0.0] {
                let x: Vec<Vec<f32>> = signs.iter().map(|s| s.iter().map(|s| s * amax).collect()).collect();
                let what = format!("{byte:#x} {amax}");
                check(dtype, &bytes, 16, cols, &x, &what);
                check(dtype, &bytes, 16, cols, &x.iter().cycle().take(50).cloned().collect::<Vec<_>>(), &what);
            }
        }
    }
}

#[test]
fn extreme_sub_scales_with_random_codes() {
    let mut rng = Rng::new(5);
    for dtype in quantized() {
        let cols = 2 * dtype.block_len();
        for round in 0..12 {
            let pattern: Vec<u8> = (0..7).map(|_| [0x00, 0xff, 0x7f, 0x80, 0x3f, 0xf0][rng.below(6)]).collect();
            let mut i = 0;
            let byte = || {
                i += 1;
                pattern[i % (1 + round % 7)]
            };
            let bytes = weights(dtype, 32, cols, byte, || rng.uniform());
            let x: Vec<Vec<f32>> = (0..8 + 41 * (round % 2))
                .map(|_| (0..cols).map(|_| if rng.u64() & 1 == 0 { 1.0 } else { -1.0 }).collect())
                .collect();
            check(dtype, &bytes, 32, cols, &x, "patterns");
        }
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let bytes = [0; 34 * 33];
    let words = [0; 10 * 2];
    let inputs = Inputs::new(Form::Q8x32, 2, 32, &words, 10).unwrap();
    Level::allow_amx();
    for level in Level::available() {
        let len = level.products_scratch(Dtype::Q8_0);
        let mut scratch = vec![0.0; len];
        let mut out = [0.0; 2 * OUTPUTS];
        let view = |rows: usize| TensorView::new(Dtype::Q8_0, rows, 32, &bytes[..34 * rows]).unwrap();
        assert_eq!(level.products(view(33), &inputs, &mut out, &mut scratch), None);
        assert_eq!(level.products(view(32), &inputs, &mut out[1..], &mut scratch), None);
        assert_eq!(level.products(view(0), &inputs, &mut out, &mut scratch), Some(()));
        assert_eq!(level.products(view(32), &inputs, &mut out, &mut scratch), Some(()));
        if len > 0 {
            assert_eq!(level.products(view(32), &inputs, &mut out, &mut scratch[1..]), None);
        }
    }
}
