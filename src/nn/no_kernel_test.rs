//! Tests weights of a format without kernels: every level computes what plain Rust computes.

use core::ops::Range;

use super::{InputForms, InputRows, Linear};
use crate::kernels::{Combine, Inputs, Level, OUTPUTS};
use crate::mem::Matrix;
use crate::quant::{dot, form};
use crate::tensor::{Dtype, TensorView};

/// Formats that no level has kernels for: blocks and floats.
const FORMATS: [Dtype; 2] = [Dtype::TOY_BLOCKS, Dtype::TOY_FLOATS];

/// Numbers of rows of inputs: one, as many as kernels take at once, and more than that.
const ROWS: [usize; 4] = [1, 2, 8, 33];

/// Number of rows of weights: three tiles of outputs, of which the last is not full.
const ROWS_OF_WEIGHTS: usize = 2 * OUTPUTS + 6;
const COLS: usize = 512;

/// Weights of random bytes that are finite, and rows of inputs for them.
struct Case {
    dtype: Dtype,
    bytes: Vec<u8>,
    words: Vec<u32>,
    /// Number of words from one row of inputs to the next.
    stride: usize,
}

impl Case {
    fn new(dtype: Dtype, rows: usize) -> Self {
        let mut state = 0x2545_f491_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        // The byte of an infinity or a NaN of the floats is 0x78 or above, apart from its sign.
        let mut bytes: Vec<u8> =
            (0..ROWS_OF_WEIGHTS * dtype.row_bytes(COLS).unwrap()).map(|_| (next() % 0x78) as u8).collect();
        bytes.iter_mut().step_by(3).for_each(|byte| *byte |= 0x80);
        let forms = InputForms::of([dtype]);
        let stride = forms.words(COLS).unwrap();
        let mut words = vec![0; rows * stride];
        for row in words.chunks_exact_mut(stride) {
            let x: Vec<f32> = (0..COLS).map(|_| next() as f32 / (1_u32 << 22) as f32 - 2.0).collect();
            forms.prepare(Level::SCALAR, &x, row).unwrap();
        }
        Self { dtype, bytes, words, stride }
    }

    fn weights(&self) -> TensorView<'_> {
        TensorView::new(self.dtype, ROWS_OF_WEIGHTS, COLS, &self.bytes).unwrap()
    }

    fn inputs(&self) -> Inputs<'_> {
        let rows = self.words.len() / self.stride;
        Inputs::new(form(self.dtype), rows, COLS, &self.words, self.stride).unwrap()
    }

    /// Returns the product of each input row with each weight row, by the format's own dot product.
    fn expected(&self) -> Vec<u32> {
        let rows = self.inputs().rows();
        let dots = (0..rows).flat_map(|row| (0..ROWS_OF_WEIGHTS).map(move |output| (row, output)));
        dots.map(|(row, output)| {
            let sum = dot(self.dtype, self.weights().row(output).unwrap(), self.inputs().row(row).unwrap()).unwrap();
            assert!(sum.is_finite() && sum != 0.0);
            sum.to_bits()
        })
        .collect()
    }

    fn products(&self, level: Level, outputs: Range<usize>) -> Vec<u32> {
        let weights = self.weights().slice_rows(outputs.start, outputs.len()).unwrap();
        let mut out = vec![f32::NAN; self.inputs().rows() * OUTPUTS];
        let mut scratch = vec![f32::NAN; level.products_scratch(self.dtype)];
        level.products(weights, &self.inputs(), &mut out, &mut scratch).unwrap();
        out.chunks_exact(OUTPUTS).flat_map(|row| row.iter().take(outputs.len()).map(|x| x.to_bits())).collect()
    }

    fn linear(&self, level: Level) -> Vec<u32> {
        let rows = self.inputs().rows();
        let inputs = InputRows::new(&self.words, self.stride, COLS, InputForms::of([self.dtype]), 1);
        let mut out = vec![f32::NAN; rows * ROWS_OF_WEIGHTS];
        let mut scratch = vec![f32::NAN; Linear::scratch(level, self.dtype, rows).unwrap()];
        let matrix = Matrix::new(&mut out, rows, ROWS_OF_WEIGHTS).unwrap();
        let mut tile = matrix.tiles(rows, ROWS_OF_WEIGHTS, 0..1).unwrap().next().unwrap();
        let linear = Linear::plain(self.weights());
        linear.run(level, (&inputs, 0), 0, &mut tile, Combine::Set, &mut scratch).unwrap();
        out.iter().map(|x| x.to_bits()).collect()
    }
}

#[test]
fn products_are_the_dots_of_the_format_on_every_level() {
    for (dtype, rows) in FORMATS.into_iter().flat_map(|dtype| ROWS.map(|rows| (dtype, rows))) {
        let case = Case::new(dtype, rows);
        let expected = case.expected();
        for outputs in [0..OUTPUTS, OUTPUTS..OUTPUTS + 1, 2 * OUTPUTS..ROWS_OF_WEIGHTS] {
            let rows = expected.chunks_exact(ROWS_OF_WEIGHTS);
            let expected: Vec<u32> = rows.flat_map(|row| row[outputs.clone()].to_vec()).collect();
            for level in Level::available() {
                assert_eq!(case.products(level, outputs.clone()), expected, "{dtype} {level} {outputs:?}");
            }
        }
    }
}

#[test]
fn a_linear_layer_is_the_same_on_every_level() {
    for (dtype, rows) in FORMATS.into_iter().flat_map(|dtype| ROWS.map(|rows| (dtype, rows))) {
        let case = Case::new(dtype, rows);
        let expected = case.expected();
        for level in Level::available() {
            assert_eq!(case.linear(level), expected, "{dtype} {level} {rows} rows");
        }
    }
}

#[test]
fn sizes_that_do_not_fit_are_refused_as_for_other_formats() {
    for dtype in FORMATS {
        let case = Case::new(dtype, 2);
        for level in Level::available() {
            let mut scratch = vec![0.0; level.products_scratch(dtype)];
            let mut out = vec![0.0; 2 * OUTPUTS];
            let weights = case.weights().slice_rows(0, OUTPUTS).unwrap();
            assert_eq!(level.products(weights, &case.inputs(), &mut out[1..], &mut scratch), None);
            assert_eq!(level.products(case.weights(), &case.inputs(), &mut out, &mut scratch), None);
            assert_eq!(level.products(weights, &case.inputs(), &mut out, &mut scratch), Some(()));
        }
    }
}
