//! The places of weights and vectors in the device's memory.

use gleed::tensor::TensorView;

use crate::adapter::Limits;
use crate::error::GpuError;
use crate::layout::{ALIGNED, matrix_bytes, row_bytes};

/// Number of a buffer of weights in a plan.
pub(crate) type Id = usize;

/// Largest number of rows of a matrix in a piece. A dispatch has at most 65,535 workgroups in one dimension, each with
/// at least two outputs.
const PIECE_ROWS: usize = 1 << 16;

/// Rows of a matrix that go to a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upload<'m> {
    pub(crate) buffer: Id,
    pub(crate) at: u64,
    pub(crate) rows: TensorView<'m>,
}

/// Rows of a matrix that lie in one buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) buffer: Id,
    pub(crate) at: u64,
    pub(crate) first: usize,
    pub(crate) rows: usize,
}

/// Buffers of weights, each at most as large as a kernel can see.
#[derive(Debug)]
pub(crate) struct Arena<'m> {
    most: u64,
    /// Bytes of each buffer.
    pub(crate) buffers: Vec<u64>,
    pub(crate) uploads: Vec<Upload<'m>>,
    /// Matrices that are placed already: address and length of their bytes in the file, and their pieces.
    known: Vec<(usize, usize, Vec<Piece>)>,
}

impl<'m> Arena<'m> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            most: limits.binding / ALIGNED as u64 * ALIGNED as u64,
            buffers: Vec::new(),
            uploads: Vec::new(),
            known: Vec::new(),
        }
    }

    /// Places matrices side by side in one buffer, if they fit in one. Returns the buffer, and the byte at which each
    /// matrix begins.
    pub(crate) fn together(&mut self, matrices: &[TensorView<'m>]) -> Option<(Id, Vec<u64>)> {
        let rows = matrices.iter().map(|matrix| matrix.rows()).sum::<usize>();
        let bytes = matrices.iter().map(|&matrix| matrix_bytes(matrix) as u64).sum::<u64>();
        if bytes > self.most || rows > PIECE_ROWS {
            return None;
        }
        Some(self.beside(matrices))
    }

    /// Places matrices side by side in one buffer. Together they must fit in it. Returns the buffer, and the byte at
    /// which each matrix begins.
    pub(crate) fn beside(&mut self, matrices: &[TensorView<'m>]) -> (Id, Vec<u64>) {
        let buffer = self.room(matrices.iter().map(|&matrix| matrix_bytes(matrix) as u64).sum());
        (buffer, matrices.iter().map(|&matrix| self.append(buffer, matrix)).collect())
    }

    /// Returns how many times `bytes` bytes fit in a buffer.
    pub(crate) fn fitting(&self, bytes: usize) -> usize {
        (self.most as usize).checked_div(bytes).unwrap_or(0)
    }

    /// Returns the number of rows that each of two such matrices can have in one buffer.
    pub(crate) fn rows_of_pair(&self, matrix: TensorView<'m>) -> usize {
        let row = bytes_of_row(matrix);
        (self.most as usize / 2).checked_div(row).unwrap_or(0).min(PIECE_ROWS / 2).min(matrix.rows())
    }

    /// Places a matrix, in pieces of whole rows where it is too large for one buffer.
    pub(crate) fn pieces(&mut self, matrix: TensorView<'m>) -> Result<Vec<Piece>, GpuError> {
        let key = (matrix.bytes().as_ptr() as usize, matrix.bytes().len());
        if let Some((.., pieces)) = self.known.iter().find(|(start, len, _)| (*start, *len) == key) {
            return Ok(pieces.clone());
        }
        let row = bytes_of_row(matrix);
        let most = (self.most as usize / row).min(PIECE_ROWS);
        if most == 0 {
            return Err(GpuError::TooLarge { what: "a row of weights", bytes: row as u64, most: self.most });
        }
        let mut pieces = Vec::new();
        for first in (0..matrix.rows()).step_by(most) {
            let rows = most.min(matrix.rows() - first);
            let part = matrix.slice_rows(first, rows).ok_or(GpuError::Mismatch("rows of a matrix"))?;
            let buffer = self.room(matrix_bytes(part) as u64);
            pieces.push(Piece { buffer, at: self.append(buffer, part), first, rows });
        }
        self.known.push((key.0, key.1, pieces.clone()));
        Ok(pieces)
    }

    /// Returns a buffer with room for `bytes` bytes: the last one, or a new one.
    fn room(&mut self, bytes: u64) -> Id {
        match self.buffers.last() {
            Some(used) if used + bytes <= self.most => {}
            _ => self.buffers.push(0),
        }
        self.buffers.len() - 1
    }

    fn append(&mut self, buffer: Id, rows: TensorView<'m>) -> u64 {
        let at = self.buffers[buffer];
        self.buffers[buffer] += matrix_bytes(rows) as u64;
        self.uploads.push(Upload { buffer, at, rows });
        at
    }
}

fn bytes_of_row(matrix: TensorView<'_>) -> usize {
    row_bytes(matrix.dtype(), matrix.cols()).unwrap_or(0).max(1)
}

/// Weights of norms, biases and other vectors, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Vectors(pub(crate) Vec<u32>);

impl Vectors {
    /// Appends little-endian f32 numbers of the file. Returns the index of the first one, or `None` for no bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Option<u32> {
        if bytes.is_empty() {
            return None;
        }
        let at = self.0.len() as u32;
        self.0.extend(bytes.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)));
        Some(at)
    }
}
