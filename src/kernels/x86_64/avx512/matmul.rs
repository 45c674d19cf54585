//! Products with two and more rows of activations. 32 rows of weights are unpacked once, in chunks of columns that stay
//! in the cache, to a panel with a row per lane. All rows of activations are multiplied with the panel, eight at a
//! time. Between the chunks the accumulators lie in `out`, so the chain of additions is not cut.

use core::cell::Cell;

use super::layouts_256;
use super::panel::Rows;
use super::panel_32::{self, Layout32, Panel32};
use super::panel_256::{Layout256, Panel256};
use super::{matmul_32, matmul_256};
use crate::kernels::generic::{Inputs, OUTPUTS, Refused};
use crate::kernels::x86_64::ahead::{Ahead, fetch_rows};
use crate::quant::{ActivationRow, by_dtype};
use crate::tensor::TensorView;

/// Most bytes of a panel, with all of its blocks: it stays in the first-level cache beside the inputs.
const BYTES: usize = 2 * size_of::<Panel256>();
/// Number of f32 elements of scratch for [`Sums`] and a panel, however the scratch is aligned.
pub(in crate::kernels) const SCRATCH: usize = (size_of::<Sums>() + BYTES + size_of::<Line>()) / size_of::<f32>();
const _: () = assert!(BYTES / size_of::<Panel32>() <= 32 && OUTPUTS == 32);

/// Least number of rows of activations with which it pays to compute [`Panel256::limit`] of the weights.
const MANY: usize = 8;

/// A cache line.
#[repr(C, align(64))]
pub(in crate::kernels::x86_64) struct Line([u8; 64]);

/// A row of activations, from a certain block on.
#[derive(Clone, Copy)]
pub(in crate::kernels::x86_64) struct Input {
    pub(in crate::kernels::x86_64) codes: *const i8,
    pub(in crate::kernels::x86_64) scales: *const f32,
    /// Sums of 16 codes each.
    pub(in crate::kernels::x86_64) sums: *const i16,
    /// Largest sum of the squares of 16 codes, for each block of 256.
    pub(in crate::kernels::x86_64) squares: *const u32,
}

/// Rows of activations. Each further row lies `stride` bytes after the one before.
#[derive(Clone, Copy)]
pub(in crate::kernels::x86_64) struct Batch {
    first: Input,
    /// Bytes from a row to the next one.
    pub(in crate::kernels::x86_64) stride: usize,
}

impl Batch {
    /// Returns the rows of `inputs`, which have `blocks` blocks of `cols` columns; `None` where they have another
    /// number of blocks.
    pub(in crate::kernels::x86_64) fn new(inputs: &Inputs<'_>, blocks: usize, cols: usize) -> Option<Self> {
        let (ActivationRow::Q8x32(x) | ActivationRow::Q8x256(x)) = inputs.row(0)? else {
            return None;
        };
        // Compared one by one: arrays of lengths would be compared in memory.
        let fits = x.codes.len() == blocks * cols
            && x.scales.len() == blocks
            && x.sums.len() == blocks * cols / 16
            && x.squares.len() == if cols == 256 { blocks } else { 0 };
        if !fits {
            return None;
        }
        let (words, stride) = inputs.words();
        // Unlike pointers to the parts of the first row, these pointers may go on to the next rows.
        let words = words.as_ptr().cast::<u8>();
        let all = |part: *const u8| words.wrapping_add(part.addr().wrapping_sub(words.addr()));
        let first = Input {
            codes: all(x.codes.as_ptr().cast()).cast(),
            scales: all(x.scales.as_ptr().cast()).cast(),
            sums: all(x.sums.as_ptr().cast()).cast(),
            squares: all(x.squares.as_ptr().cast()).cast(),
        };
        Some(Self { first, stride: stride.checked_mul(size_of::<u32>())? })
    }

    /// Returns row `row` from block `block` on. Blocks have `cols` columns.
    ///
    /// # Safety
    /// This row and this block exist.
    #[inline]
    pub(in crate::kernels::x86_64) unsafe fn row(&self, row: usize, block: usize, cols: usize) -> Input {
        let Input { codes, scales, sums, squares } = self.first;
        let start = row * self.stride;
        // SAFETY: the parts of the row are as far after the parts of the first row as the caller's row is after it, a
        // number of bytes within the inputs. For each block there is one element of the scales, `cols` codes and a
        // sixteenth as many sums, as compared in `new`, and one square with super-blocks only.
        unsafe {
            Input {
                codes: codes.byte_add(start).add(block * cols),
                scales: scales.byte_add(start).add(block),
                sums: sums.byte_add(start).add(block * cols / 16),
                squares: if cols == 256 { squares.byte_add(start).add(block) } else { squares },
            }
        }
    }
}

/// Sums of the activations of up to eight rows, for the columns of a panel.
#[repr(C, align(64))]
pub(in crate::kernels::x86_64) struct Sums {
    /// Start of the integer sums: minus the offset of the codes times the sum of the activations. With blocks of 32 it
    /// has the starts of all blocks of a panel, with super-blocks the starts of one.
    pub(in crate::kernels::x86_64) starts: [[i32; 256]; 8],
    /// Factors of the minima: f32 totals of blocks of 32, or pairs of i16 totals of sub-blocks.
    pub(in crate::kernels::x86_64) pairs: [[i32; 32]; 8],
}

impl Sums {
    /// Takes the sums from the beginning of the scratch, and returns them and the rest; `None` where the scratch is too
    /// short.
    pub(super) fn take(scratch: &mut [f32]) -> Option<(&mut Self, &mut [Line])> {
        // SAFETY: every bit pattern of `Line`, which is bytes, and of f32 is valid.
        let (_, lines, _) = unsafe { scratch.align_to_mut::<Line>() };
        let (sums, rest) = lines.split_at_mut_checked(size_of::<Self>() / size_of::<Line>())?;
        // SAFETY: every bit pattern of `Sums`, a whole number of lines, is valid.
        Some((unsafe { sums.align_to_mut::<Self>() }.1.first_mut()?, rest))
    }
}

/// A format of weights: how a panel is unpacked, and how it is multiplied.
///
/// # Safety
/// All bit patterns of a panel are valid.
pub(in crate::kernels::x86_64) unsafe trait Format {
    /// One block of each of 32 rows, unpacked.
    type Panel;
    /// Number of columns of a block.
    const COLS: usize;
    /// Number of columns that share one scale of the activations, and one step of the chains.
    const SCALED: usize;
    /// The facts about the format that are not known before run time.
    type How: Copy;

    /// Returns the number of bytes of a block.
    fn bytes(how: Self::How) -> usize;

    /// Unpacks a block of sixteen rows to rows 16 `g` to 16 `g` + 15 of the panel. `many` is whether the panel is used
    /// for at least [`MANY`] inputs.
    ///
    /// # Safety
    /// [`Self::bytes`] bytes are readable in all rows, `g` is below 2, and the processor has the instructions.
    unsafe fn unpack(how: Self::How, rows: &Rows, g: usize, panel: &mut Self::Panel, many: bool);

    /// Adds the products of a panel with `ROWS` rows of activations to `out`, 32 elements per row.
    ///
    /// # Safety
    /// The panel has at most [`BYTES`] bytes, and there are at most 8 rows. Every input has all codes, scales and sums
    /// for the panel, `out` has room for all rows, and the processor has the instructions.
    unsafe fn add_products<const ROWS: usize>(
        panel: &[Self::Panel],
        inputs: &[Input; ROWS],
        sums: &mut Sums,
        ahead: Ahead,
        out: *mut f32,
    );
}

pub(in crate::kernels::x86_64) struct Blocks<L, const PARTS: usize>(L);
pub(in crate::kernels::x86_64) struct SuperBlocks<L>(L);

// SAFETY: a panel is registers of integers and of f32.
unsafe impl<L: Layout32<PARTS>, const PARTS: usize> Format for Blocks<L, PARTS> {
    type Panel = [Panel32; PARTS];
    const COLS: usize = 32 * PARTS;
    const SCALED: usize = 32;
    type How = ();

    #[inline(always)]
    fn bytes((): ()) -> usize {
        L::BYTES
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack((): (), rows: &Rows, g: usize, panel: &mut [Panel32; PARTS], _: bool) {
        // SAFETY: the caller promises what the called function asks for: `bytes` are those of `L`.
        unsafe { panel_32::unpack::<L, PARTS>(rows, g, panel) }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add_products<const ROWS: usize>(
        panel: &[[Panel32; PARTS]],
        inputs: &[Input; ROWS],
        sums: &mut Sums,
        ahead: Ahead,
        out: *mut f32,
    ) {
        // SAFETY: the caller promises the inputs, room for at most 8 rows, and at most `BYTES` of panel: 32 blocks, as
        // asserted above.
        unsafe {
            matmul_32::add_products::<L, PARTS, ROWS>(panel.as_flattened(), inputs, sums, ahead, out);
        }
    }
}

// SAFETY: a panel is registers of integers and of f32, and an integer.
unsafe impl<L: Layout256> Format for SuperBlocks<L> {
    type Panel = Panel256;
    const COLS: usize = 256;
    const SCALED: usize = 256;
    type How = ();

    #[inline(always)]
    fn bytes((): ()) -> usize {
        L::BYTES
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack((): (), rows: &Rows, g: usize, panel: &mut Panel256, many: bool) {
        // SAFETY: the caller promises what the called functions ask for: `bytes` are those of `L`.
        unsafe {
            panel.unpack::<L>(rows, g);
            if many {
                panel.bound::<L>(g);
            } else {
                panel.limit = 0;
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add_products<const ROWS: usize>(
        panel: &[Panel256],
        inputs: &[Input; ROWS],
        sums: &mut Sums,
        ahead: Ahead,
        out: *mut f32,
    ) {
        // SAFETY: the caller promises the inputs, room for at most 8 rows, and at most `BYTES` of panel, which is two
        // super-blocks.
        unsafe { matmul_256::add_products::<L, ROWS>(panel, inputs, sums, ahead, out) }
    }
}

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64) fn matmul(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), Refused> {
    let done = by_dtype!(weights.dtype(), {
        Q4_0 => by_panels::<Blocks<panel_32::Q4_0, 1>>((), weights, inputs, out, scratch),
        Q4_1 => by_panels::<Blocks<panel_32::Q4_1, 1>>((), weights, inputs, out, scratch),
        Q5_0 => by_panels::<Blocks<panel_32::Q5_0, 1>>((), weights, inputs, out, scratch),
        Q5_1 => by_panels::<Blocks<panel_32::Q5_1, 1>>((), weights, inputs, out, scratch),
        Q8_0 => by_panels::<Blocks<panel_32::Q8_0, 1>>((), weights, inputs, out, scratch),
        IQ4_NL => by_panels::<Blocks<panel_32::Iq4Nl, 1>>((), weights, inputs, out, scratch),
        Q2_K => by_panels::<SuperBlocks<layouts_256::Q2K>>((), weights, inputs, out, scratch),
        Q3_K => by_panels::<SuperBlocks<layouts_256::Q3K>>((), weights, inputs, out, scratch),
        Q4_K => by_panels::<SuperBlocks<layouts_256::Q4K>>((), weights, inputs, out, scratch),
        Q5_K => by_panels::<SuperBlocks<layouts_256::Q5K>>((), weights, inputs, out, scratch),
        Q6_K => by_panels::<SuperBlocks<layouts_256::Q6K>>((), weights, inputs, out, scratch),
        IQ4_XS => by_panels::<SuperBlocks<layouts_256::Iq4Xs>>((), weights, inputs, out, scratch),
        TQ2_0 => by_panels::<SuperBlocks<layouts_256::Tq2_0>>((), weights, inputs, out, scratch),
        MXFP4 => by_panels::<Blocks<panel_32::Mxfp4, 1>>((), weights, inputs, out, scratch),
        NVFP4 => by_panels::<Blocks<panel_32::Nvfp4, 2>>((), weights, inputs, out, scratch),
        Q1_0 => by_panels::<Blocks<panel_32::Q1_0, 4>>((), weights, inputs, out, scratch),
        Q2_0 => by_panels::<Blocks<panel_32::Q2_0, 2>>((), weights, inputs, out, scratch),
        _ => return Err(Refused::NoKernel),
    });
    done.ok_or(Refused::Sizes)
}

/// Multiplies panel by panel, for weights of format `F`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn by_panels<F: Format>(
    how: F::How,
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    // The checks that the pointers below rely on.
    let (cols, rows) = (weights.cols(), inputs.rows());
    let fits = (1..=OUTPUTS).contains(&weights.rows())
        && i32::try_from(weights.bytes().len()).is_ok()
        && weights.dtype().block_bytes() == F::bytes(how)
        && weights.dtype().block_len() == F::COLS
        && inputs.cols() == cols;
    if !fits {
        return (weights.rows() == 0).then_some(());
    }
    let out = out.get_mut(..rows.checked_mul(OUTPUTS)?)?;
    let (sums, panel) = Sums::take(scratch)?;
    // SAFETY: every bit pattern of `F::Panel`, a whole number of lines, is valid.
    let panel = unsafe { panel.align_to_mut::<F::Panel>() }.1;
    let blocks = cols / F::COLS;
    if blocks == 0 {
        out.fill(0.0);
    }
    let batch = Batch::new(inputs, blocks * (F::COLS / F::SCALED), F::SCALED)?;
    let row_bytes = blocks * F::bytes(how);
    // Panels of as equal length as possible.
    let length = blocks.div_ceil(blocks.div_ceil(BYTES / size_of::<F::Panel>()).max(1));
    let mut first = 0;
    while first < blocks {
        let panel = panel.get_mut(..(blocks - first).min(length))?;
        let is_last = first + panel.len() == blocks;
        // As many bytes of the next rows of weights as the panel has: one part while the panel is unpacked, and one
        // part with each group of inputs.
        let parts = 1 + rows / 8 + (rows % 8).count_ones() as usize;
        let next = weights.bytes().as_ptr().wrapping_add(inputs.next().wrapping_mul(row_bytes));
        let from = next.wrapping_add(OUTPUTS * first * F::bytes(how));
        let bytes = OUTPUTS * panel.len() * F::bytes(how);
        let ahead = |part: usize, units: usize| Ahead::part(from, bytes, part, parts, units);
        let (reads, products) = (2 * panel.len() * F::bytes(how), Ahead::UNITS * panel.len() * (F::COLS / F::SCALED));
        // SAFETY: `first + panel.len()` is at most the number of blocks in the rows of weights and inputs, whose types,
        // sizes and number are those of `F` as checked above; the panel has at most as many blocks as `BYTES` hold;
        // `out` has a place for every row, and `row` is below their number.
        unsafe {
            unpack::<F>(how, weights, first, panel, ahead(0, reads), rows >= MANY);
            let (mut row, mut part) = (0, 1);
            while row < rows {
                let (ahead, out) = (ahead(part, products), out.as_mut_ptr());
                let count = match rows - row {
                    8.. => add_products::<F, 8>(panel, &batch, row, first, sums, ahead, out),
                    4.. => add_products::<F, 4>(panel, &batch, row, first, sums, ahead, out),
                    2.. => add_products::<F, 2>(panel, &batch, row, first, sums, ahead, out),
                    _ => add_products::<F, 1>(panel, &batch, row, first, sums, ahead, out),
                };
                if is_last {
                    fetch_rows(inputs.destination(), row..row + count);
                }
                row += count;
                part += 1;
            }
        }
        first += panel.len();
    }
    Some(())
}

/// Unpacks blocks of all rows of weights to `panel`, from block `first` on. Where there are fewer than 32 rows, the
/// last one stands in for the missing ones.
///
/// # Safety
/// There is at least one row. The rows have the blocks of the panel from `first` on, of the format `F`, and less than
/// 2^31 bytes.
#[inline(never)] // once for both levels
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64) unsafe fn unpack<F: Format>(
    how: F::How,
    weights: TensorView<'_>,
    first: usize,
    panel: &mut [F::Panel],
    ahead: Ahead,
    many: bool,
) {
    let row_bytes = weights.cols() / F::COLS * F::bytes(how);
    for g in 0..2 {
        #[cfg(test)]
        crate::kernels::x86_64::counted::unpacked(16 * panel.len());
        let mut offsets = [0; 16];
        for (row, offset) in (16 * g..).zip(&mut offsets) {
            *offset = (weights.rows().saturating_sub(1).min(row) * row_bytes) as u32;
        }
        let units = (g * panel.len()..).map(|block| block * F::bytes(how));
        for ((i, panel), unit) in panel.iter_mut().enumerate().zip(units) {
            // SAFETY: the caller promises the blocks of the panel from `first` on, so the block lies in the row;
            // offsets lead to rows that exist, in less than 2^31 bytes; g is below 2.
            unsafe {
                let rows = Rows {
                    block: weights.bytes().as_ptr().add((first + i) * F::bytes(how)),
                    offsets,
                    ahead: ahead.skip(unit),
                    fetched: Cell::new(0),
                };
                F::unpack(how, &rows, g, panel, many);
            }
        }
    }
}

/// Adds the products of a panel with `ROWS` rows of activations from `row` on. The panel begins at block `first`.
/// Returns `ROWS`.
///
/// # Safety
/// These rows exist, at most 8, and they have the blocks of the panel, at most [`BYTES`] bytes. `out` has 32 elements
/// for each row of the batch.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_products<F: Format, const ROWS: usize>(
    panel: &[F::Panel],
    batch: &Batch,
    row: usize,
    first: usize,
    sums: &mut Sums,
    ahead: Ahead,
    out: *mut f32,
) -> usize {
    #[cfg(test)]
    crate::kernels::x86_64::counted::multiplied(ROWS * OUTPUTS * panel.len());
    let mut inputs = [batch.first; ROWS];
    // SAFETY: the caller promises ROWS rows from `row` on with the blocks of the panel from `first` on, and 32 elements
    // of `out` for each row of the batch.
    unsafe {
        for (row, input) in (row..).zip(&mut inputs) {
            *input = batch.row(row, first * (F::COLS / F::SCALED), F::SCALED);
        }
        let out = out.add(row * OUTPUTS);
        if first == 0 {
            // Zeroed here and not for all rows before, so that these elements are in the first-level cache.
            out.write_bytes(0, ROWS * OUTPUTS);
        }
        F::add_products(panel, &inputs, sums, ahead, out);
    }
    ROWS
}
