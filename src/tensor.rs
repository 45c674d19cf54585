//! Checked views of weight matrices over borrowed bytes.
//!
//! # Example
//!
//! The row of a token in a model's embedding, as f32:
//!
//! ```
//! use gleed::Model;
//! use gleed::quant::dequantize;
//! use gleed::tensor::{Dtype, TensorView};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let model = Model::open(&file)?;
//! let (vocab, hidden) = (model.config().vocab, model.config().hidden);
//! let tensor = model.tensor("token_embd.weight").ok_or("no embedding")?;
//! let dtype = Dtype::from_ggml(tensor.ggml_type().number()).ok_or("a type that Gleed does not know")?;
//! let embedding = TensorView::new(dtype, vocab, hidden, tensor.data()).ok_or("the sizes do not fit")?;
//!
//! let mut row = vec![0.0; embedding.cols()];
//! dequantize(dtype, embedding.row(414).ok_or("no such token")?, &mut row).ok_or("the sizes do not fit")?;
//! assert!(row.iter().any(|x| *x != 0.0));
//!
//! // A part of it is a matrix, too. Rows past the last one do not exist.
//! let part = embedding.slice_rows(400, 32).ok_or("no such rows")?;
//! assert_eq!((part.rows(), part.row(14)), (32, embedding.row(414)));
//! assert!(embedding.row(vocab).is_none());
//! # Ok(())
//! # }
//! ```

use core::fmt;

pub use crate::quant::Dtype;

/// A matrix `[rows, cols]` of one element type in borrowed bytes, rows one after the other.
///
/// The bytes need no alignment. [`TensorView::new`] checks their number once.
///
/// [Example](crate::tensor#example).
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    dtype: Dtype,
    rows: usize,
    cols: usize,
    row_bytes: usize,
    bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Returns a view of `bytes`, or `None` if they are not exactly `rows` rows of `cols` elements.
    pub fn new(dtype: Dtype, rows: usize, cols: usize, bytes: &'a [u8]) -> Option<Self> {
        let row_bytes = dtype.row_bytes(cols)?;
        (rows.checked_mul(row_bytes)? == bytes.len()).then_some(Self { dtype, rows, cols, row_bytes, bytes })
    }

    /// Returns the element type.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of rows (outputs of a linear layer).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of columns (inputs of a linear layer).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the bytes of all rows.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the `count` rows from `first` on, or `None` if there are fewer.
    pub fn slice_rows(&self, first: usize, count: usize) -> Option<Self> {
        let start = first.checked_mul(self.row_bytes)?;
        let bytes = self.bytes.get(start..start.checked_add(count.checked_mul(self.row_bytes)?)?)?;
        Some(Self { rows: count, bytes, ..*self })
    }

    /// Returns the bytes of row `row`, or `None` past the last one.
    #[inline]
    pub fn row(&self, row: usize) -> Option<&'a [u8]> {
        if row >= self.rows {
            return None;
        }
        let start = row.checked_mul(self.row_bytes)?;
        self.bytes.get(start..start.checked_add(self.row_bytes)?)
    }
}

impl fmt::Debug for TensorView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorView({} [{}, {}])", self.dtype.name(), self.rows, self.cols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_checks_its_size() {
        let bytes = [0u8; 68];
        let view = TensorView::new(Dtype::Q8_0, 2, 32, &bytes).unwrap();
        assert_eq!(view.row(1).unwrap().len(), 34);
        assert!(view.row(2).is_none());
        assert!(TensorView::new(Dtype::Q8_0, 3, 32, &bytes).is_none());
        assert!(TensorView::new(Dtype::Q8_0, usize::MAX, 32, &bytes).is_none());
    }
}
