//! The rows of inputs of linear layers, in all activation formats that the weights need.
//!
//! Q, K and V may have different formats and share one input. So an input row holds one or more forms, one after the
//! other, and is prepared once.

use core::ops::Range;

use crate::error::Fault;
use crate::kernels::{Inputs, Level};
use crate::quant::{Form, QuantizeError, row_words};
use crate::tensor::Dtype;

const FORMS: [Form; 4] = [Form::F32, Form::Short, Form::Q8x32, Form::Q8x256];

/// The set of forms in which an input is needed.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputForms {
    /// Bit i is set if [`FORMS`]\[i\] is needed. One byte, because models store this set for each input and should stay
    /// small.
    wanted: u8,
}

impl InputForms {
    /// Returns the forms with which weights of these types are multiplied.
    pub fn of(dtypes: impl IntoIterator<Item = Dtype>) -> Self {
        let mut wanted = 0;
        for dtype in dtypes {
            let is_it = |form: Form| u8::from(form == crate::quant::form(dtype));
            wanted |= FORMS.iter().rev().fold(0, |bits, &form| bits << 1 | is_it(form));
        }
        Self { wanted }
    }

    /// Returns the number of 32-bit words of a row of `cols` activations in all the forms, each in whole cache lines,
    /// or `None` if a form cannot hold it.
    pub fn words(self, cols: usize) -> Option<usize> {
        self.forms().try_fold(0_usize, |sum, form| sum.checked_add(lines(form, cols)?))
    }

    /// Stores `x` in all the forms. `words` has at least [`InputForms::words`] words.
    ///
    /// # Errors
    /// [`Fault::NonFinite`] where an integer form meets a value that is not finite.
    pub fn prepare(self, level: Level, x: &[f32], words: &mut [u32]) -> Result<(), Fault> {
        let mut rest = words;
        for form in self.forms() {
            let [len, room] = [row_words, lines].map(|of| of(form, x.len()));
            let (row, after) =
                rest.split_at_mut_checked(room.ok_or(Fault::Internal(site!()))?).ok_or(Fault::Internal(site!()))?;
            let row = len.and_then(|len| row.get_mut(..len)).ok_or(Fault::Internal(site!()))?;
            level.quantize_row(form, x, row).map_err(|error| match error {
                QuantizeError::NonFinite { .. } => Fault::NonFinite,
                QuantizeError::Length { .. } => Fault::Internal(site!()),
            })?;
            rest = after;
        }
        Ok(())
    }

    /// Returns the forms, in the order in which they lie in a row.
    pub fn forms(self) -> impl Iterator<Item = Form> {
        FORMS.into_iter().enumerate().filter_map(move |(i, form)| (self.wanted >> i & 1 == 1).then_some(form))
    }
}

/// Rows of inputs, `[rows, cols]`, prepared in the given forms.
///
/// [Example](crate::nn#example).
#[derive(Clone, Copy, Debug)]
pub struct InputRows<'a> {
    words: &'a [u32],
    /// Number of words from one row to the next.
    stride: usize,
    cols: usize,
    forms: InputForms,
    workers: usize,
}

impl<'a> InputRows<'a> {
    /// Returns the rows that [`InputForms::prepare`] stored in `words`, `stride` words apart. `workers` is the number
    /// of workers that multiply them at the same time.
    pub fn new(words: &'a [u32], stride: usize, cols: usize, forms: InputForms, workers: usize) -> Self {
        Self { words, stride, cols, forms, workers }
    }

    /// Returns the number of workers that multiply the rows at the same time.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Returns the word with index `word` in a row.
    pub fn word(&self, row: usize, word: usize) -> Option<u32> {
        self.words.get(row.checked_mul(self.stride)?.checked_add(word)?).copied()
    }

    /// Returns `cols` numbers of some of the rows, from word `start` of each row on, as inputs in a form.
    pub fn slice(&self, rows: Range<usize>, start: usize, cols: usize, form: Form) -> Option<Inputs<'a>> {
        let words = self.words.get(rows.start.checked_mul(self.stride)?.checked_add(start)?..)?;
        Inputs::new(form, rows.len(), cols, words, self.stride)
    }

    /// Returns some of the rows in one form, or `None` if this form was not prepared.
    pub fn select(&self, rows: Range<usize>, form: Form) -> Option<Inputs<'a>> {
        let mut start = rows.start.checked_mul(self.stride)?;
        for other in self.forms.forms() {
            if other == form {
                return Inputs::new(form, rows.len(), self.cols, self.words.get(start..)?, self.stride);
            }
            start = start.checked_add(lines(other, self.cols)?)?;
        }
        None
    }
}

/// Returns the number of words of a row in whole cache lines. Vectors and tiles that cross the border of two lines take
/// longer to read.
fn lines(form: Form, cols: usize) -> Option<usize> {
    const LINE: usize = 64 / size_of::<u32>();
    row_words(form, cols)?.checked_next_multiple_of(LINE)
}
