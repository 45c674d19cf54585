//! The matrix kernels of every level of this machine give the bits of the scalar one.

#[path = "common/scales.rs"]
mod scales;

use gleed::kernels::{Inputs, Level, OUTPUTS};
use gleed::quant::{Form, form, row_words};
use gleed::tensor::{Dtype, TensorView};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).take(len).collect()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.next() as usize % from.len()]
    }
}

/// Contents of the weights and activations of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fill {
    /// Random weights, and activations quantized from random numbers.
    Random,
    /// Extremes: the byte of all codes, the byte of all sub-scales, and the code of all activations. With code 1, each
    /// activation is 127 or -127.
    Extreme(u8, u8, i8),
}

/// Returns the quantized types.
fn quantized() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.into_iter().filter(|&dtype| !form(dtype).is_float())
}

/// Returns the range of the sub-scales and sub-minima in a block.
fn sub_scales(dtype: Dtype) -> std::ops::Range<usize> {
    match dtype {
        Dtype::Q2_K => 0..16,
        Dtype::Q3_K => 96..108,
        Dtype::Q4_K | Dtype::Q5_K => 4..16,
        Dtype::Q6_K => 192..208,
        Dtype::IQ4_XS => 2..8,
        Dtype::IQ1_S => 34..50,
        Dtype::IQ1_M => 48..56,
        Dtype::IQ2_XS => 66..74,
        Dtype::IQ2_S => 74..82,
        Dtype::IQ3_XXS => 66..98,
        Dtype::IQ3_S => 106..110,
        _ => 0..0,
    }
}

/// Returns rows of weights in an allocation that ends with them.
fn weights(dtype: Dtype, rows: usize, cols: usize, fill: Fill, random: &mut Random) -> Box<[u8]> {
    // Zeros, subnormal numbers, the smallest normal number, one, and the largest number.
    const EDGES: [u16; 10] = [0, 0x8000, 1, 0x8001, 0x03ff, 0x0400, 0x3c00, 0xbc00, 0x7bff, 0xfbff];
    let len = rows * dtype.row_bytes(cols).unwrap();
    let mut bytes = match fill {
        Fill::Random => random.bytes(len),
        Fill::Extreme(byte, ..) => vec![byte; len],
    };
    for block in bytes.chunks_mut(dtype.block_bytes()) {
        if let Fill::Extreme(_, sub, _) = fill {
            block[sub_scales(dtype)].fill(sub);
        }
        scales::set_scales(dtype, block, || {
            let ordinary = 0x2000 | random.next() as u16 & 0x87ff;
            let edge = random.pick(&EDGES);
            if random.next().is_multiple_of(4) { edge } else { ordinary }
        });
    }
    bytes.into_boxed_slice()
}

/// Returns rows of activations, and the number of words from one row to the next.
fn activations(form: Form, rows: usize, cols: usize, fill: Fill, random: &mut Random) -> (Box<[u32]>, usize) {
    let len = row_words(form, cols).unwrap();
    let stride = len + 3;
    let mut words = vec![0; (rows - 1) * stride + len].into_boxed_slice();
    for row in words.chunks_mut(stride) {
        let x: Vec<f32> = (0..cols)
            .map(|i| match fill {
                Fill::Random => (random.next() >> 40) as f32 * 1e-6 - 8.0,
                Fill::Extreme(.., code) if i % 256 == 0 || code.unsigned_abs() == 127 => f32::from(code) / 127.0,
                Fill::Extreme(..) => {
                    if random.next().is_multiple_of(2) {
                        1.0
                    } else {
                        -1.0
                    }
                }
            })
            .collect();
        Level::SCALAR.quantize_row(form, &x, &mut row[..len]).unwrap();
    }
    (words, stride)
}

/// Returns the outputs of a level, as bits.
fn products(level: Level, weights: TensorView<'_>, inputs: &Inputs<'_>) -> Vec<Vec<u32>> {
    let mut out = vec![f32::NAN; inputs.rows() * OUTPUTS].into_boxed_slice();
    let need = level.products_scratch(weights.dtype());
    let mut scratch = vec![f32::NAN; need].into_boxed_slice();
    level.products(weights, inputs, &mut out, &mut scratch).unwrap();
    out.chunks(OUTPUTS).map(|out| out[..weights.rows()].iter().map(|y| y.to_bits()).collect()).collect()
}

fn check(dtype: Dtype, rows: usize, inputs: usize, cols: usize, fill: Fill, random: &mut Random) {
    let bytes = weights(dtype, rows, cols, fill, random);
    let weights = TensorView::new(dtype, rows, cols, &bytes).unwrap();
    let (words, stride) = activations(form(dtype), inputs, cols, fill, random);
    let inputs = Inputs::new(form(dtype), inputs, cols, &words, stride).unwrap();
    let want = products(Level::SCALAR, weights, &inputs);
    Level::allow_amx();
    for level in Level::available().skip(1) {
        let got = products(level, weights, &inputs);
        assert!(got == want, "{level} {dtype} {rows} x {cols}, {} inputs, {fill:?}", inputs.rows());
    }
}

#[test]
fn every_number_of_rows_of_weights() {
    let mut random = Random(1);
    for dtype in quantized() {
        for rows in 1..=OUTPUTS {
            Level::allow_amx();
            for inputs in [1, 3, 50] {
                check(dtype, rows, inputs, dtype.block_len() * 2, Fill::Random, &mut random);
            }
        }
    }
}

#[test]
fn every_number_of_inputs_and_blocks() {
    let mut random = Random(2);
    for dtype in quantized() {
        for (i, inputs) in [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64].into_iter().enumerate() {
            for blocks in [1, 2, 3, 5, 9] {
                let rows = [5, 16, 23, 32][(i + blocks) % 4];
                check(dtype, rows, inputs, dtype.block_len() * blocks, Fill::Random, &mut random);
            }
        }
    }
}

#[test]
fn wide_rows() {
    let mut random = Random(3);
    for dtype in quantized() {
        for (rows, inputs, cols) in [(32, 1, 2048), (17, 6, 2048), (3, 2, 4096), (9, 1, 2048 + 256), (9, 5, 1024 + 256)]
        {
            check(dtype, rows, inputs, cols, Fill::Random, &mut random);
        }
    }
}

#[test]
fn extreme_codes() {
    let mut random = Random(4);
    for dtype in quantized() {
        let subs: &[u8] = if sub_scales(dtype).is_empty() { &[0] } else { &[0x00, 0x7f, 0x80, 0xff] };
        for byte in [0x00, 0x7f, 0x80, 0x81, 0xff, 0x0f, 0xf0, 0x88] {
            for (&sub, code) in subs.iter().flat_map(|sub| [127, -127, 1].map(|code| (sub, code))) {
                for inputs in [1, 5] {
                    check(dtype, 9, inputs, 512, Fill::Extreme(byte, sub, code), &mut random);
                }
            }
        }
    }
}

/// The sums of squares of activations, and those of the largest weights, multiply to about the square of the largest
/// i16: 15 c in groups of 32 fits up to c = 68, 31 c in groups of 16 up to 66, -32 c up to 63.
#[test]
fn sums_at_the_limit_of_16_bits() {
    const COLS: usize = 512;
    let mut random = Random(9);
    for dtype in quantized() {
        let len = row_words(form(dtype), COLS).unwrap();
        for (byte, sub) in [(0x00, 0x7f), (0xff, 0xff), (0x00, 0x80), (0xff, 0x3f)] {
            let mut bytes = weights(dtype, OUTPUTS, COLS, Fill::Random, &mut random);
            let extreme = weights(dtype, OUTPUTS, COLS, Fill::Extreme(byte, sub, 0), &mut random);
            // All rows have extreme weights, or only one.
            let row_bytes = dtype.row_bytes(COLS).unwrap();
            let rows = if sub == 0xff { 0..OUTPUTS } else { 21..22 };
            bytes[rows.start * row_bytes..rows.end * row_bytes]
                .copy_from_slice(&extreme[rows.start * row_bytes..rows.end * row_bytes]);
            let weights = TensorView::new(dtype, OUTPUTS, COLS, &bytes).unwrap();
            for code in (60..=72).chain([127]).flat_map(|code| [code, -code]) {
                // All inputs have the code, or only one.
                let (all, mut words) = ((code % 2 == 0) == (code > 0), vec![0; 10 * len]);
                for (row, words) in words.chunks_mut(len).enumerate() {
                    let code = if all || row == 3 { code as f32 } else { 1.0 };
                    let x: [f32; COLS] = std::array::from_fn(|i| if i % 256 == 77 { 127.0 } else { code });
                    Level::SCALAR.quantize_row(form(dtype), &x, words).unwrap();
                }
                let inputs = Inputs::new(form(dtype), 10, COLS, &words, len).unwrap();
                let want = products(Level::SCALAR, weights, &inputs);
                for level in Level::available().skip(1) {
                    assert!(products(level, weights, &inputs) == want, "{level} {dtype} {byte:#x} {sub:#x} {code}");
                }
            }
        }
    }
}

#[test]
fn numbers_that_are_not_finite_do_no_harm() {
    let mut random = Random(5);
    for dtype in quantized() {
        let bytes = random.bytes(dtype.row_bytes(512).unwrap() * 8);
        let weights = TensorView::new(dtype, 8, 512, &bytes).unwrap();
        Level::allow_amx();
        for inputs in [1, 3, 50] {
            let (words, stride) = activations(form(dtype), inputs, 512, Fill::Random, &mut random);
            let inputs = Inputs::new(form(dtype), inputs, 512, &words, stride).unwrap();
            for level in Level::available() {
                products(level, weights, &inputs);
            }
        }
    }
}

#[test]
fn sizes_are_checked() {
    let bytes = [0; 34 * 33];
    let words = [0; 20];
    let inputs = Inputs::new(Form::Q8x32, 2, 32, &words[..], 10).unwrap();
    for level in Level::available() {
        let need = level.products_scratch(Dtype::Q8_0);
        let call = |rows: usize, cols: usize, dtype: Dtype, out: usize, scratch: usize| {
            let bytes = &bytes[..rows * dtype.row_bytes(cols).unwrap()];
            let weights = TensorView::new(dtype, rows, cols, bytes).unwrap();
            level.products(weights, &inputs, &mut vec![0.0; out], &mut vec![0.0; scratch])
        };
        assert_eq!(call(4, 32, Dtype::Q8_0, 64, need), Some(()));
        assert_eq!(call(0, 32, Dtype::Q8_0, 64, need), Some(()));
        assert_eq!(call(33, 32, Dtype::Q8_0, 64, need), None);
        assert_eq!(call(4, 64, Dtype::Q8_0, 64, need), None);
        assert_eq!(call(4, 32, Dtype::Q8_0, 63, need), None);
        assert_eq!(call(1, 256, Dtype::Q4_K, 64, need), None);
        if let Some(less) = need.checked_sub(1) {
            assert_eq!(call(4, 32, Dtype::Q8_0, 64, less), None);
        }
    }
}
