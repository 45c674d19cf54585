//! What will be in the written file: metadata, and tensors as recipes that give one row at a time.

use std::borrow::Cow;

use gleed::quant::dequantize;
use gleed::tensor::Dtype;

use common::Result;
use common::gguf::Header;

/// A file to be written.
#[derive(Default)]
pub(crate) struct Output<'a> {
    /// The metadata, without the tensors.
    pub(crate) header: Header,
    pub(crate) tensors: Vec<Tensor<'a>>,
    /// The file that the type is left to, where it is said there.
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
    /// Whether its elements may have a type that is not F32: it is something that rows are multiplied with.
    pub(crate) fn is_matrix(&self) -> bool {
        const EXACT: [&str; 7] = [
            "_norm.weight",
            "ffn_gate_inp.weight",
            "position_embd.weight",
            // Of recurrent layers: kernels, and numbers of heads.
            "shortconv.conv.weight",
            "ssm_conv1d.weight",
            "ssm_a",
            "ssm_d",
        ];
        self.dims.len() > 1 && !EXACT.iter().any(|end| self.name.ends_with(end))
    }

    /// How many matrices of one shape follow each other.
    pub(crate) fn experts(&self) -> usize {
        self.dims.iter().skip(2).product()
    }
}

/// The rows of some matrices, one matrix after the other, in an order.
pub(crate) struct Contents<'a> {
    pub(crate) parts: Vec<Matrix<'a>>,
    pub(crate) order: Order,
    /// Which columns are written; all where it is `None`.
    pub(crate) columns: Option<Vec<usize>>,
    pub(crate) change: Change,
}

/// What becomes of the elements.
#[derive(Clone, PartialEq)]
pub(crate) enum Change {
    Nothing,
    /// This is added to every element.
    Plus(f32),
    /// Every element is multiplied by the number of its row, or of all rows.
    Times(Vec<f32>),
    /// `-exp(x)`.
    MinusExp,
}

/// A matrix in a file.
pub(crate) struct Matrix<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Whether the file has its columns one after the other.
    pub(crate) transposed: bool,
    pub(crate) bytes: Cow<'a, [u8]>,
    /// Of MXFP4: the scales of the blocks, where the file has them beside the elements.
    pub(crate) scales: Option<&'a [u8]>,
}

/// In which order rows are written.
#[derive(Clone, PartialEq)]
pub(crate) enum Order {
    /// As they are.
    Same,
    /// The rows i and i + half of each head next to each other: rotations take adjacent pairs.
    Pairs { heads: usize },
    /// `[head][q, k, v]` becomes `[q, k, v][head]`.
    Fused { heads: usize },
    /// These rows.
    Picked(Vec<usize>),
}

impl Order {
    /// The row that is written as row `row` of `rows`.
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

    /// Whether so many rows can be put in this order.
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
    /// One matrix as it is.
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

    /// Rows of all matrices in the files.
    pub(crate) fn stored_rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    fn stored_cols(&self) -> usize {
        self.parts.first().map_or(0, |part| part.cols)
    }

    /// The type of the elements in the files, if it is one and nothing is added to them.
    pub(crate) fn dtype(&self) -> Option<Dtype> {
        let first = self.parts.first()?.dtype;
        let one = self.parts.iter().all(|part| part.dtype == first)
            && (first.block_len() == 1 || self.change == Change::Nothing && self.columns.is_none());
        one.then_some(first)
    }

    /// Checks what the rows are read with.
    pub(crate) fn check(&self) -> Result<()> {
        let one_width = self.parts.iter().all(|part| part.cols == self.stored_cols());
        let columns = self.columns.as_ref().is_none_or(|all| all.iter().all(|&column| column < self.stored_cols()));
        if !one_width || !columns || !self.parts.iter().all(Matrix::is_whole) || !self.order.fits(self.stored_rows()) {
            return Err(format!("its {} rows are not what the model's sizes say", self.rows()).into());
        }
        Ok(())
    }

    /// Whether rows of type `dtype` are in the file as they are written.
    pub(crate) fn is_same(&self, dtype: Dtype) -> bool {
        let plain = self.change == Change::Nothing && self.columns.is_none();
        plain && self.parts.iter().all(|part| part.dtype == dtype && !part.transposed)
    }

    /// Writes the bytes of a row that [`Self::is_same`].
    pub(crate) fn copy_row(&self, row: usize, out: &mut [u8]) -> Option<()> {
        let (part, row) = self.find(row)?;
        part.copy_row(row, out)
    }

    /// The elements of a row.
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

    /// The matrix that a row comes from, and which row it is there.
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
    /// Whether the file has all of its bytes.
    fn is_whole(&self) -> bool {
        let Some(bytes) = self.dtype.row_bytes(self.cols).and_then(|bytes| bytes.checked_mul(self.rows)) else {
            return false;
        };
        let scales = self.scales.map_or(0, <[u8]>::len);
        let expected = if self.scales.is_some() { bytes / self.dtype.block_bytes() } else { 0 };
        scales == expected && bytes == self.bytes.len() + scales && (!self.transposed || self.dtype.block_len() == 1)
    }

    /// The bytes of a row that is not transposed.
    fn copy_row(&self, row: usize, out: &mut [u8]) -> Option<()> {
        let len = self.dtype.row_bytes(self.cols)?;
        let Some(scales) = self.scales else {
            out.copy_from_slice(self.bytes.get(row * len..(row + 1) * len)?);
            return Some(());
        };
        // Of 32 elements the files have pairs of neighbours in a byte; blocks have the elements i and i + 16.
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

    /// Leaves out the first rows.
    pub(crate) fn drop_rows(&mut self, count: usize) -> Result<()> {
        let bytes = self.dtype.row_bytes(self.cols).and_then(|bytes| bytes.checked_mul(count)).unwrap_or(usize::MAX);
        let rest = self.bytes.get(bytes..).ok_or_else(|| format!("it has fewer than {count} rows"))?.to_vec();
        (self.rows, self.bytes) = (self.rows - count, rest.into());
        Ok(())
    }

    /// The elements of a row.
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
