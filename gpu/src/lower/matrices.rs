//! Matrices: where they lie, and the dispatches that read them.

use bytemuck::Zeroable;
use gleed::device::MatrixView;
use gleed::quant::Form;
use gleed::tensor::{Dtype, TensorView};

use super::{Lowering, refused};
use crate::catalog::{Kernel, Weights};
use crate::error::GpuError;
use crate::grid::QUANTIZED;
use crate::layout::{self, row_words};
use crate::memory::Id;
use crate::params::{Embed, Linear, NONE, Quantize, Segment, mode};
use crate::place::{Activations, Batches, Place, Shaped, rows_number};

impl<'m> Lowering<'m> {
    /// Emits the reading of rows of a table, piece by piece.
    pub(super) fn embed_rows(&mut self, table: TensorView<'m>, to: Place, how: Embed) -> Result<(), GpuError> {
        let (weights, cols) = (known(table.dtype())?, table.cols());
        let row_bytes = row_bytes(weights, cols)?;
        for piece in self.arena.pieces(table)? {
            let params = Embed {
                cols: cols as u32,
                row_bytes,
                at: piece.at as u32,
                first: piece.first as u32,
                count: piece.rows as u32,
                y_stride: cols as u32,
                ..how
            };
            let buffers = [Place::Weights(piece.buffer), Place::Batch, to];
            self.emit(Kernel::Embed(weights), &params, &buffers, Shaped::ByRow);
        }
        Ok(())
    }

    /// Emits matrices of one input, each with the column at which its outputs begin. Matrices of one type share a
    /// dispatch. `first` has further parameters of the first matrix.
    pub(super) fn side_by_side(
        &mut self,
        parts: &[(usize, MatrixView<'m>)],
        to: (Place, usize),
        first: Linear,
    ) -> Result<(), GpuError> {
        let mut how = Linear { mode: mode::SET, ..first };
        let mut left = parts.to_vec();
        while let Some((_, matrix)) = left.first() {
            let dtype = matrix.weights.dtype();
            let (mut alike, mut others): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|(_, matrix)| matrix.weights.dtype() == dtype);
            others.extend(alike.drain(how.segments.len().min(alike.len())..));
            self.together(&alike, to, how)?;
            (how, left) = (Linear { mode: mode::SET, ..Linear::zeroed() }, others);
        }
        Ok(())
    }

    /// Emits at most four matrices of one input and one type, in one dispatch if they fit in a buffer.
    fn together(
        &mut self,
        parts: &[(usize, MatrixView<'m>)],
        (to, stride): (Place, usize),
        first: Linear,
    ) -> Result<(), GpuError> {
        let matrices: Vec<_> = parts.iter().map(|(_, matrix)| matrix.weights).collect();
        let Some((buffer, starts)) = self.arena.together(&matrices) else {
            for (index, (column, matrix)) in parts.iter().enumerate() {
                let how = if index == 0 { first } else { Linear { mode: mode::SET, ..Linear::zeroed() } };
                self.matrix(matrix, to, stride, *column, how)?;
            }
            return Ok(());
        };
        let mut params = first;
        for ((segment, (column, matrix)), at) in params.segments.iter_mut().zip(parts).zip(starts) {
            *segment = Segment {
                at: at as u32,
                outputs: matrix.weights.rows() as u32,
                y_at: *column as u32,
                bias: self.vectors.add(matrix.bias).unwrap_or(NONE),
            };
        }
        let Some(&weights) = matrices.first() else { return Ok(()) };
        self.linear(weights, buffer, to, stride, params)
    }

    /// Emits a matrix, piece by piece.
    pub(super) fn matrix(
        &mut self,
        matrix: &MatrixView<'m>,
        to: Place,
        stride: usize,
        column: usize,
        how: Linear,
    ) -> Result<(), GpuError> {
        let bias = self.vectors.add(matrix.bias);
        for piece in self.arena.pieces(matrix.weights)? {
            let mut params = how;
            params.segments[0] = Segment {
                at: piece.at as u32,
                outputs: piece.rows as u32,
                y_at: (column + piece.first) as u32,
                bias: bias.map_or(NONE, |bias| bias + piece.first as u32),
            };
            self.linear(matrix.weights, piece.buffer, to, stride, params)?;
        }
        Ok(())
    }

    pub(super) fn linear(
        &mut self,
        weights: TensorView<'m>,
        buffer: Id,
        to: Place,
        stride: usize,
        params: Linear,
    ) -> Result<(), GpuError> {
        let (weights, cols) = (known(weights.dtype())?, weights.cols());
        // Gate and up matrices write activations, and never read activations that stayed floats.
        let is_shared = params.experts.used == 0;
        let activations = match params.mode {
            mode::GATE | mode::ACTIVATE if self.raw.is_some() => {
                return refused("a feed-forward layer that reads other activations");
            }
            mode::GATE | mode::ACTIVATE if to == Place::FeedForward => Activations::FeedForward,
            mode::GATE | mode::ACTIVATE => Activations::Attention,
            _ => self.raw.unwrap_or(Activations::Attention),
        };
        let form = weights.form();
        let (from, x_stride, x_at) = match self.raw {
            Some(raw) => (raw.place(), cols, 0),
            None => (self.input_place(), words_of(form, cols)?, self.input_at(form)),
        };
        let params = Linear {
            cols: cols as u32,
            x_stride: x_stride as u32,
            x_at,
            y_stride: stride as u32,
            count: rows_number(self.rows),
            row_bytes: row_bytes(weights, cols)?,
            flag: self.flag,
            raw: u32::from(self.raw.is_some()),
            largest: self.largest.words(activations) as u32,
            ..params
        };
        let largest = Place::Largest(activations);
        let (rows, shaped) = match is_shared {
            true => (Place::Batch, Shaped::Matrix(params)),
            false => (Place::Choices, Shaped::Experts(params)),
        };
        let buffers = |from| [Place::Weights(buffer), from, to, Place::Vectors, Place::Flags, rows, largest];
        let kernel = Kernel::few_rows(weights, cols, self.raw.is_some());
        match self.raw {
            Some(raw) if is_shared && !weights.is_float() => {
                self.emit_for(Batches::Few, kernel, &params, &buffers(from), shaped);
                let x_stride = self.quantize_many(raw, form, cols)?;
                let params = Linear { raw: 0, x_stride, ..params };
                let shaped = Shaped::Matrix(params);
                self.emit_for(Batches::Many, Kernel::Tile(weights), &params, &buffers(Place::Quantized), shaped);
            }
            _ => self.emit(kernel, &params, &buffers(from), shaped),
        }
        Ok(())
    }

    /// Emits the quantization of activations for batches of many rows. Returns the words of a row.
    fn quantize_many(&mut self, raw: Activations, form: Form, cols: usize) -> Result<u32, GpuError> {
        let words = words_of(form, cols)?;
        self.widen(Place::Quantized, words);
        let params = Quantize {
            zero: 0,
            cols: cols as u32,
            out_stride: words as u32,
            largest: self.largest.words(raw) as u32,
            parts: if form == Form::Q8x256 { 8 } else { 1 },
            flag: self.flag,
            unused: [0; 2],
        };
        let buffers = [raw.place(), Place::Largest(raw), Place::Quantized, Place::Flags];
        let shaped = Shaped::ByHead(cols.div_ceil(QUANTIZED));
        self.emit_for(Batches::Many, Kernel::Quantize, &params, &buffers, shaped);
        Ok(words as u32)
    }
}

fn known(dtype: Dtype) -> Result<Weights, GpuError> {
    Weights::of(dtype).ok_or(GpuError::Unsupported { what: dtype.name() })
}

fn row_bytes(weights: Weights, cols: usize) -> Result<u32, GpuError> {
    let bytes = layout::row_bytes(weights.dtype(), cols).and_then(|bytes| u32::try_from(bytes).ok());
    bytes.ok_or(GpuError::Mismatch("columns of a matrix"))
}

/// Returns the words of a row of activations, if the columns are whole blocks.
pub(super) fn words_of(form: Form, cols: usize) -> Result<usize, GpuError> {
    gleed::quant::row_words(form, cols).ok_or(GpuError::Mismatch("columns of a matrix"))?;
    Ok(row_words(form, cols))
}
