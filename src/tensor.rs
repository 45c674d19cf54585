//! Checked views of weight matrices over borrowed bytes.

use core::fmt;

pub use crate::quant::Dtype;

/// A matrix `[rows, cols]` of one element type in borrowed bytes, rows one after the other.
///
/// The bytes need no alignment. [`TensorView::new`] checks their number once.
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
