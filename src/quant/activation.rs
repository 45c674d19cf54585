//! Activations in the formats in which weights are multiplied with them: f32, or int8 with one scale per block.

use core::fmt;

use crate::num::{SETTLED_MIN, round_to_i8, settle, short};

/// The format of the activations with which a weight type is multiplied.
///
/// [Example](crate::quant#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// f32, and +0 below 2^-50 in magnitude ([`settle`]).
    F32,
    /// f32 rounded to 13 significant bits ([`short`]), whose products with f16 are exact.
    Short,
    /// int8 with one scale per 32 activations.
    Q8x32,
    /// int8 with one scale per 256 activations.
    Q8x256,
}

impl Form {
    /// Returns whether rows in this format are floats.
    pub const fn is_float(self) -> bool {
        self.block_len().is_none()
    }

    /// Returns the number of activations per scale, or `None` for floats.
    const fn block_len(self) -> Option<usize> {
        match self {
            Form::F32 | Form::Short => None,
            Form::Q8x32 => Some(32),
            Form::Q8x256 => Some(256),
        }
    }
}

/// One row of activations quantized to int8 with one scale per block of 32 or 256.
///
/// [Example](crate::quant#example).
#[derive(Clone, Copy, Debug)]
pub struct QuantizedRow<'a> {
    /// Codes, -127 to 127: `[cols]`.
    pub codes: &'a [i8],
    /// Scales, by which codes are multiplied: `[cols / block]`.
    pub scales: &'a [f32],
    /// Sums of every 16 successive codes: `[cols / 16]`.
    pub sums: &'a [i16],
    /// Largest sum of the squares of 16 successive codes, for each block of 256: `[cols / 256]`. Kernels bound sums of
    /// products with it. Empty for blocks of 32.
    pub squares: &'a [u32],
}

impl<'a> QuantizedRow<'a> {
    /// Returns the row that [`quantize_row`] stored in `words`.
    ///
    /// Returns `None` for formats of floats, and if `words` is not exactly [`row_words`] long.
    pub fn from_words(form: Form, cols: usize, words: &'a [u32]) -> Option<Self> {
        let block = form.block_len()?;
        if row_words(form, cols)? != words.len() {
            return None;
        }
        let (codes, rest) = words.split_at_checked(cols / 4)?;
        let (scales, rest) = rest.split_at_checked(cols / block)?;
        let (sums, squares) = rest.split_at_checked(cols / 32)?;
        Some(Self {
            codes: bytemuck::must_cast_slice(codes),
            scales: bytemuck::must_cast_slice(scales),
            sums: bytemuck::must_cast_slice(sums),
            squares,
        })
    }
}

/// One row of activations in one of the formats.
///
/// [Example](crate::quant#example).
#[derive(Clone, Copy, Debug)]
pub enum ActivationRow<'a> {
    /// A row in [`Form::F32`] or [`Form::Short`]: `[cols]`.
    F32(&'a [f32]),
    /// A row in [`Form::Q8x32`].
    Q8x32(QuantizedRow<'a>),
    /// A row in [`Form::Q8x256`].
    Q8x256(QuantizedRow<'a>),
}

impl<'a> ActivationRow<'a> {
    /// Returns the row that [`quantize_row`] stored in `words`, or `None` if their number is not [`row_words`].
    pub fn from_words(form: Form, cols: usize, words: &'a [u32]) -> Option<Self> {
        match form {
            Form::F32 | Form::Short => (words.len() == cols).then_some(Self::F32(bytemuck::must_cast_slice(words))),
            Form::Q8x32 => QuantizedRow::from_words(form, cols, words).map(Self::Q8x32),
            Form::Q8x256 => QuantizedRow::from_words(form, cols, words).map(Self::Q8x256),
        }
    }
}

/// Reason why a row of activations was not quantized.
///
/// [Example](crate::quant#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizeError {
    /// This block of the row contains an infinity or a NaN.
    NonFinite {
        /// Index of the block of 32 or 256 activations.
        block: usize,
    },
    /// The output has a length that does not fit the row, or the row is not a whole number of blocks.
    Length {
        /// Number of activations in the row.
        cols: usize,
        /// Number of 32-bit words in the output.
        words: usize,
    },
}

impl fmt::Display for QuantizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NonFinite { block } => write!(f, "block {block} of the activations is not finite"),
            Self::Length { cols, words } => write!(f, "{words} words do not fit to a row of {cols} activations"),
        }
    }
}

impl core::error::Error for QuantizeError {}

/// Returns the number of 32-bit words of a row of `cols` activations in this format, or `None` if `cols` is not a
/// multiple of the block.
///
/// A row of floats is stored as floats. A row of int8 is stored as the codes, the scales, the sums and the squares of
/// [`QuantizedRow`], in this order.
pub const fn row_words(form: Form, cols: usize) -> Option<usize> {
    let (block, squares) = match form {
        Form::F32 | Form::Short => return Some(cols),
        Form::Q8x32 => (32, 0),
        Form::Q8x256 => (256, cols / 256),
    };
    // At most cols / 4 + cols / 32 + cols / 32 < cols: no overflow.
    if cols.is_multiple_of(block) { Some(cols / 4 + cols / block + cols / 32 + squares) } else { None }
}

/// Stores a row of activations in `words`, which has [`row_words`]`(form, x.len())` words.
///
/// Formats of floats do not check that numbers are finite: the check of the logits finds numbers that are not. After an
/// error the contents of `words` are unspecified.
#[inline(always)]
pub fn quantize_row(form: Form, x: &[f32], words: &mut [u32]) -> Result<(), QuantizeError> {
    let length = QuantizeError::Length { cols: x.len(), words: words.len() };
    if row_words(form, x.len()) != Some(words.len()) {
        return Err(length);
    }
    match form {
        Form::F32 => {
            for (word, &x) in words.iter_mut().zip(x) {
                *word = settle(x).to_bits();
            }
            Ok(())
        }
        Form::Short => {
            for (word, &x) in words.iter_mut().zip(x) {
                *word = short(x).to_bits();
            }
            Ok(())
        }
        Form::Q8x32 => quantize_blocks::<32>(x, words).unwrap_or(Err(length)),
        Form::Q8x256 => quantize_blocks::<256>(x, words).unwrap_or(Err(length)),
    }
}

/// Quantizes a row of whole blocks into exactly the words that it needs. Returns `None` if there are fewer words.
#[inline(always)]
fn quantize_blocks<const BLOCK: usize>(x: &[f32], words: &mut [u32]) -> Option<Result<(), QuantizeError>> {
    let (codes, rest) = words.split_at_mut_checked(x.len() / 4)?;
    let (scales, rest) = rest.split_at_mut_checked(x.len() / BLOCK)?;
    let (sums, squares) = rest.split_at_mut_checked(x.len() / 32)?;
    let codes: &mut [i8] = bytemuck::must_cast_slice_mut(codes);
    let scales: &mut [f32] = bytemuck::must_cast_slice_mut(scales);
    let sums: &mut [i16] = bytemuck::must_cast_slice_mut(sums);
    let blocks = x.as_chunks::<BLOCK>().0.iter().zip(codes.as_chunks_mut::<BLOCK>().0).zip(scales);
    for (index, ((x, codes), scale)) in blocks.enumerate() {
        match quantize_block(x, codes) {
            Some(dx) => *scale = dx,
            None => return Some(Err(QuantizeError::NonFinite { block: index })),
        }
    }
    for (sum, codes) in sums.iter_mut().zip(codes.as_chunks::<16>().0) {
        *sum = codes.iter().map(|&code| i16::from(code)).sum();
    }
    for (largest, codes) in squares.iter_mut().zip(codes.as_chunks::<256>().0) {
        *largest = 0;
        for codes in codes.as_chunks::<16>().0 {
            let mut squares = 0;
            for &code in codes {
                squares += u32::from(code.unsigned_abs()).pow(2);
            }
            *largest = squares.max(*largest);
        }
    }
    Some(Ok(()))
}

/// Quantizes one block and returns its scale, or `None` if an element is infinite or NaN.
///
/// No code leaves -127..=127: with amax in 2^-50..2^128 the quotient 127 / amax is a normal number, so
/// |x * id| <= amax * (127 / amax) * (1 + 2^-24)^2 < 127.5 before it is rounded to an integer.
#[inline(always)]
fn quantize_block<const BLOCK: usize>(x: &[f32; BLOCK], codes: &mut [i8; BLOCK]) -> Option<f32> {
    const INFINITY: u32 = 0x7f80_0000;
    let amax = x.iter().fold(0, |amax, x| (x.to_bits() & 0x7fff_ffff).max(amax));
    if amax >= INFINITY {
        return None;
    }
    if amax < SETTLED_MIN.to_bits() {
        codes.fill(0);
        return Some(0.0);
    }
    let amax = f32::from_bits(amax);
    let id = 127.0 / amax;
    for (code, &x) in codes.iter_mut().zip(x) {
        *code = round_to_i8(x * id);
    }
    Some(amax * (1.0 / 127.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantize(x: &[f32; 32]) -> Option<(f32, [i8; 32])> {
        let mut codes = [1; 32];
        quantize_block(x, &mut codes).map(|scale| (scale, codes))
    }

    fn block(first: f32, second: f32) -> [f32; 32] {
        core::array::from_fn(|i| [first, second].get(i).copied().unwrap_or(0.0))
    }

    #[test]
    fn halves_go_to_the_even_code() {
        let mut x = block(127.0, 0.5);
        x[2..9].copy_from_slice(&[1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -126.5]);
        let (scale, codes) = quantize(&x).unwrap();
        assert_eq!(scale.to_bits(), (127.0 * (1.0_f32 / 127.0)).to_bits());
        assert_eq!(codes[..10], [127, 0, 2, 2, 0, -2, -2, 126, -126, 0]);
    }

    #[test]
    fn zero_and_tiny_blocks_have_scale_zero() {
        let cutoff = SETTLED_MIN;
        let below = f32::from_bits(cutoff.to_bits() - 1);
        for x in [0.0, -0.0, 1e-45, -1e-40, f32::MIN_POSITIVE, below, -below] {
            let (scale, codes) = quantize(&block(x, -x)).unwrap();
            assert_eq!((scale.to_bits(), codes), (0, [0; 32]), "{x}");
        }
        let (scale, codes) = quantize(&block(-cutoff, below)).unwrap();
        assert_eq!(scale.to_bits(), (cutoff * (1.0 / 127.0)).to_bits());
        assert_eq!(codes[..3], [-127, 127, 0]);
    }

    #[test]
    fn the_largest_numbers_are_in_range() {
        for x in [f32::MAX, -f32::MAX, 1e38, 65504.0] {
            let (scale, codes) = quantize(&block(x, -x)).unwrap();
            let code = if x > 0.0 { 127 } else { -127 };
            assert_eq!((scale, codes[0], codes[1]), (x.abs() * (1.0 / 127.0), code, -code), "{x}");
        }
        // A subnormal beside a number that is not tiny.
        assert_eq!(quantize(&block(1.0, 1e-45)).unwrap().1[..2], [127, 0]);
    }

    #[test]
    fn every_significand_of_amax_gives_code_127() {
        for mantissa in (0..1 << 23).step_by(97).chain([(1 << 23) - 1]) {
            for exponent in [77, 78, 126, 127, 128, 253, 254] {
                let x = f32::from_bits(exponent << 23 | mantissa);
                let mut codes = [0; 2];
                quantize_block(&[x, -x], &mut codes).unwrap();
                assert_eq!(codes, [127, -127], "{x}");
            }
        }
    }

    #[test]
    fn what_is_not_finite_is_an_error() {
        for bad in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001)] {
            assert_eq!(quantize(&block(1.0, bad)), None);
            let mut x = [1.0; 512];
            x[300] = bad;
            let mut words = [0; 512];
            assert_eq!(quantize_row(Form::Q8x32, &x, &mut words[..160]), Err(QuantizeError::NonFinite { block: 9 }));
            assert_eq!(quantize_row(Form::Q8x256, &x, &mut words[..148]), Err(QuantizeError::NonFinite { block: 1 }));
            assert_eq!(quantize_row(Form::F32, &x, &mut words), Ok(()));
        }
    }

    #[test]
    fn a_row_is_stored_and_found_again() {
        let x: [f32; 512] = core::array::from_fn(|i| (i as f32 - 200.0) * 0.37);
        for (form, block) in [(Form::Q8x32, 32), (Form::Q8x256, 256)] {
            let len = row_words(form, x.len()).unwrap();
            let mut words = vec![0; len];
            quantize_row(form, &x, &mut words).unwrap();
            let row = QuantizedRow::from_words(form, x.len(), &words).unwrap();
            for (b, x) in x.chunks(block).enumerate() {
                let amax = x.iter().fold(0.0_f32, |amax, x| amax.max(x.abs()));
                assert_eq!(row.scales[b], amax * (1.0 / 127.0));
                let want: Vec<i8> = x.iter().map(|x| (x * (127.0 / amax)).round_ties_even() as i8).collect();
                assert_eq!(row.codes[b * block..][..block], want);
            }
            for (sum, codes) in row.sums.iter().zip(row.codes.chunks(16)) {
                assert_eq!(i32::from(*sum), codes.iter().map(|&code| i32::from(code)).sum::<i32>());
            }
            let squares =
                row.codes.chunks(16).map(|codes| codes.iter().map(|&code| u32::from(code.unsigned_abs()).pow(2)).sum());
            let squares: Vec<u32> = squares.collect();
            let largest: Vec<u32> = squares.chunks(16).map(|of_256| *of_256.iter().max().unwrap()).collect();
            assert_eq!(row.squares, if block == 256 { &largest[..] } else { &[] });
            assert!(QuantizedRow::from_words(form, x.len(), &words[1..]).is_none());
        }
        assert_eq!(QuantizedRow::from_words(Form::F32, 4, &[0; 4]).map(|row| row.codes.len()), None);
    }

    #[test]
    fn lengths_are_checked() {
        assert_eq!(row_words(Form::F32, 7), Some(7));
        assert_eq!(row_words(Form::Q8x32, 48), None);
        assert_eq!(row_words(Form::Q8x256, 512), Some(128 + 2 + 16 + 2));
        assert_eq!(row_words(Form::Q8x32, usize::MAX - 31), Some((usize::MAX / 32) * 10));
        for (form, cols, words) in [(Form::F32, 4, 3), (Form::Q8x32, 32, 11), (Form::Q8x256, 32, 10)] {
            let error = quantize_row(form, &vec![1.0; cols], &mut vec![0; words]);
            assert_eq!(error, Err(QuantizeError::Length { cols, words }));
        }
    }
}
