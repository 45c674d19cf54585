//! A row of activations as the kernels read it.

use crate::quant::QuantizedRow;

/// Where a row of quantized activations is.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) codes: *const i8,
    pub(super) scales: *const f32,
    pub(super) sums: *const i16,
}

impl From<QuantizedRow<'_>> for Row {
    fn from(row: QuantizedRow<'_>) -> Self {
        Self { codes: row.codes.as_ptr(), scales: row.scales.as_ptr(), sums: row.sums.as_ptr() }
    }
}
