//! The loops over rows of weights, chunks of columns and rows of activations.

use core::marker::PhantomData;

use super::blocks_32::Blocks32;
use super::blocks_256::Blocks256;
use super::by_row::{Plain, Unpacking};
use super::isa::{Avx2, Isa};
use super::lanes::clear_registers;
use super::matvec::{eight_32, eight_256, eight_by_row};
use super::panel::{BLOCK_256, CHUNK, GROUP, pack_32, pack_256};
use super::row::{EightRows, Row, Tile};
use super::sweep::{sweep_32, sweep_256};
use crate::kernels::generic::{Inputs, OUTPUTS};
use crate::kernels::x86_64::ahead::{Ahead, Coming, NextRows};
use crate::quant::ActivationRow;
use crate::tensor::TensorView;

/// Number of f32 elements of scratch: two groups, aligned to a register.
pub(super) const SCRATCH: usize = (2 * GROUP + 32) / 4;

/// Lead in bytes, see [`Coming::with_lead`].
const LEAD: usize = 4096;

/// A call of `products` with its sizes checked. It lives as long as the memory that it points to.
pub(in crate::kernels::x86_64) struct Job<'a> {
    weights: *const u8,
    rows: usize,
    row_bytes: usize,
    cols: usize,
    inputs: &'a Inputs<'a>,
    /// Outputs, `[inputs.rows()][OUTPUTS]`.
    out: *mut f32,
    /// Room for a panel of two groups.
    panel: *mut u8,
}

impl<'a> Job<'a> {
    /// Returns the job; `None` where sizes or forms do not fit together.
    pub(in crate::kernels::x86_64) fn new(
        weights: TensorView<'a>,
        inputs: &'a Inputs<'a>,
        out: &'a mut [f32],
        scratch: &'a mut [f32],
    ) -> Option<Self> {
        let (rows, cols) = (weights.rows(), weights.cols());
        let row_bytes = weights.dtype().row_bytes(cols)?;
        let fits = rows <= OUTPUTS
            && rows.checked_mul(row_bytes)? <= weights.bytes().len()
            && cols == inputs.cols()
            && crate::quant::form(weights.dtype()) == inputs.form()
            && inputs.rows().checked_mul(OUTPUTS)? <= out.len()
            && scratch.len() >= SCRATCH;
        let panel = scratch.as_mut_ptr().cast::<u8>();
        // At most 28 bytes, for which SCRATCH has room.
        let panel = panel.wrapping_add(panel.addr().wrapping_neg() % 32);
        fits.then_some(Self {
            weights: weights.bytes().as_ptr(),
            rows,
            row_bytes,
            cols,
            inputs,
            out: out.as_mut_ptr(),
            panel,
        })
    }

    /// Returns eight rows from `first` on, which is below `rows`. The last row stands in for the missing ones.
    #[inline(always)]
    fn eight(&self, first: usize) -> [*const u8; 8] {
        let last = self.rows - 1;
        let row = |i: usize| self.weights.wrapping_add((first + i).min(last) * self.row_bytes);
        [row(0), row(1), row(2), row(3), row(4), row(5), row(6), row(7)]
    }

    /// Returns the rows that are needed after `count` rows from `first` on.
    #[inline(always)]
    fn coming(&self, first: usize, count: usize) -> Coming {
        Coming::after(first + count, [self.rows, self.row_bytes], self.weights, self.inputs)
    }

    /// Returns the addresses to fetch for the rows that are needed after eight rows from `first` on.
    #[inline(always)]
    fn next_rows<K: Kernels>(&self, how: &K::How, first: usize) -> NextRows {
        let (coming, order) = (self.coming(first, 8), self.inputs.order());
        NextRows::new(coming, LEAD, order, [8, self.row_bytes], [K::TOGETHER, K::bytes(how, 1)])
    }

    /// Returns a row of activations; `None` past the last one.
    #[inline(always)]
    fn row(&self, row: usize) -> Option<Row> {
        match self.inputs.row(row)? {
            ActivationRow::Q8x32(x) | ActivationRow::Q8x256(x) => Some(x.into()),
            ActivationRow::F32(_) => None,
        }
    }

    /// Returns `T` rows of activations from `first` on, and their outputs from `output` on, which is below [`OUTPUTS`];
    /// `None` past the last row.
    #[inline(always)]
    fn tile<const T: usize>(&self, first: usize, output: usize) -> Option<([Row; T], [*mut f32; T])> {
        let mut rows = [self.row(first)?; T];
        let mut out = [self.out.wrapping_add(first * OUTPUTS + output); T];
        for (i, (row, out)) in rows.iter_mut().zip(&mut out).enumerate() {
            *row = self.row(first + i)?;
            *out = self.out.wrapping_add((first + i) * OUTPUTS + output);
        }
        Some((rows, out))
    }

    /// Returns the rows of activations from `first` on, from column `col` on, which starts a block of `block` columns, and
    /// their outputs from `output` on, which is below [`OUTPUTS`]; `None` past the last row.
    #[inline(always)]
    fn rows_from(&self, first: usize, output: usize, col: usize, block: usize) -> Option<Tile> {
        let (_, words) = self.inputs.words();
        let out = self.out.wrapping_add(first * OUTPUTS + output);
        Some(Tile::new(self.row(first)?.skip(col, block), words * size_of::<u32>(), out))
    }

    /// Sets all outputs to +0.
    fn clear(&self) {
        for row in 0..self.inputs.rows() {
            // SAFETY: `new` compared the outputs with this number of rows of OUTPUTS elements.
            unsafe { self.out.add(row * OUTPUTS).write_bytes(0, OUTPUTS) };
        }
    }
}

impl Row {
    /// Returns the row from column `cols` on, which starts a block of `block` columns.
    #[inline(always)]
    fn skip(self, cols: usize, block: usize) -> Self {
        Self {
            codes: self.codes.wrapping_add(cols),
            scales: self.scales.wrapping_add(cols / block),
            sums: self.sums.wrapping_add(cols / 16),
        }
    }
}

/// The kernels of a format for a level.
trait Kernels {
    /// Instructions of the level.
    type Isa: Isa;
    /// The facts about the format that are not known before run time, and memory of the kernels.
    type How;
    /// Number of columns of a block, or of a part of a block, that share one scale of the activations.
    const LEN: usize;
    /// Number of blocks of a row that [`Kernels::eight`] takes at once.
    const TOGETHER: usize;
    /// Largest number of rows of activations that [`Kernels::eight`] is used for.
    const FEW: usize;

    /// Returns the number of bytes of `blocks` blocks or parts. It is exact for whole blocks, and a chunk of columns is
    /// whole blocks.
    fn bytes(how: &Self::How, blocks: usize) -> usize;

    /// # Safety
    /// The rows have `blocks` blocks, and so has each of `x`; each of `out` has eight elements.
    unsafe fn eight<const N: usize>(
        how: &mut Self::How,
        isa: Self::Isa,
        rows: EightRows,
        next: NextRows,
        blocks: usize,
        x: [Row; N],
        out: [*mut f32; N],
    );
    /// # Safety
    /// The rows have `blocks` blocks, and the panel has room for them.
    unsafe fn pack(
        how: &mut Self::How,
        isa: Self::Isa,
        rows: [*const u8; 8],
        ahead: Ahead,
        blocks: usize,
        panel: *mut u8,
    );
    /// # Safety
    /// `panel` has two groups of `blocks` blocks, and each of the `T` rows has as many, and 16 outputs.
    unsafe fn sweep<const T: usize>(isa: Self::Isa, panel: *const u8, ahead: Ahead, blocks: usize, tile: Tile);
}

/// The kernels of a level and a format with blocks of 32.
struct Of32<I, F>(PhantomData<(I, F)>);

/// The kernels of a format with super-blocks of 256.
struct Of256<F>(PhantomData<F>);

impl<I: Isa, F: Blocks32> Kernels for Of32<I, F> {
    type Isa = I;
    type How = ();
    const LEN: usize = 32;
    const TOGETHER: usize = if F::TWO { 2 } else { 1 };
    const FEW: usize = F::FEW;

    #[inline(always)]
    fn bytes((): &(), blocks: usize) -> usize {
        blocks * F::BYTES / F::PARTS
    }

    #[inline(always)]
    unsafe fn eight<const N: usize>(
        (): &mut (),
        isa: Self::Isa,
        rows: EightRows,
        next: NextRows,
        blocks: usize,
        x: [Row; N],
        out: [*mut f32; N],
    ) {
        // SAFETY: the caller promises what the called function asks for.
        unsafe { eight_32::<I, F, N>(isa, rows, next, blocks, x, out) }
    }

    #[inline(always)]
    unsafe fn pack((): &mut (), isa: Self::Isa, rows: [*const u8; 8], ahead: Ahead, blocks: usize, panel: *mut u8) {
        // SAFETY: the caller promises what the called function asks for.
        unsafe { pack_32::<I, F>(isa, rows, ahead, blocks, panel) }
    }

    #[inline(always)]
    unsafe fn sweep<const T: usize>(isa: Self::Isa, panel: *const u8, ahead: Ahead, blocks: usize, tile: Tile) {
        // SAFETY: the caller promises what the called function asks for.
        unsafe { sweep_32::<I, F, T>(isa, panel, ahead, blocks, tile) }
    }
}

impl<F: Blocks256> Kernels for Of256<F> {
    type Isa = Avx2;
    type How = ();
    const LEN: usize = 256;
    const TOGETHER: usize = 1;
    const FEW: usize = F::FEW;

    #[inline(always)]
    fn bytes((): &(), blocks: usize) -> usize {
        blocks * F::BYTES
    }

    #[inline(always)]
    unsafe fn eight<const N: usize>(
        (): &mut (),
        isa: Self::Isa,
        rows: EightRows,
        next: NextRows,
        blocks: usize,
        x: [Row; N],
        out: [*mut f32; N],
    ) {
        // SAFETY: the caller promises what the called function asks for.
        unsafe { eight_256::<F, N>(isa, rows, next, blocks, x, out) }
    }

    #[inline(always)]
    unsafe fn pack((): &mut (), isa: Self::Isa, rows: [*const u8; 8], ahead: Ahead, blocks: usize, panel: *mut u8) {
        // SAFETY: the caller promises what the called function asks for.
        unsafe { pack_256::<F>(isa, rows, ahead, blocks, panel) }
    }

    #[inline(always)]
    unsafe fn sweep<const T: usize>(isa: Self::Isa, panel: *const u8, ahead: Ahead, blocks: usize, tile: Tile) {
        // SAFETY: the caller promises what the called function asks for.
        unsafe { sweep_256::<F, T>(isa, panel, ahead, blocks, tile) }
    }
}

/// The kernels of all formats that are unpacked row by row.
struct OfRows;

impl Kernels for OfRows {
    type Isa = Avx2;
    type How = Unpacking;
    const LEN: usize = 256;
    const TOGETHER: usize = 1;
    const FEW: usize = Plain::FEW;

    #[inline(always)]
    fn bytes(how: &Unpacking, blocks: usize) -> usize {
        blocks * how.bytes
    }

    #[inline(always)]
    unsafe fn eight<const N: usize>(
        how: &mut Self::How,
        isa: Self::Isa,
        rows: EightRows,
        next: NextRows,
        blocks: usize,
        x: [Row; N],
        out: [*mut f32; N],
    ) {
        // SAFETY: the caller promises what the called function asks for.
        unsafe { eight_by_row::<N>(isa, how, rows, next, blocks, x, out) }
    }

    #[inline(always)]
    unsafe fn pack(
        how: &mut Unpacking,
        isa: Self::Isa,
        rows: [*const u8; 8],
        ahead: Ahead,
        blocks: usize,
        panel: *mut u8,
    ) {
        for b in 0..blocks {
            let block = rows.map(|row| row.wrapping_add(b * how.bytes));
            // SAFETY: the caller promises `blocks` blocks of the rows and of the panel; `how.unpack` returns a
            // super-block of eight rows.
            unsafe {
                let block = how.unpack(block);
                pack_256::<Plain>(isa, block, ahead.skip(Ahead::UNITS * b), 1, panel.add(b * BLOCK_256));
            }
        }
    }

    #[inline(always)]
    unsafe fn sweep<const T: usize>(isa: Self::Isa, panel: *const u8, ahead: Ahead, blocks: usize, tile: Tile) {
        // SAFETY: the caller promises what the called function asks for.
        unsafe { sweep_256::<Plain, T>(isa, panel, ahead, blocks, tile) }
    }
}

/// Computes products with weights of a format with blocks of 32.
///
/// # Safety
/// The weights are of format `F`.
#[inline(always)]
pub(in crate::kernels::x86_64) unsafe fn products_32<I: Isa, F: Blocks32>(isa: I, job: &Job<'_>) -> Option<()> {
    // SAFETY: the caller promises that the weights are of format `F`, which these kernels are for.
    unsafe { products::<Of32<I, F>>(&mut (), isa, job) }
}

/// Computes products with weights of a format with super-blocks of 256, if the rows of activations are few. Returns
/// whether they are.
///
/// # Safety
/// As [`products_32`].
#[inline(always)]
pub(super) unsafe fn few_of_256<F: Blocks256>(isa: Avx2, job: &Job<'_>) -> Option<bool> {
    // SAFETY: the caller promises that the weights are of format `F`, which these kernels are for.
    unsafe { few_rows::<Of256<F>>(&mut (), isa, job) }
}

/// Computes products with weights of a format with super-blocks of 256, which are unpacked, and any number of rows of
/// activations.
///
/// # Safety
/// As [`products_32`]; the rows have [`Blocks256::BYTES`] for each super-block.
#[inline(always)]
pub(super) unsafe fn unpacked_256<F: Blocks256>(isa: Avx2, job: &Job<'_>) -> Option<()> {
    // SAFETY: the caller promises that the weights are of format `F`, which these kernels are for.
    unsafe { unpacked::<Of256<F>>(&mut (), isa, job) }
}

/// Computes products with weights of a format that is unpacked row by row.
///
/// # Safety
/// The weights are of that format.
#[inline(always)]
pub(super) unsafe fn products_by_row(isa: Avx2, job: &Job<'_>, how: &mut Unpacking) -> Option<()> {
    // SAFETY: the caller promises that the weights are of the format.
    unsafe { products::<OfRows>(how, isa, job) }
}

/// # Safety
/// The weights are of the format of the kernels.
#[inline(always)]
unsafe fn products<K: Kernels>(how: &mut K::How, isa: K::Isa, job: &Job<'_>) -> Option<()> {
    // SAFETY: as this function; where the rows are not few, `few_rows` compared their bytes.
    unsafe { if few_rows::<K>(how, isa, job)? { Some(()) } else { unpacked::<K>(how, isa, job) } }
}

/// Computes products with few rows of activations. Returns whether they are few, and `None` where the rows have another
/// number of bytes.
///
/// # Safety
/// As [`products`].
#[inline(always)]
unsafe fn few_rows<K: Kernels>(how: &mut K::How, isa: K::Isa, job: &Job<'_>) -> Option<bool> {
    if K::bytes(how, job.cols / K::LEN) != job.row_bytes {
        return None;
    }
    // SAFETY: as this function; `N` is the number of rows.
    unsafe {
        match job.inputs.rows() {
            // Eight rows of weights are read at once.
            _ if job.rows < 8 => return Some(false),
            1 => few::<K, 1>(how, isa, job)?,
            2 if const { K::FEW >= 2 } => few::<K, 2>(how, isa, job)?,
            3 if const { K::FEW >= 3 } => few::<K, 3>(how, isa, job)?,
            4 if const { K::FEW >= 4 } => few::<K, 4>(how, isa, job)?,
            _ => return Some(false),
        }
    }
    Some(true)
}

/// Computes products with weights that are unpacked.
///
/// # Safety
/// As [`products`]; the rows have the bytes of the kernels' blocks.
#[inline(always)]
unsafe fn unpacked<K: Kernels>(how: &mut K::How, isa: K::Isa, job: &Job<'_>) -> Option<()> {
    job.clear();
    for first in (0..job.rows).step_by(16) {
        for col in (0..job.cols).step_by(CHUNK) {
            let blocks = (job.cols - col).min(CHUNK) / K::LEN;
            // As many bytes of the next rows: half of them while these rows are unpacked, and half while they are
            // multiplied.
            let from = job.coming(first, 16).first.wrapping_add(16 * K::bytes(how, col / K::LEN));
            let bytes = 16 * K::bytes(how, blocks);
            for g in 0..2 {
                #[cfg(test)]
                crate::kernels::x86_64::counted::unpacked(8 * blocks);
                let rows = job.eight((first + g * 8).min(job.rows - 1));
                let rows = rows.map(|row| row.wrapping_add(K::bytes(how, col / K::LEN)));
                let ahead = Ahead::part(from, bytes / 2, g, 2, Ahead::UNITS * blocks);
                // SAFETY: the rows have these blocks from `col` on, and a group of the panel holds CHUNK columns of
                // eight rows.
                unsafe { K::pack(how, isa, rows, ahead, blocks, job.panel.add(g * GROUP)) };
            }
            // SAFETY: `isa` proves AVX2, which is all that the function asks for.
            unsafe { clear_registers() };
            // SAFETY: the panel was packed above; first is a multiple of 16 below rows <= OUTPUTS, so first + 16 <=
            // OUTPUTS.
            unsafe {
                sweep_all::<K>(isa, job, first, col, blocks, Ahead::part(from, bytes, 1, 2, blocks * K::LEN / 32))?
            };
        }
    }
    Some(())
}

/// Computes products with `N` rows of activations, straight from the blocks of the file.
///
/// # Safety
/// As [`products`]; there are `N` rows of activations, and eight rows of weights or more.
#[inline(always)]
unsafe fn few<K: Kernels, const N: usize>(how: &mut K::How, isa: K::Isa, job: &Job<'_>) -> Option<()> {
    for first in (0..job.rows).step_by(8) {
        // The last eight rows may overlap the eight rows before.
        let first = first.min(job.rows - 8);
        let (x, out) = job.tile::<N>(0, first)?;
        let rows = EightRows { first: job.weights.wrapping_add(first * job.row_bytes), row_bytes: job.row_bytes };
        // SAFETY: `Job::new` compared the rows with the bytes of the weights: they have cols / LEN blocks of the
        // caller's format, and so has each of x. first is at most rows - 8, and rows <= OUTPUTS, so 8 outputs follow.
        unsafe { K::eight::<N>(how, isa, rows, job.next_rows::<K>(how, first), job.cols / K::LEN, x, out) };
        #[cfg(test)]
        if N > 1 {
            crate::kernels::x86_64::counted::unpacked(8 * job.cols / K::LEN);
            crate::kernels::x86_64::counted::multiplied(N * 8 * job.cols / K::LEN);
        }
    }
    Some(())
}

/// Multiplies all rows of activations with the panel of columns `col` on, for outputs `first` to `first + 15`. All of
/// `ahead` is fetched during the first of these rows.
///
/// # Safety
/// As [`products`]; the panel has `blocks` blocks, which the rows have from `col` on; `first + 16 <= OUTPUTS`.
#[inline(always)]
unsafe fn sweep_all<K: Kernels>(
    isa: K::Isa,
    job: &Job<'_>,
    first: usize,
    col: usize,
    blocks: usize,
    mut ahead: Ahead,
) -> Option<()> {
    let mut row = 0;
    while row < job.inputs.rows() {
        #[cfg(test)]
        let before = row;
        let tile = job.rows_from(row, first, col, K::LEN)?;
        // SAFETY: the caller promises the panel, and that rows have its columns; as many rows of activations and of
        // outputs follow `row`.
        unsafe {
            match job.inputs.rows() - row {
                1 => {
                    K::sweep::<1>(isa, job.panel, ahead, blocks, tile);
                    row += 1;
                }
                2..=3 => {
                    K::sweep::<2>(isa, job.panel, ahead, blocks, tile);
                    row += 2;
                }
                _ => {
                    K::sweep::<4>(isa, job.panel, ahead, blocks, tile);
                    row += 4;
                }
            }
        }
        ahead = Ahead::none();
        #[cfg(test)]
        crate::kernels::x86_64::counted::multiplied((row - before) * 16 * blocks);
    }
    Some(())
}
