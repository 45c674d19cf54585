//! Activations in the forms that weights are multiplied with: f32, or int8 with one scale per block.

use core::fmt;

use crate::num::round_half_even;

/// Which form of the activations a weight type is multiplied with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As they are.
    F32,
    /// int8 with one scale per 32.
    Q8x32,
    /// int8 with one scale per 256.
    Q8x256,
}

impl Form {
    /// Activations per scale; `None` for f32.
    const fn block_len(self) -> Option<usize> {
        match self {
            Form::F32 => None,
            Form::Q8x32 => Some(32),
            Form::Q8x256 => Some(256),
        }
    }
}

/// One row of activations quantized to int8 with one scale per block of 32 or 256.
#[derive(Clone, Copy, Debug)]
pub struct QuantizedRow<'a> {
    /// The codes, -127 to 127: `[cols]`.
    pub codes: &'a [i8],
    /// What a code is multiplied with: `[cols / block]`.
    pub scales: &'a [f32],
    /// The sums of 16 successive codes each: `[cols / 16]`.
    pub sums: &'a [i16],
}

impl<'a> QuantizedRow<'a> {
    /// The row that [`quantize_row`] stored in `words`.
    ///
    /// `None` for the f32 form, and where `words` is not exactly [`row_words`] long.
    pub fn from_words(form: Form, cols: usize, words: &'a [u32]) -> Option<Self> {
        let block = form.block_len()?;
        if row_words(form, cols)? != words.len() {
            return None;
        }
        let (codes, rest) = words.split_at_checked(cols / 4)?;
        let (scales, sums) = rest.split_at_checked(cols / block)?;
        Some(Self {
            codes: bytemuck::must_cast_slice(codes),
            scales: bytemuck::must_cast_slice(scales),
            sums: bytemuck::must_cast_slice(sums),
        })
    }
}

/// One row of activations in one of the forms.
#[derive(Clone, Copy, Debug)]
pub enum ActivationRow<'a> {
    /// [`Form::F32`]: `[cols]`.
    F32(&'a [f32]),
    /// [`Form::Q8x32`].
    Q8x32(QuantizedRow<'a>),
    /// [`Form::Q8x256`].
    Q8x256(QuantizedRow<'a>),
}

impl<'a> ActivationRow<'a> {
    /// The row that [`quantize_row`] stored in `words`; `None` where their number is not [`row_words`].
    pub fn from_words(form: Form, cols: usize, words: &'a [u32]) -> Option<Self> {
        match form {
            Form::F32 => (words.len() == cols).then_some(Self::F32(bytemuck::must_cast_slice(words))),
            Form::Q8x32 => QuantizedRow::from_words(form, cols, words).map(Self::Q8x32),
            Form::Q8x256 => QuantizedRow::from_words(form, cols, words).map(Self::Q8x256),
        }
    }
}

/// Why a row of activations could not be quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuantizeError {
    /// This block of the row contains an infinity or a NaN.
    NonFinite {
        /// The index of the block, of 32 or 256 activations.
        block: usize,
    },
    /// The output has a length that does not fit to the row, or the row is not a whole number of blocks.
    Length {
        /// Activations in the row.
        cols: usize,
        /// 32-bit words in the output.
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

/// How many 32-bit words a row of `cols` activations takes in this form.
///
/// f32: the row itself. int8: the codes, then the scales, then the sums of [`QuantizedRow`]. `None` where
/// `cols` is no multiple of the block.
pub const fn row_words(form: Form, cols: usize) -> Option<usize> {
    let Some(block) = form.block_len() else {
        return Some(cols);
    };
    // At most cols / 4 + cols / 32 + cols / 32 < cols: no overflow.
    if cols.is_multiple_of(block) { Some(cols / 4 + cols / block + cols / 32) } else { None }
}

/// Stores a row of activations in `words`, which has [`row_words`]`(form, x.len())` words.
///
/// The f32 form copies the bits and does not look at them (what is not finite there is found in the
/// logits). After an error the content of `words` is unspecified.
pub fn quantize_row(form: Form, x: &[f32], words: &mut [u32]) -> Result<(), QuantizeError> {
    let length = QuantizeError::Length { cols: x.len(), words: words.len() };
    if row_words(form, x.len()) != Some(words.len()) {
        return Err(length);
    }
    match form {
        Form::F32 => {
            for (word, x) in words.iter_mut().zip(x) {
                *word = x.to_bits();
            }
            Ok(())
        }
        Form::Q8x32 => quantize_blocks::<32>(x, words).unwrap_or(Err(length)),
        Form::Q8x256 => quantize_blocks::<256>(x, words).unwrap_or(Err(length)),
    }
}

/// Quantizes a row of whole blocks into exactly the words it needs; `None` where they are fewer.
fn quantize_blocks<const BLOCK: usize>(x: &[f32], words: &mut [u32]) -> Option<Result<(), QuantizeError>> {
    let (codes, rest) = words.split_at_mut_checked(x.len() / 4)?;
    let (scales, sums) = rest.split_at_mut_checked(x.len() / BLOCK)?;
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
    Some(Ok(()))
}

/// Quantizes one block and returns its scale; `None` where an element is infinite or NaN.
///
/// No code leaves -127..=127: with amax in 2^-100..2^128 the quotient 127 / amax is a normal number, so
/// |x * id| <= amax * (127 / amax) * (1 + 2^-24)^2 < 127.5 before it is rounded to an integer.
fn quantize_block<const BLOCK: usize>(x: &[f32; BLOCK], codes: &mut [i8; BLOCK]) -> Option<f32> {
    const INFINITY: u32 = 0x7f80_0000;
    const TINY: u32 = 0x0d80_0000; // 2^-100
    let amax = x.iter().fold(0, |amax, x| (x.to_bits() & 0x7fff_ffff).max(amax));
    if amax >= INFINITY {
        return None;
    }
    if amax < TINY {
        codes.fill(0);
        return Some(0.0);
    }
    let amax = f32::from_bits(amax);
    let id = 127.0 / amax;
    for (code, &x) in codes.iter_mut().zip(x) {
        *code = round_half_even(x * id) as i32 as i8;
    }
    Some(amax * (1.0 / 127.0))
}
