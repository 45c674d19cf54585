//! The contents of the written file: metadata, and tensors as recipes that give one row at a time.

use std::borrow::Cow;

use gleed::quant::dequantize;
use gleed::tensor::Dtype;

use common::Result;
use common::gguf::Header;

/// A file to be written.
#[derive(Default)]
pub(crate) struct Output<'a> {
    /// Metadata, to which the tensors are added later.
    pub(crate) header: Header,
    pub(crate) tensors: Vec<Tensor<'a>>,
    /// `general.file_type` of the file that was read, which stays if no type is asked for.
    pub(crate) file_type: Option<u32>,
}

/// A tensor to be written.
pub(crate) struct Tensor<'a> {
    pub(crate) name: String,
    /// `dims[0]` is the number of columns.
    pub(crate) dims: Vec<usize>,
    pub(crate) contents: Contents<'a>,
}

impl Tensor<'_> {
    /// Returns whether the elements may have another type than F32, because rows are multiplied with them.
    pub(crate) fn is_matrix(&self) -> bool {
        const EXACT: [&str; 7] = [
            "_norm.weight",
            "ffn_gate_inp.weight",
            "position_embd.weight",
            // Convolution kernels and numbers per head of recurrent layers.
            "shortconv.conv.weight",
            "ssm_conv1d.weight",
            "ssm_a",
            "ssm_d",
        ];
        self.dims.len() > 1 && !EXACT.iter().any(|end| self.name.ends_with(end))
    }

    /// Returns the number of matrices of one shape that follow each other.
    pub(crate) fn experts(&self) -> usize {
        self.dims.iter().skip(2).product()
    }
}

/// The rows of some matrices, one matrix after the other, in the order in which they are written.
pub(crate) struct Contents<'a> {
    pub(crate) parts: Vec<Matrix<'a>>,
    pub(crate) order: Order,
    /// Columns that are written; `None` for all of them.
    pub(crate) columns: Option<Vec<usize>>,
    pub(crate) change: Change,
}

/// A change of the elements.
#[derive(Clone, PartialEq)]
pub(crate) enum Change {
    Nothing,
    /// Adds the number to every element.
    Plus(f32),
    /// Multiplies every element by the number of its row, or by the only number.
    Times(Vec<f32>),
    /// Replaces x by `-exp(x)`.
    MinusExp,
}

/// A matrix in a file.
pub(crate) struct Matrix<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Whether the file stores the matrix column by column.
    pub(crate) transposed: bool,
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Scales of MXFP4 blocks, if the file stores them beside the elements.
    pub(crate) scales: Option<&'a [u8]>,
}

/// The order in which rows are written.
#[derive(Clone, PartialEq)]
pub(crate) enum Order {
    /// The order of the file.
    Same,
    /// The rows i and i + half of each head come next to each other, because rotations take adjacent pairs.
    Pairs { heads: usize },
    /// `[head][q, k, v]` becomes `[q, k, v][head]`.
    Fused { heads: usize },
    /// These rows, in this order.
    Picked(Vec<usize>),
}

impl Order {
    /// Returns the index of the source row that is written as row `row` of `rows`.
    fn source(&self, row: usize, rows: usize) -> usize {
        match *self {
            Self::Same => row,
            Self::Picked(ref picked) => picked.get(row).copied().unwrap_or(rows),
            Self::Pairs { heads } => {
                let len = (rows / heads).max(2);
                let (head, row) = (row / len, row % len);
                head * len + row / 2 + row % 2 * (len / 2)
            }
            Self::Fused { heads } => {
                let len = (rows / (3 * heads)).max(1);
                let (block, row) = (row / len, row % len);
                let (part, head) = (block / heads, block % heads);
                (3 * head + part) * len + row
            }
        }
    }

    /// Returns whether `rows` rows can be put in this order.
    fn fits(&self, rows: usize) -> bool {
        match *self {
            Self::Same => true,
            Self::Picked(ref picked) => picked.iter().all(|&row| row < rows),
            Self::Pairs { heads } => rows.is_multiple_of(2 * heads),
            Self::Fused { heads } => rows.is_multiple_of(3 * heads),
        }
    }
}

impl<'a> Contents<'a> {
    /// Returns the contents of one matrix, unchanged.
    pub(crate) fn same(matrix: Matrix<'a>) -> Self {
        Self { parts: vec![matrix], order: Order::Same, columns: None, change: Change::Nothing }
    }

    pub(crate) fn rows(&self) -> usize {
        match &self.order {
            Order::Picked(picked) => picked.len(),
            _ => self.stored_rows(),
        }
    }

    pub(crate) fn cols(&self) -> usize {
        self.columns.as_ref().map_or_else(|| self.stored_cols(), Vec::len)
    }

    /// Returns the number of rows of all matrices in the files.
    pub(crate) fn stored_rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    fn stored_cols(&self) -> usize {
        self.parts.first().map_or(0, |part| part.cols)
    }

    /// Returns the type of the elements in the files, if all have the same one. A type with blocks counts only if the
    /// elements do not change and all columns are written.
    pub(crate) fn dtype(&self) -> Option<Dtype> {
        let first = self.parts.first()?.dtype;
        let one = self.parts.iter().all(|part| part.dtype == first)
            && (first.block_len() == 1 || self.change == Change::Nothing && self.columns.is_none());
        one.then_some(first)
    }

    /// Checks that the sizes fit, so that every row can be read.
    pub(crate) fn check(&self) -> Result<()> {
        let one_width = self.parts.iter().all(|part| part.cols == self.stored_cols());
        let columns = self.columns.as_ref().is_none_or(|all| all.iter().all(|&column| column < self.stored_cols()));
        if !one_width || !columns || !self.parts.iter().all(Matrix::is_whole) || !self.order.fits(self.stored_rows()) {
            return Err(format!("its {} rows are not what the model's sizes say", self.rows()).into());
        }
        Ok(())
    }

    /// Returns whether rows of type `dtype` can be copied from the file.
    pub(crate) fn is_same(&self, dtype: Dtype) -> bool {
        let plain = self.change == Change::Nothing && self.columns.is_none();
        plain && self.parts.iter().all(|part| part.dtype == dtype && !part.transposed)
    }

    /// Copies the bytes of a row, if [`Self::is_same`] holds.
    pub(crate) fn copy_row(&self, row: usize, out: &mut [u8]) -> Option<()> {
        let (part, row) = self.find(row)?;
        part.copy_row(row, out)
    }

    /// Writes the elements of a row.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) -> Option<()> {
        let (part, at) = self.find(row)?;
        match &self.columns {
            None => part.row(at, out)?,
            Some(columns) => {
                let mut all = vec![0.0; part.cols];
                part.row(at, &mut all)?;
                for (out, &column) in out.iter_mut().zip(columns) {
                    *out = *all.get(column)?;
                }
            }
        }
        match &self.change {
            Change::Nothing => {}
            Change::Plus(x) => out.iter_mut().for_each(|out| *out += x),
            Change::Times(factors) => {
                let factor = *factors.get(row).or(factors.last())?;
                out.iter_mut().for_each(|out| *out *= factor);
            }
            Change::MinusExp => out.iter_mut().for_each(|out| *out = -out.exp()),
        }
        Some(())
    }

    /// Returns the matrix of a row, and the index of the row in it.
    fn find(&self, row: usize) -> Option<(&Matrix<'a>, usize)> {
        let mut row = self.order.source(row, self.stored_rows());
        for part in &self.parts {
            if row < part.rows {
                return Some((part, row));
            }
            row -= part.rows;
        }
        None
    }
}

impl Matrix<'_> {
    /// Returns whether the file has all bytes of the matrix.
    fn is_whole(&self) -> bool {
        let Some(bytes) = self.dtype.row_bytes(self.cols).and_then(|bytes| bytes.checked_mul(self.rows)) else {
            return false;
        };
        let scales = self.scales.map_or(0, <[u8]>::len);
        let expected = if self.scales.is_some() { bytes / self.dtype.block_bytes() } else { 0 };
        scales == expected && bytes == self.bytes.len() + scales && (!self.transposed || self.dtype.block_len() == 1)
    }

    /// Writes the bytes of a row, if the matrix is not transposed.
    fn copy_row(&self, row: usize, out: &mut [u8]) -> Option<()> {
        let len = self.dtype.row_bytes(self.cols)?;
        let Some(scales) = self.scales else {
            out.copy_from_slice(self.bytes.get(row * len..(row + 1) * len)?);
            return Some(());
        };
        // A byte of the file has two neighbours of the 32 elements. A byte of a block has the elements i and i + 16.
        let size = self.dtype.block_bytes();
        let first = row * (len / size);
        for (block, out) in (first..).zip(out.chunks_mut(size)) {
            let (scale, codes) = out.split_first_mut()?;
            *scale = *scales.get(block)?;
            let pairs = self.bytes.get(block * (size - 1)..(block + 1) * (size - 1))?;
            let code =
                |at: usize| pairs.get(at / 2).map(|byte| if at.is_multiple_of(2) { byte & 15 } else { byte >> 4 });
            for (at, out) in codes.iter_mut().enumerate() {
                *out = code(at)? | code(at + 16)? << 4;
            }
        }
        Some(())
    }

    /// Drops the first `count` rows.
    pub(crate) fn drop_rows(&mut self, count: usize) -> Result<()> {
        let bytes = self.dtype.row_bytes(self.cols).and_then(|bytes| bytes.checked_mul(count)).unwrap_or(usize::MAX);
        let rest = self.bytes.get(bytes..).ok_or_else(|| format!("it has fewer than {count} rows"))?.to_vec();
        (self.rows, self.bytes) = (self.rows - count, rest.into());
        Ok(())
    }

    /// Writes the elements of a row.
    fn row(&self, row: usize, out: &mut [f32]) -> Option<()> {
        if self.transposed {
            let len = self.dtype.block_bytes();
            for (col, out) in out.iter_mut().enumerate() {
                let at = (col * self.rows + row) * len;
                dequantize(self.dtype, self.bytes.get(at..at + len)?, std::slice::from_mut(out))?;
            }
            return Some(());
        }
        let mut bytes = vec![0; self.dtype.row_bytes(self.cols)?];
        self.copy_row(row, &mut bytes)?;
        dequantize(self.dtype, &bytes, out)?;
        Some(())
    }
}
