//! A test whether the kernels of a level compute on this machine what the scalar kernels compute.

use super::{Activation, Combine, Inputs, Isa, Level, Norm, NormKind, OUTPUTS, fpenv};
use crate::quant::{form, row_words};
use crate::tensor::{Dtype, TensorView};

/// Columns of the weights: a super-block of every format.
const COLS: usize = 256;

/// Rows of activations: more than the kernels take at once, and not a multiple of that.
const ROWS: usize = 5;

/// 32-bit words of a row of activations in any form.
const ROW_WORDS: usize = COLS;

/// Returns a number of rows of activations for which kernels may use another algorithm, and which is not a multiple of
/// the rows that they then take at once. It is 0 for plain Rust, which has one algorithm.
const fn many_rows(level: Level) -> usize {
    if matches!(level.isa, Isa::Scalar) { 0 } else { 51 }
}

/// 32-bit words of a row of quantized activations.
const QUANTIZED_WORDS: usize = COLS / 4 + COLS / 16;

/// Size of the weights in words of 4 bytes: enough for f32.
const WEIGHTS: usize = OUTPUTS * COLS;

/// Returns the number of 32-bit words that [`selftest`] needs.
pub fn selftest_words(level: Level) -> usize {
    let scratch = Dtype::ALL.into_iter().map(|dtype| level.products_scratch(dtype)).max().unwrap_or(0);
    WEIGHTS + 3 * ROWS * ROW_WORDS + 2 * ROWS * OUTPUTS + many_rows(level) * (QUANTIZED_WORDS + OUTPUTS) + scratch
}

/// Runs the kernels of a level on a few blocks of pseudo-random bytes, and returns whether the results are the scalar
/// ones bit for bit. The kernels are the products of every weight type, the quantization of activations, the norms, and
/// some combinations of outputs. Returns `None` if `words` is shorter than [`selftest_words`]. (NaNs count as equal:
/// not all machines make the same ones.)
pub fn selftest(level: Level, words: &mut [u32]) -> Option<bool> {
    let words = words.get_mut(..selftest_words(level))?;
    fpenv::with_default(|| {
        let mut equal = true;
        // Without the highest bit of the exponent all weights are finite; with it some scales are not.
        for mask in [0xbfbf_bfbf, u32::MAX] {
            equal &= Bench::new(level, mask, words)?.run()?;
        }
        Some(equal)
    })
}

/// The operands, results and scratch of the test, cut from the caller's words.
struct Bench<'w> {
    level: Level,
    weights: &'w mut [u32],
    x: &'w mut [u32],
    inputs: &'w mut [u32],
    expected_inputs: &'w mut [u32],
    out: &'w mut [f32],
    expected: &'w mut [f32],
    /// The rows of activations, repeated in turn up to [`many_rows`].
    many_inputs: &'w mut [u32],
    many_out: &'w mut [f32],
    scratch: &'w mut [f32],
}

impl<'w> Bench<'w> {
    fn new(level: Level, mask: u32, words: &'w mut [u32]) -> Option<Self> {
        let (weights, rest) = words.split_at_mut_checked(WEIGHTS)?;
        let (x, rest) = rest.split_at_mut_checked(ROWS * ROW_WORDS)?;
        let (inputs, rest) = rest.split_at_mut_checked(ROWS * ROW_WORDS)?;
        let (expected_inputs, rest) = rest.split_at_mut_checked(ROWS * ROW_WORDS)?;
        let (out, rest) = rest.split_at_mut_checked(ROWS * OUTPUTS)?;
        let (expected, rest) = rest.split_at_mut_checked(ROWS * OUTPUTS)?;
        let (many_inputs, rest) = rest.split_at_mut_checked(many_rows(level) * QUANTIZED_WORDS)?;
        let (many_out, scratch) = rest.split_at_mut_checked(many_rows(level) * OUTPUTS)?;
        let mut state = 0x9e37_79b9_u32;
        let mut next = || {
            // Pseudo-random numbers by Marsaglia's xorshift, "Xorshift RNGs", 2003.
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            state
        };
        weights.iter_mut().for_each(|word| *word = next() & mask);
        x.iter_mut().for_each(|word| *word = (next() as i32 as f32 / (1_u32 << 29) as f32).to_bits());
        let [out, expected, many_out, scratch] = [out, expected, many_out, scratch].map(bytemuck::must_cast_slice_mut);
        Some(Self { level, weights, x, inputs, expected_inputs, out, expected, many_inputs, many_out, scratch })
    }

    fn run(&mut self) -> Option<bool> {
        let mut equal = true;
        self.out.fill(0.0);
        self.expected.fill(0.0);
        for dtype in Dtype::ALL {
            equal &= self.products(dtype)?;
        }
        Some(equal & self.norm()? & self.combine())
    }

    fn products(&mut self, dtype: Dtype) -> Option<bool> {
        let form = form(dtype);
        let len = row_words(form, COLS)?;
        let rows = self.x.chunks_exact(ROW_WORDS);
        let places = self.inputs.chunks_exact_mut(ROW_WORDS).zip(self.expected_inputs.chunks_exact_mut(ROW_WORDS));
        let mut equal = true;
        for (row, (ours, scalar)) in rows.zip(places) {
            let (row, ours, scalar) = (bytemuck::must_cast_slice(row), ours.get_mut(..len)?, scalar.get_mut(..len)?);
            equal &= self.level.quantize_row(form, row, ours) == Level::SCALAR.quantize_row(form, row, scalar);
            equal &= ours == scalar;
        }
        let bytes: &[u8] = bytemuck::must_cast_slice(self.weights);
        let weights =
            TensorView::new(dtype, OUTPUTS, COLS, bytes.get(..dtype.row_bytes(COLS)?.checked_mul(OUTPUTS)?)?)?;
        let inputs = Inputs::new(form, ROWS, COLS, self.expected_inputs, ROW_WORDS)?;
        let ours = self.level.products(weights, &inputs, self.out, self.scratch);
        // A type that this build leaves out has no products at any level.
        let scalar = Level::SCALAR.products(weights, &inputs, self.expected, &mut []);
        equal &= (ours == scalar) & same(self.out, self.expected);
        if form.is_float() || self.many_inputs.is_empty() {
            return Some(equal);
        }
        let rows = self.expected_inputs.as_chunks::<ROW_WORDS>().0.iter().cycle();
        for (many, row) in self.many_inputs.as_chunks_mut::<QUANTIZED_WORDS>().0.iter_mut().zip(rows) {
            many.get_mut(..len)?.copy_from_slice(row.get(..len)?);
        }
        let inputs = Inputs::new(form, many_rows(self.level), COLS, self.many_inputs, QUANTIZED_WORDS)?;
        let ours = self.level.products(weights, &inputs, self.many_out, self.scratch);
        let expected = self.expected.as_chunks::<OUTPUTS>().0.iter().cycle();
        let mut pairs = self.many_out.as_chunks::<OUTPUTS>().0.iter().zip(expected);
        Some(equal & (ours == scalar) & (ours.is_none() || pairs.all(|(out, expected)| same(out, expected))))
    }

    fn norm(&mut self) -> Option<bool> {
        let cols = self.out.len().min(COLS);
        let x: &[f32] = bytemuck::must_cast_slice(self.x.get(..cols)?);
        let weight = self.weights.get(..cols)?;
        let (out, expected) = (self.out.get_mut(..cols)?, self.expected.get_mut(..cols)?);
        let weight = bytemuck::must_cast_slice(weight);
        let mut equal = true;
        for (kind, bias) in [(NormKind::Rms, &[][..]), (NormKind::Layer, weight)] {
            let how = Norm { kind, epsilon: 1e-5, weight, bias };
            self.level.norm(&how, x, out);
            Level::SCALAR.norm(&how, x, expected);
            equal &= same(out, expected);
        }
        Some(equal)
    }

    fn combine(&mut self) -> bool {
        let x: &[f32] = bytemuck::must_cast_slice(self.x);
        combinations().all(|how| {
            self.level.combine(how, self.out, x);
            Level::SCALAR.combine(how, self.expected, x);
            same(self.out, self.expected)
        })
    }
}

/// Returns the ways in which outputs are combined, each with every activation function.
fn combinations() -> impl Iterator<Item = Combine> {
    let [gates, activations] = [Combine::Gate, Combine::Activate].map(|how| Activation::ALL.map(how));
    [Combine::Set, Combine::Add, Combine::AddScaled(-0.7)].into_iter().chain(gates).chain(activations)
}

fn same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_levels_pass_and_short_scratch_is_refused() {
        Level::allow_amx();
        for level in Level::available() {
            let mut words = vec![u32::MAX; selftest_words(level)];
            // GLEED_SELFTEST_BYTES of gleed.h.
            assert!(size_of_val(&*words) <= if level == Level::SCALAR { 65536 } else { 131_072 }, "{level}");
            assert_eq!(selftest(level, &mut words), Some(true), "{}", level.name());
            words.pop();
            assert_eq!(selftest(level, &mut words), None);
        }
    }

    #[test]
    fn every_combination_is_compared() {
        let mut found = [0; 5];
        for how in combinations() {
            let index = match how {
                Combine::Set => 0,
                Combine::Add => 1,
                Combine::AddScaled(_) => 2,
                Combine::Activate(_) => 3,
                Combine::Gate(_) => 4,
            };
            found[index] += 1;
        }
        let activations = Activation::ALL.len();
        assert_eq!(found, [1, 1, 1, activations, activations]);
    }

    #[test]
    fn a_difference_is_noticed() {
        assert!(same(&[f32::NAN, 1.0], &[-f32::NAN, 1.0]));
        assert!(!same(&[0.0], &[-0.0]) && !same(&[1.0], &[]) && !same(&[f32::NAN], &[1.0]));
    }
}
