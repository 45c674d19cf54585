//! Products with one to eight rows of activations. A block of sixteen rows of weights is transposed in registers, so
//! that a lane belongs to a row, and multiplied with all rows of activations at once. Nothing is unpacked to memory.
//! Meanwhile the next sixteen rows are fetched.

mod blocks;
mod super_blocks;

use core::arch::asm;
use core::arch::x86_64::*;
use core::cell::Cell;

use super::matmul::{Batch, Blocks, Format, Input, Sums, SuperBlocks};
use super::panel::Sixteen;
use super::{layouts_256, panel_32};
use crate::kernels::fetch::FetchOrder;
use crate::kernels::generic::{Inputs, OUTPUTS, Refused};
use crate::kernels::x86_64::ahead::{Coming, fetch_lines, fetch_rows};
use crate::quant::by_dtype;
use crate::tensor::{Dtype, TensorView};

/// Number of rows of weights that are multiplied together.
const ROWS: usize = 16;
/// Largest number of rows of activations.
const MOST: usize = 8;
/// Largest number of rows of activations for formats that fewer files have.
const FEW: usize = 4;

/// Returns the least number of rows of activations with a kernel for these weights. One row of some formats has a
/// faster kernel in `matvec`.
const fn least(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Q8_0 | Dtype::Q2_K | Dtype::Q3_K | Dtype::Q6_K => 2,
        _ => 1,
    }
}

/// Returns the largest number of rows of activations with a kernel for these weights, or 0 if there is none. With more
/// rows, panels are faster.
const fn most(dtype: Dtype) -> usize {
    use Dtype::*;
    match dtype {
        NVFP4 => 1,
        IQ4_NL | Q2_K | Q3_K => FEW,
        Q8_0 | Q4_0 | Q4_1 | Q5_0 | Q5_1 | MXFP4 | Q4_K | Q5_K | Q6_K => MOST,
        _ => 0,
    }
}

/// Returns whether [`products`] has a kernel for these weights and inputs. One row of Q4_K and Q5_K is faster in
/// `matvec` where weights are fetched in the order of rows.
pub(super) fn supports(weights: TensorView<'_>, inputs: &Inputs<'_>) -> bool {
    let least = match weights.dtype() {
        Dtype::Q4_K | Dtype::Q5_K if inputs.order() == FetchOrder::Rows => 2,
        dtype => least(dtype),
    };
    (least..=most(weights.dtype())).contains(&inputs.rows()) && weights.rows().is_multiple_of(ROWS)
}

/// See [`Level::products`](crate::kernels::Level::products). [`supports`] is true for the arguments.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), Refused> {
    use Dtype::*;
    let done = by_dtype!(weights.dtype(), {
        Q8_0 => tiles::<Blocks<panel_32::Q8_0, 1>, { least(Q8_0) }, { most(Q8_0) }>(weights, inputs, out, scratch),
        Q4_0 => tiles::<Blocks<panel_32::Q4_0, 1>, { least(Q4_0) }, { most(Q4_0) }>(weights, inputs, out, scratch),
        Q4_1 => tiles::<Blocks<panel_32::Q4_1, 1>, { least(Q4_1) }, { most(Q4_1) }>(weights, inputs, out, scratch),
        Q5_0 => tiles::<Blocks<panel_32::Q5_0, 1>, { least(Q5_0) }, { most(Q5_0) }>(weights, inputs, out, scratch),
        Q5_1 => tiles::<Blocks<panel_32::Q5_1, 1>, { least(Q5_1) }, { most(Q5_1) }>(weights, inputs, out, scratch),
        IQ4_NL => tiles::<Blocks<panel_32::Iq4Nl, 1>, { least(IQ4_NL) }, { most(IQ4_NL) }>(weights, inputs, out, scratch),
        MXFP4 => tiles::<Blocks<panel_32::Mxfp4, 1>, { least(MXFP4) }, { most(MXFP4) }>(weights, inputs, out, scratch),
        NVFP4 => tiles::<Blocks<panel_32::Nvfp4, 2>, { least(NVFP4) }, { most(NVFP4) }>(weights, inputs, out, scratch),
        Q2_K => tiles::<SuperBlocks<layouts_256::Q2K>, { least(Q2_K) }, { most(Q2_K) }>(weights, inputs, out, scratch),
        Q3_K => tiles::<SuperBlocks<layouts_256::Q3K>, { least(Q3_K) }, { most(Q3_K) }>(weights, inputs, out, scratch),
        Q4_K => tiles::<SuperBlocks<layouts_256::Q4K>, { least(Q4_K) }, { most(Q4_K) }>(weights, inputs, out, scratch),
        Q5_K => tiles::<SuperBlocks<layouts_256::Q5K>, { least(Q5_K) }, { most(Q5_K) }>(weights, inputs, out, scratch),
        Q6_K => tiles::<SuperBlocks<layouts_256::Q6K>, { least(Q6_K) }, { most(Q6_K) }>(weights, inputs, out, scratch),
        _ => return Err(Refused::NoKernel),
    });
    done.ok_or(Refused::Sizes)
}

/// Multiplies all rows of weights, sixteen at a time, with `LEAST` to `LAST` rows of activations. Each number of rows
/// of activations takes 2 KB of code.
#[inline(never)] // a function of its own for each format
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn tiles<F: Few, const LEAST: usize, const LAST: usize>(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    // The checks that the pointers below rely on.
    let (rows, cols, count) = (weights.rows(), weights.cols(), inputs.rows());
    let blocks = cols / F::COLS;
    let row_bytes = blocks * F::bytes(());
    let fits = rows <= OUTPUTS
        && rows.is_multiple_of(ROWS)
        && weights.dtype().block_bytes() == F::bytes(())
        && weights.dtype().block_len() == F::COLS
        && weights.bytes().len() == rows * row_bytes
        && i32::try_from(weights.bytes().len()).is_ok()
        && inputs.cols() == cols;
    if !fits {
        return None;
    }
    let out = out.get_mut(..count.checked_mul(OUTPUTS)?)?;
    let (sums, _) = Sums::take(scratch)?;
    let batch = Batch::new(inputs, blocks * (F::COLS / F::SCALED), F::SCALED)?;
    // SAFETY: `Batch::new` has compared the parts of the rows with this number of blocks of `SCALED` columns.
    let each = unsafe { rows_of(&batch, count, F::SCALED) };
    if count > 1 {
        fetch_rows(inputs.destination(), 0..count);
    }
    let all = weights.bytes().as_ptr();
    for first in (0..rows).step_by(ROWS) {
        #[cfg(test)]
        if count > 1 {
            crate::kernels::x86_64::counted::unpacked(ROWS * blocks);
            crate::kernels::x86_64::counted::multiplied(count * ROWS * blocks);
        }
        let coming = Coming::after(first + ROWS, [rows, row_bytes], all, inputs);
        let rows = Neighbours {
            block: all.wrapping_add(first * row_bytes),
            row_bytes,
            next: Cell::new(coming.with_lead(F::LEAD, inputs.order())),
            order: inputs.order(),
            far: false,
        };
        // SAFETY: there are sixteen rows from `first` on with `blocks` blocks of the format `F`, as compared above;
        // `Batch::new` has compared the parts of the inputs with them; `out` has 32 elements for each input, and
        // `first` is at most 16.
        unsafe {
            let out = out.as_mut_ptr().add(first);
            match count {
                1 if LEAST == 1 => F::multiply::<1>(rows, blocks, each.first_chunk()?, sums, out),
                2 if LAST >= 2 => F::multiply::<2>(rows, blocks, each.first_chunk()?, sums, out),
                3 if LAST >= 3 => F::multiply::<3>(rows, blocks, each.first_chunk()?, sums, out),
                4 if LAST >= 4 => F::multiply::<4>(rows, blocks, each.first_chunk()?, sums, out),
                5 if LAST >= 5 => F::multiply::<5>(rows, blocks, each.first_chunk()?, sums, out),
                6 if LAST >= 6 => F::multiply::<6>(rows, blocks, each.first_chunk()?, sums, out),
                7 if LAST >= 7 => F::multiply::<7>(rows, blocks, each.first_chunk()?, sums, out),
                8 if LAST >= 8 => F::multiply::<8>(rows, blocks, &each, sums, out),
                _ => return None,
            }
        }
    }
    Some(())
}

/// Returns the `count` rows of activations, whose blocks have `cols` columns. The first row stands in for the missing
/// ones.
///
/// # Safety
/// There are `count` rows, at least one.
#[inline(never)] // once for all formats
unsafe fn rows_of(batch: &Batch, count: usize, cols: usize) -> [Input; MOST] {
    // SAFETY: the caller promises one row at least; where there is no block, nothing is read.
    let mut rows = [unsafe { batch.row(0, 0, cols) }; MOST];
    for (row, place) in rows.iter_mut().enumerate().take(count).skip(1) {
        // SAFETY: the row is below their number, which the caller promises.
        *place = unsafe { batch.row(row, 0, cols) };
    }
    rows
}

/// A block of sixteen rows of weights, each of which lies right after the one before.
struct Neighbours {
    /// Address of the block of the first row.
    block: *const u8,
    /// Bytes from the block of a row to the block of the next row.
    row_bytes: usize,
    /// Address of the bytes that are fetched next.
    next: Cell<*const u8>,
    order: FetchOrder,
    /// Whether lines further on are fetched to the second-level cache, see [`fetch_lines`].
    far: bool,
}

// SAFETY: row r lies r times `row_bytes` after the first one: 4 (r / 4) + r % 4 is r.
unsafe impl Sixteen for Neighbours {
    #[inline(always)]
    fn places(&self, at: usize) -> [*const u8; ROWS] {
        let mut row_bytes = self.row_bytes;
        // SAFETY: the text has no instruction. Without it, the compiler would know that the addresses of all blocks of
        // a row differ from those of the first row by the same number. It would keep all of these numbers in memory
        // instead of adding.
        unsafe { asm!("/* {} */", inout(reg) row_bytes, options(nomem, nostack, preserves_flags)) };
        let first = self.block.wrapping_add(at);
        core::array::from_fn(|row| first.wrapping_add(row / 4 * (4 * row_bytes)).wrapping_add(row % 4 * row_bytes))
    }

    #[inline(always)]
    fn fetch(&self, len: usize) {
        fetch_lines(self.next.get(), ROWS * len, self.order, self.far);
        self.next.set(self.next.get().wrapping_add(ROWS * len));
    }
}

/// A format of weights that has kernels for few rows of activations.
trait Few: Format<How = ()> {
    /// Lead in bytes, see [`Coming::with_lead`].
    const LEAD: usize;

    /// Computes the products of sixteen rows of weights with `N` rows of activations and stores them to `out`. Lane r
    /// of a row of products belongs to row r of the weights. A row of products begins [`OUTPUTS`] elements after the
    /// one before.
    ///
    /// # Safety
    /// Every row of weights and every input has `blocks` blocks, N is at most 8, `out` has sixteen elements for each
    /// input, and the processor has the instructions.
    unsafe fn multiply<const N: usize>(
        rows: Neighbours,
        blocks: usize,
        inputs: &[Input; N],
        sums: &mut Sums,
        out: *mut f32,
    );
}

/// Adds the products of sixteen codes of each row with sixteen codes of the inputs, from `at` on, to `sums`.
///
/// # Safety
/// Every input has codes `at` to `at + 15`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_dots<const N: usize>(sums: &mut [__m512i; N], inputs: &[Input; N], at: usize, codes: [__m512i; 4]) {
    for (i, codes) in codes.into_iter().enumerate() {
        for (sum, input) in sums.iter_mut().zip(inputs) {
            // SAFETY: the caller promises the codes from `at` to `at + 15`, and i is below 4.
            let x = unsafe { input.codes.add(at + 4 * i).cast::<i32>().read_unaligned() };
            *sum = _mm512_dpbusd_epi32(*sum, codes, _mm512_set1_epi32(x));
        }
    }
}

/// Stores sixteen products with each row of activations.
///
/// # Safety
/// There is room for them, with [`OUTPUTS`] elements from one row to the next.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn store<const N: usize>(acc: [__m512; N], out: *mut f32) {
    for (row, acc) in acc.into_iter().enumerate() {
        // SAFETY: the caller promises sixteen elements at this row.
        unsafe { _mm512_storeu_ps(out.add(OUTPUTS * row), acc) };
    }
}
