//! The layout of rows of weights and of activations on a device. It lets kernels read 16 bytes at once.

use std::borrow::Cow;
use std::ops::Range;

use gleed::quant::Form;
use gleed::tensor::{Dtype, TensorView};

use crate::catalog::Weights;

/// Alignment of the rows of a matrix and of activations, in bytes.
pub(crate) const ALIGNED: usize = 16;

/// Returns the bytes of a row of weights, or `None` where the columns are not whole blocks.
pub(crate) fn row_bytes(dtype: Dtype, cols: usize) -> Option<usize> {
    dtype.row_bytes(cols)?.checked_next_multiple_of(ALIGNED)
}

/// Returns the bytes of the rows of a matrix.
pub(crate) fn matrix_bytes(matrix: TensorView<'_>) -> usize {
    matrix.rows() * row_bytes(matrix.dtype(), matrix.cols()).unwrap_or(0)
}

/// Returns the words of a row of activations: codes and scales, or floats.
pub(crate) fn activation_words(form: Form, cols: usize) -> usize {
    match form {
        Form::Q8x32 => cols / 4 + cols / 32,
        Form::Q8x256 => cols / 4 + cols / 256,
        Form::F32 | Form::Short => cols,
    }
}

/// Returns the words from one row of activations to the next.
pub(crate) fn row_words(form: Form, cols: usize) -> usize {
    activation_words(form, cols).next_multiple_of(ALIGNED / 4)
}

/// Returns the byte ranges of a block of the file, in their order on the device: there a row has the first range of all
/// blocks, then the second range of all, and so on. Returns no ranges where a row keeps the blocks as they are.
fn parts(weights: Weights) -> &'static [Range<usize>] {
    match weights {
        Weights::Q8_0 => &[2..34, 0..2],
        Weights::Q4_0 => &[2..18, 0..2],
        Weights::Q6K => &[0..128, 128..192, 192..208, 208..210],
        Weights::Mxfp4 => &[1..17, 0..1],
        Weights::F32 | Weights::F16 | Weights::Bf16 | Weights::Q4K => &[],
    }
}

/// Returns rows of the file as they lie on a device.
pub(crate) fn arranged(weights: Weights, cols: usize, rows: &[u8]) -> Cow<'_, [u8]> {
    let dtype = weights.dtype();
    let (Some(from), Some(to)) = (dtype.row_bytes(cols), row_bytes(dtype, cols)) else { return Cow::Borrowed(&[]) };
    let parts = parts(weights);
    if from == 0 || (from == to && parts.is_empty()) {
        return Cow::Borrowed(rows);
    }
    let mut out = vec![0; rows.len() / from * to];
    for (row, out) in rows.chunks_exact(from).zip(out.chunks_exact_mut(to)) {
        if parts.is_empty() {
            out[..from].copy_from_slice(row);
        }
        let mut out = out;
        for part in parts {
            let (here, behind) = out.split_at_mut(row.len() / dtype.block_bytes() * part.len());
            gather(row, dtype.block_bytes(), part.clone(), here);
            out = behind;
        }
    }
    Cow::Owned(out)
}

/// Copies one byte range of each block of a row.
fn gather(row: &[u8], block: usize, part: Range<usize>, out: &mut [u8]) {
    for (block, out) in row.chunks_exact(block).zip(out.chunks_exact_mut(part.len())) {
        out.copy_from_slice(&block[part.clone()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_before_scales() {
        // Nine blocks have 306 bytes, and 14 bytes of padding follow.
        let row: Vec<u8> = (0..9).flat_map(|block| [vec![block, 100 + block], vec![50 + block; 32]].concat()).collect();
        let rows = arranged(Weights::Q8_0, 9 * 32, &row);
        let codes: Vec<u8> = (0..9).flat_map(|block| [50 + block; 32]).collect();
        let scales: Vec<u8> = (0..9).flat_map(|block| [block, 100 + block]).collect();
        assert_eq!(rows, [codes, scales, vec![0; 14]].concat());
        assert_eq!(row_bytes(Dtype::Q8_0, 9 * 32), Some(320));
        assert_eq!(row_bytes(Dtype::Q8_0, 9), None);
    }

    #[test]
    fn rows_of_multiples_of_16_bytes_are_not_copied() {
        assert!(matches!(arranged(Weights::Q4K, 256, &[1; 288]), Cow::Borrowed(rows) if rows.len() == 288));
        assert_eq!(arranged(Weights::F16, 3, &[1, 2, 3, 4, 5, 6]), [&[1, 2, 3, 4, 5, 6][..], &[0; 10]].concat());
    }
}
