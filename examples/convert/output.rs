//! What will be in the written file: metadata, and tensors as recipes that give one row at a time.

use std::borrow::Cow;

use gleed::quant::dequantize;
use gleed::tensor::Dtype;

use crate::common::Result;
use crate::common::gguf::Header;

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
    /// What is added to every element.
    pub(crate) add: f32,
}

/// A matrix in a file.
pub(crate) struct Matrix<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    /// Whether the file has its columns one after the other.
    pub(crate) transposed: bool,
    pub(crate) bytes: Cow<'a, [u8]>,
}

/// In which order rows are written.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Order {
    /// As they are.
    Same,
    /// The rows i and i + half of each head next to each other: rotations take adjacent pairs.
    Pairs { heads: usize },
    /// `[head][q, k, v]` becomes `[q, k, v][head]`.
    Fused { heads: usize },
}

impl Order {
    /// The row that is written as row `row` of `rows`.
    fn source(self, row: usize, rows: usize) -> usize {
        match self {
            Self::Same => row,
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
    fn fits(self, rows: usize) -> bool {
        match self {
            Self::Same => true,
            Self::Pairs { heads } => rows.is_multiple_of(2 * heads),
            Self::Fused { heads } => rows.is_multiple_of(3 * heads),
        }
    }
}

impl<'a> Contents<'a> {
    /// One matrix as it is.
    pub(crate) fn same(matrix: Matrix<'a>) -> Self {
        Self { parts: vec![matrix], order: Order::Same, add: 0.0 }
    }

    pub(crate) fn rows(&self) -> usize {
        self.parts.iter().map(|part| part.rows).sum()
    }

    pub(crate) fn cols(&self) -> usize {
        self.parts.first().map_or(0, |part| part.cols)
    }

    /// The type of the elements in the files, if it is one and nothing is added to them.
    pub(crate) fn dtype(&self) -> Option<Dtype> {
        let first = self.parts.first()?.dtype;
        let one = self.add == 0.0 && self.parts.iter().all(|part| part.dtype == first);
        one.then_some(first)
    }

    /// Checks what the rows are read with.
    pub(crate) fn check(&self) -> Result<()> {
        let one_width = self.parts.iter().all(|part| part.cols == self.cols());
        let each = self.parts.iter().all(|part| {
            let bytes = part.dtype.row_bytes(part.cols).and_then(|bytes| bytes.checked_mul(part.rows));
            bytes == Some(part.bytes.len()) && (!part.transposed || part.dtype.block_len() == 1)
        });
        if !one_width || !each || !self.order.fits(self.rows()) {
            return Err(format!("its {} rows are not what the model's sizes say", self.rows()).into());
        }
        Ok(())
    }

    /// The bytes of a row where the file has it as type `dtype`.
    pub(crate) fn same_row(&self, row: usize, dtype: Dtype) -> Option<&[u8]> {
        let (part, row) = self.find(row)?;
        let len = part.dtype.row_bytes(part.cols)?;
        let usable = part.dtype == dtype && self.add == 0.0 && !part.transposed;
        usable.then(|| part.bytes.get(row * len..(row + 1) * len)).flatten()
    }

    /// The elements of a row.
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) -> Option<()> {
        let (part, row) = self.find(row)?;
        if part.transposed {
            let len = part.dtype.block_bytes();
            for (col, out) in out.iter_mut().enumerate() {
                let at = (col * part.rows + row) * len;
                dequantize(part.dtype, part.bytes.get(at..at + len)?, std::slice::from_mut(out))?;
            }
        } else {
            let len = part.dtype.row_bytes(part.cols)?;
            dequantize(part.dtype, part.bytes.get(row * len..(row + 1) * len)?, out)?;
        }
        if self.add != 0.0 {
            out.iter_mut().for_each(|x| *x += self.add);
        }
        Some(())
    }

    /// The matrix that a row comes from, and which row it is there.
    fn find(&self, row: usize) -> Option<(&Matrix<'a>, usize)> {
        let mut row = self.order.source(row, self.rows());
        for part in &self.parts {
            if row < part.rows {
                return Some((part, row));
            }
            row -= part.rows;
        }
        None
    }
}
