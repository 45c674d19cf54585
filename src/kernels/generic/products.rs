//! Products of rows of weights with rows of activations.

use crate::kernels::fetch::FetchOrder;
use crate::quant::{ActivationRow, Form, dot, row_words};
use crate::tensor::TensorView;

/// Largest number of rows of weights in one call of a kernel, and the stride of its rows of results.
pub const OUTPUTS: usize = 32;

/// Rows of activations in one activation format.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    form: Form,
    cols: usize,
    rows: usize,
    words: &'a [u32],
    /// Number of words from one row to the next.
    stride: usize,
    /// Number of words of a row.
    len: usize,
    /// See [`Inputs::then_rows_at`].
    next: usize,
    /// See [`Inputs::fetching`].
    order: FetchOrder,
    /// See [`Inputs::then_stored_at`].
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    destination: [usize; 2],
}

impl<'a> Inputs<'a> {
    /// Returns `rows` rows of `cols` activations that [`quantize_row`](crate::quant::quantize_row) stored in `words`,
    /// `stride` words apart. Returns `None` if the rows do not lie within `words`.
    pub fn new(form: Form, rows: usize, cols: usize, words: &'a [u32], stride: usize) -> Option<Self> {
        let len = row_words(form, cols)?;
        let end = rows.checked_sub(1)?.checked_mul(stride)?.checked_add(len)?;
        (len <= stride && end <= words.len()).then_some(Self {
            form,
            cols,
            rows,
            words,
            stride,
            len,
            next: OUTPUTS,
            order: FetchOrder::default(),
            destination: [0; 2],
        })
    }

    /// Says which rows of weights are probably multiplied next: they begin `distance` rows after the first of the
    /// present ones. The default is [`OUTPUTS`]. Kernels fetch these rows ahead of time.
    pub fn then_rows_at(self, distance: usize) -> Self {
        Self { next: distance, ..self }
    }

    /// Returns the distance of [`Inputs::then_rows_at`].
    #[allow(dead_code)] // Plain Rust without float weights fetches nothing ahead.
    pub(in crate::kernels) fn next(&self) -> usize {
        self.next
    }

    /// Says where the caller stores the products next: the products of the first row at an address, and those of each
    /// further row `stride` bytes after the row before. Kernels fetch these places ahead of time.
    pub(crate) fn then_stored_at(self, address: usize, stride: usize) -> Self {
        Self { destination: [address, stride], ..self }
    }

    /// Returns the address and the stride of [`Inputs::then_stored_at`].
    #[cfg(target_arch = "x86_64")]
    pub(in crate::kernels) fn destination(&self) -> [usize; 2] {
        self.destination
    }

    /// Sets the order in which kernels fetch weights. [`Level::products`](crate::kernels::Level::products) makes a copy
    /// with the level's order if the inputs have another one.
    pub(crate) fn fetching(self, order: FetchOrder) -> Self {
        Self { order, ..self }
    }

    /// Returns the order of [`Inputs::fetching`].
    pub(in crate::kernels) fn order(&self) -> FetchOrder {
        self.order
    }

    /// Returns the activation format.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Returns the number of rows, at least 1.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of activations per row.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns a row, or `None` past the last one.
    #[inline]
    pub fn row(&self, row: usize) -> Option<ActivationRow<'a>> {
        if row >= self.rows {
            return None;
        }
        let start = row.checked_mul(self.stride)?;
        ActivationRow::from_words(self.form, self.cols, self.words.get(start..start.checked_add(self.len)?)?)
    }

    /// Returns the words in which the rows lie, and the number of words from one row to the next. The same part of two
    /// rows has this distance, too.
    #[cfg(target_arch = "x86_64")]
    pub(in crate::kernels) fn words(&self) -> (&'a [u32], usize) {
        (self.words, self.stride)
    }

    /// Returns rows of f32 and the distance from one to the next, or `None` for a form that is not float.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn floats(&self) -> Option<(&'a [f32], usize)> {
        self.form.is_float().then(|| (bytemuck::must_cast_slice(self.words), self.stride))
    }
}

/// Reason why the kernels of a level have not computed products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code)] // Machines without levels besides plain Rust have no kernel that refuses.
pub(in crate::kernels) enum Refused {
    /// The level has no kernel for weights of this type or size.
    NoKernel,
    /// The form or the sizes do not fit together.
    Sizes,
}

/// Computes `out[row * OUTPUTS + i]`, row i of the weights times row `row` of the inputs, for weights of all types.
#[inline(always)]
pub(in crate::kernels) fn products(weights: TensorView<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> Option<()> {
    for i in 0..weights.rows() {
        let weights_row = weights.row(i)?;
        for (row, out) in (0..inputs.rows()).zip(out.chunks_exact_mut(OUTPUTS)) {
            *out.get_mut(i)? = dot(weights.dtype(), weights_row, inputs.row(row)?)?;
        }
    }
    Some(())
}
