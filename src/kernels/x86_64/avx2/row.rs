//! Rows of activations and of weights as the kernels read them.

use crate::quant::QuantizedRow;

/// Pointers to the parts of a row of quantized activations.
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

/// Eight rows of weights, each right after the one before.
#[derive(Clone, Copy)]
pub(super) struct EightRows {
    /// Start of the first row.
    pub(super) first: *const u8,
    pub(super) row_bytes: usize,
}

impl EightRows {
    /// Returns the addresses `offset` bytes after the start of each row.
    ///
    /// The compiler must not know the distances between three of these addresses. It would keep all eight, for which
    /// there are too few registers. So it keeps three, and the instructions add one or two times the bytes of a row.
    #[inline(always)]
    pub(super) fn at(self, offset: usize) -> [*const u8; 8] {
        let Self { first, row_bytes } = self;
        let place = |row: usize| first.with_addr(hidden(first.addr().wrapping_add(offset + row * row_bytes)));
        let (a, b, c) = (place(0), place(3), place(6));
        let after = |place: *const u8, rows: usize| place.wrapping_add(rows * row_bytes);
        [a, after(a, 1), after(a, 2), b, after(b, 1), after(b, 2), c, after(c, 1)]
    }
}

/// Returns the same number, of which the compiler knows nothing.
#[inline(always)]
fn hidden(mut number: usize) -> usize {
    // SAFETY: the text has no instruction, so it neither reads nor writes anything: the number stays in its register.
    unsafe { core::arch::asm!("/* {} */", inout(reg) number, options(pure, nomem, nostack, preserves_flags)) };
    number
}
