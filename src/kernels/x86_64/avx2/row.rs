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

/// Rows of activations, each `stride` bytes after the one before, and their outputs.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    first: Row,
    stride: usize,
    /// Outputs of the first row. Those of the next row are [`OUTPUTS`](crate::kernels::generic::OUTPUTS) elements further.
    pub(super) out: *mut f32,
}

impl Tile {
    pub(super) fn new(first: Row, stride: usize, out: *mut f32) -> Self {
        Self { first, stride, out }
    }

    /// Returns the first `T` rows.
    #[inline(always)]
    pub(super) fn rows<const T: usize>(self) -> [Row; T] {
        let mut rows = [self.first; T];
        let mut at = 0;
        for row in &mut rows {
            row.codes = row.codes.wrapping_byte_add(at);
            row.scales = row.scales.wrapping_byte_add(at);
            row.sums = row.sums.wrapping_byte_add(at);
            at += self.stride;
        }
        rows
    }

    /// Returns the same rows at addresses of which the compiler knows nothing. Called in a loop, it must read them anew
    /// each time. Otherwise it keeps all addresses of the loop, and a copy of all outputs, on the stack.
    #[inline(always)]
    pub(super) fn hidden(mut self) -> Self {
        let (mut scales, mut sums, mut out) = (self.first.scales.addr(), self.first.sums.addr(), self.out.addr());
        // SAFETY: the text has no instruction, so it neither reads nor writes anything: the numbers stay in their
        // registers. It is not `pure`, so the compiler does not move it out of a loop.
        unsafe {
            core::arch::asm!(
                "/* {} {} {} */", inout(reg) scales, inout(reg) sums, inout(reg) out,
                options(nomem, nostack, preserves_flags)
            );
        };
        self.first.scales = self.first.scales.with_addr(scales);
        self.first.sums = self.first.sums.with_addr(sums);
        self.out = self.out.with_addr(out);
        self
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
