//! Products of F32, F16 and BF16 weights with many rows of inputs.
//!
//! Eight rows of weights are converted once, one chunk of columns at a time, into a panel that stays in the first-level
//! cache. All rows of inputs are multiplied with this panel. The dots are those of [`floats`](super::floats): 16 lanes,
//! the fixed tree.
// Loops index fixed arrays of constant length, so no bounds check remains. Iterators in their place are not always
// inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use core::marker::PhantomData;
use core::ops::Range;
use core::ptr;

use super::floats::{Bf16, F16, F32, Weight, add};
use super::lanes::{LANES, Lanes};
use super::products::{Inputs, OUTPUTS};
use crate::quant::form;
use crate::tensor::{Dtype, TensorView};

/// Number of rows of weights in a panel.
const ROWS: usize = 8;
/// Number of columns in a panel. It leaves room for inputs in a first-level cache of 32 KiB.
const COLS: usize = 576;
/// Number of f32 elements of a panel: 16 columns of all rows, then the next 16.
const PANEL: usize = ROWS * COLS;
/// Number of rows of inputs whose lanes are kept from one chunk of columns to the next.
const BLOCK: usize = 48;
/// Number of f32 elements of the lanes of one row of inputs.
const STATE: usize = ROWS * LANES;
/// Number of f32 elements of scratch that [`FloatPanels`] needs, for any alignment of the scratch.
pub(in crate::kernels) const SCRATCH: usize = PANEL + BLOCK * STATE + LANES;
const _: () = assert!(COLS.is_multiple_of(LANES) && OUTPUTS.is_multiple_of(ROWS));

/// Rows of weights and of inputs to multiply: a call of `products` with its sizes checked.
pub(in crate::kernels) struct FloatPanels<'a> {
    weights: TensorView<'a>,
    row_bytes: usize,
    /// Number of rows of inputs.
    rows: usize,
    /// Inputs, `[rows][cols]`, with rows `stride` elements apart.
    x: *const f32,
    stride: usize,
    /// `[rows][OUTPUTS]`
    out: *mut f32,
    /// `[PANEL]`
    panel: *mut f32,
    /// `[BLOCK][STATE]`
    state: *mut f32,
    /// Lifetimes of the memory that the pointers point to.
    lives: PhantomData<(&'a [f32], &'a mut [f32])>,
}

/// The columns of a panel.
#[derive(Clone, Copy)]
struct Chunk {
    col: usize,
    cols: usize,
    /// Whether the lanes start at zero.
    first: bool,
    /// Whether the dots are complete after this chunk.
    last: bool,
}

/// Weights to fetch for later, and the number of their cache lines that each tile fetches.
struct Ahead {
    next: *const u8,
    lines: usize,
}

/// Smallest number of rows of inputs with which it pays to convert the weights first (to copy them, if they are f32),
/// by type of weights.
pub(in crate::kernels) struct Least {
    pub(in crate::kernels) f32: usize,
    pub(in crate::kernels) f16: usize,
    pub(in crate::kernels) bf16: usize,
}

impl<'a> FloatPanels<'a> {
    /// Returns whether there are weights, and enough rows of inputs.
    #[inline(always)]
    pub(in crate::kernels) fn pays(weights: TensorView<'_>, inputs: &Inputs<'_>, least: Least) -> bool {
        let least = match weights.dtype() {
            Dtype::F32 => least.f32,
            Dtype::F16 => least.f16,
            _ => least.bf16,
        };
        inputs.rows() >= least && weights.rows() > 0
    }

    /// Returns `None` on a mismatch of sizes, and if there are no weights.
    #[inline(always)]
    pub(in crate::kernels) fn new(
        weights: TensorView<'a>,
        inputs: &Inputs<'a>,
        out: &'a mut [f32],
        scratch: &'a mut [f32],
    ) -> Option<Self> {
        let (x, stride) = inputs.floats()?;
        let rows = inputs.rows();
        let row_bytes = weights.dtype().row_bytes(weights.cols())?;
        let fits = (1..=OUTPUTS).contains(&weights.rows())
            && weights.rows().checked_mul(row_bytes)? <= weights.bytes().len()
            && weights.cols() == inputs.cols()
            && form(weights.dtype()) == inputs.form()
            && rows.checked_mul(OUTPUTS)? <= out.len()
            && scratch.len() >= SCRATCH;
        let panel = scratch.as_mut_ptr();
        // At most 15 elements are skipped. SCRATCH has 16 more than the panel and the lanes need.
        let panel = panel.wrapping_add(panel.addr().wrapping_neg() % 64 / 4);
        fits.then_some(Self {
            weights,
            row_bytes,
            rows,
            x: x.as_ptr(),
            stride,
            out: out.as_mut_ptr(),
            panel,
            state: panel.wrapping_add(PANEL),
            lives: PhantomData,
        })
    }

    /// Computes all products, with `R` rows of weights times `T` rows of inputs in registers. Returns `None` if the
    /// weights are not floats.
    #[inline(always)]
    pub(in crate::kernels) fn multiply<V: Lanes, const R: usize, const T: usize>(&self, proof: V::Proof) -> Option<()> {
        const { assert!(ROWS.is_multiple_of(R) && BLOCK.is_multiple_of(T) && 2 <= T && T <= 3) };
        // Chunks have equal sizes as far as possible.
        let all = self.weights.cols();
        let chunks = all.div_ceil(COLS).max(1);
        let cols = all.div_ceil(chunks).next_multiple_of(LANES).clamp(LANES, COLS);
        let block = if chunks == 1 { self.rows.max(1) } else { BLOCK };
        for first in (0..self.weights.rows()).step_by(ROWS) {
            let next = self.weights.bytes().as_ptr().wrapping_add((first + ROWS) * self.row_bytes);
            let lines = (ROWS * self.row_bytes).div_ceil(64);
            let mut ahead = Ahead { next, lines: lines.div_ceil((chunks * self.rows.div_ceil(T)).max(1)) };
            for row in (0..self.rows).step_by(block) {
                let rows = row..self.rows.min(row + block);
                for col in (0..all.max(1)).step_by(cols) {
                    let count = cols.min(all - col);
                    let chunk = Chunk { col, cols: count, first: col == 0, last: col + count == all };
                    match self.weights.dtype() {
                        // SAFETY: the weights are f32; `first` is below their rows, and the chunk ends at their last
                        // column and has at most `cols` <= COLS.
                        Dtype::F32 => unsafe { self.pack::<V, F32>(proof, first, chunk) },
                        // SAFETY: the weights are f16, and the chunk is the same.
                        Dtype::F16 => unsafe { self.pack::<V, F16>(proof, first, chunk) },
                        // SAFETY: the weights are bf16, and the chunk is the same.
                        Dtype::BF16 => unsafe { self.pack::<V, Bf16>(proof, first, chunk) },
                        _ => return None,
                    }
                    let rows = rows.clone();
                    // SAFETY: `pack` has just filled the panel with this chunk; `first` is a multiple of ROWS below the
                    // rows of the weights, at most OUTPUTS; the rows are below `self.rows`, and at most BLOCK if there
                    // are more chunks.
                    unsafe {
                        match self.weights.dtype() {
                            Dtype::F16 if V::FUSED => {
                                self.sweep::<V, R, T, true>(proof, first, chunk, rows, &mut ahead)
                            }
                            _ => self.sweep::<V, R, T, false>(proof, first, chunk, rows, &mut ahead),
                        }
                    }
                }
            }
        }
        Some(())
    }

    /// Converts a chunk of the rows of weights from `first` on. Past the last row, the last row is taken again.
    ///
    /// # Safety
    /// The weights are of type `W`, there are such rows, and the chunk is at most [`COLS`] of their columns.
    #[inline(always)]
    unsafe fn pack<V: Lanes, W: Weight>(&self, proof: V::Proof, first: usize, chunk: Chunk) {
        let whole = chunk.cols / LANES * LANES;
        let rest = chunk.cols - whole;
        for r in 0..ROWS {
            let row = (first + r).min(self.weights.rows() - 1);
            // SAFETY: `new` compared the rows with the bytes of the weights; `row` is one of them, and the columns of
            // the chunk are in it, by the caller's promise. The panel has room for COLS columns of ROWS rows, and what
            // `bytes` has no element for is zero.
            unsafe {
                let from = self.weights.bytes().as_ptr().add(row * self.row_bytes + chunk.col * W::BYTES);
                let to = self.panel.add(r * LANES);
                for col in (0..whole).step_by(LANES) {
                    W::load::<V>(proof, from.add(col * W::BYTES)).store(to.add(col * ROWS));
                }
                if rest > 0 {
                    let mut bytes = [0_u8; 4 * LANES];
                    ptr::copy_nonoverlapping(from.add(whole * W::BYTES), bytes.as_mut_ptr(), rest * W::BYTES);
                    W::load::<V>(proof, bytes.as_ptr()).store(to.add(whole * ROWS));
                }
            }
        }
    }

    /// Multiplies the panel with rows of inputs, for the outputs from `first` on. `EXACT` says whether the products are
    /// exact.
    ///
    /// # Safety
    /// The panel is of this chunk, `first` is a multiple of [`ROWS`] below [`OUTPUTS`], the rows exist, and
    /// there are at most [`BLOCK`] unless the chunk is the only one.
    #[inline(always)]
    unsafe fn sweep<V: Lanes, const R: usize, const T: usize, const EXACT: bool>(
        &self,
        proof: V::Proof,
        first: usize,
        chunk: Chunk,
        rows: Range<usize>,
        ahead: &mut Ahead,
    ) {
        let (mut row, mut state) = (rows.start, self.state);
        while row < rows.end {
            for _ in 0..ahead.lines {
                V::prefetch_later(ahead.next);
                ahead.next = ahead.next.wrapping_add(64);
            }
            for r in (0..ROWS).step_by(R) {
                // SAFETY: `row` is below `rows.end`, and as many rows follow as each case takes; they have the columns
                // of the chunk and OUTPUTS outputs, of which `first + r` is one; of at most BLOCK rows `state` keeps
                // the lanes.
                unsafe {
                    let tile = Tile {
                        panel: self.panel.add(r * LANES),
                        x: self.x.add(row * self.stride + chunk.col),
                        stride: self.stride,
                        state: state.wrapping_add(r * LANES),
                        out: self.out.add(row * OUTPUTS + first + r),
                    };
                    match rows.end - row {
                        1 => tile.multiply::<V, R, 1, EXACT>(proof, chunk),
                        2 => tile.multiply::<V, R, 2, EXACT>(proof, chunk),
                        _ => tile.multiply::<V, R, T, EXACT>(proof, chunk),
                    }
                }
            }
            row += T;
            state = state.wrapping_add(T * STATE);
        }
    }
}

/// Pointers to the beginning of a tile of dots.
struct Tile {
    panel: *const f32,
    x: *const f32,
    /// Distance from one row of inputs to the next.
    stride: usize,
    state: *mut f32,
    out: *mut f32,
}

impl Tile {
    /// Computes `R` rows of the panel times `XS` rows of inputs.
    ///
    /// # Safety
    /// The panel is of this chunk and has `R` rows. `x` has the columns of the chunk, and `out` has `R` outputs, for
    /// `XS` rows. `state` has the lanes of these rows, unless the chunk is the only one.
    #[inline(always)]
    unsafe fn multiply<V: Lanes, const R: usize, const XS: usize, const EXACT: bool>(
        self,
        proof: V::Proof,
        chunk: Chunk,
    ) {
        let Self { mut panel, x, stride, state, out } = self;
        let (steps, rest) = (chunk.cols / LANES, chunk.cols % LANES);
        // The last 16 columns are filled up with zeros, which add +0 to lanes that started at +0. They are copied
        // before anything is in registers.
        let mut last = [[0.0_f32; LANES]; XS];
        if rest > 0 {
            for i in 0..XS {
                // SAFETY: the caller promises the columns of the chunk in each row, of which `rest` < 16 follow the
                // whole steps.
                unsafe { ptr::copy_nonoverlapping(x.add(i * stride + steps * LANES), last[i].as_mut_ptr(), rest) };
            }
        }
        let mut lanes = [[V::splat(proof, 0.0); R]; XS];
        if !chunk.first {
            for i in 0..XS {
                for r in 0..R {
                    // SAFETY: the chunk is not the only one, so `state` has the lanes of these rows: the caller's
                    // promise.
                    lanes[i][r] = unsafe { V::load(proof, state.add(i * STATE + r * LANES)) };
                }
            }
        }
        let last = last.as_ptr().cast::<f32>();
        for (x, stride, steps) in [(x, stride, steps), (last, LANES, usize::from(rest > 0))] {
            let columns = Columns { steps, panel, panel_stride: ROWS * LANES, x, x_stride: stride };
            // SAFETY: as many columns follow: in the panel, which is filled up with zeros to a multiple of 16, and in the
            // rows, or in `last`, which is arrays of 16.
            unsafe { V::add_columns::<R, XS, EXACT>(proof, &mut lanes, columns) };
            panel = panel.wrapping_add(steps * ROWS * LANES);
        }
        for i in 0..XS {
            // SAFETY: the caller promises R outputs of each row, and lanes of R rows of weights if this chunk is not
            // the last.
            unsafe {
                if chunk.last {
                    V::store_trees(lanes[i], out.add(i * OUTPUTS));
                } else {
                    for r in 0..R {
                        lanes[i][r].store(state.add(i * STATE + r * LANES));
                    }
                }
            }
        }
    }
}

/// Columns of a panel and of rows of inputs.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Columns {
    /// Number of times 16 columns.
    pub(in crate::kernels) steps: usize,
    /// Lanes of the first row of weights. Those of the next row follow them.
    pub(in crate::kernels) panel: *const f32,
    /// Distance from 16 columns to the next 16.
    pub(in crate::kernels) panel_stride: usize,
    pub(in crate::kernels) x: *const f32,
    /// Distance from one row of inputs to the next.
    pub(in crate::kernels) x_stride: usize,
}

impl Columns {
    /// Returns the columns without the first `columns`, below 16, of each 16.
    #[inline(always)]
    pub(in crate::kernels) fn skip(self, columns: usize) -> Self {
        Self { panel: self.panel.wrapping_add(columns), x: self.x.wrapping_add(columns), ..self }
    }
}

/// See [`Lanes::add_columns`].
///
/// # Safety
/// As [`Lanes::add_columns`].
#[inline(always)]
pub(super) unsafe fn add_columns<V: Lanes, const R: usize, const XS: usize, const EXACT: bool>(
    proof: V::Proof,
    lanes: &mut [[V; R]; XS],
    columns: Columns,
) {
    let Columns { steps, mut panel, panel_stride, mut x, x_stride } = columns;
    for _ in 0..steps {
        let mut inputs = [V::splat(proof, 0.0); XS];
        for i in 0..XS {
            // SAFETY: the caller promises 16 columns of each of the XS rows, and i is below XS.
            inputs[i] = unsafe { V::load(proof, x.add(i * x_stride)) };
        }
        for r in 0..R {
            // SAFETY: the caller promises 16 columns of R rows of the panel, and r is below R.
            let weights = unsafe { V::load(proof, panel.add(r * LANES)) };
            for i in 0..XS {
                lanes[i][r] = add(lanes[i][r], weights, inputs[i], EXACT);
            }
        }
        panel = panel.wrapping_add(panel_stride);
        x = x.wrapping_add(LANES);
    }
}
