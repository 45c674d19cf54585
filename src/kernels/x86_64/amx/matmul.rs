//! Products with many rows of activations. As for AVX-512, 32 rows of weights are unpacked once to a panel, in chunks
//! of columns that stay in the cache. Tiles multiply all rows of activations with the panel, sixteen at a time. A lane
//! of a panel has four successive codes of a row of weights, which is the order that tiles need for the second factor.
//! The first factor is the activations as they lie in memory.

use super::format::{Format, Group, ROWS, Work};
use super::tiles::Shapes;
use super::tiles_32::Blocks;
use super::tiles_256::SuperBlocks;
use crate::kernels::generic::{Inputs, OUTPUTS, Refused};
use crate::kernels::x86_64::ahead::{Ahead, fetch_rows};
use crate::kernels::x86_64::avx512;
use crate::kernels::x86_64::avx512::matmul::{Batch, Line};
use crate::kernels::x86_64::avx512::{layouts_256, panel_32};
use crate::quant::by_dtype;
use crate::tensor::TensorView;

/// See [`Level::products`](crate::kernels::Level::products).
///
/// # Safety
/// The processor has AMX with bytes and the process may use it.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn matmul(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), Refused> {
    // Offsets of rows are 32-bit numbers.
    if i32::try_from(weights.bytes().len()).is_err() {
        return Err(Refused::NoKernel);
    }
    // SAFETY: the caller promises AMX for bytes and the permission to use it; this function has the features of
    // AVX-512.
    let done = unsafe {
        by_dtype!(weights.dtype(), {
            Q4_0 => by_panels::<Blocks<panel_32::Q4_0>>(weights, inputs, out, scratch),
            Q4_1 => by_panels::<Blocks<panel_32::Q4_1>>(weights, inputs, out, scratch),
            Q5_0 => by_panels::<Blocks<panel_32::Q5_0>>(weights, inputs, out, scratch),
            Q5_1 => by_panels::<Blocks<panel_32::Q5_1>>(weights, inputs, out, scratch),
            Q8_0 => by_panels::<Blocks<panel_32::Q8_0>>(weights, inputs, out, scratch),
            IQ4_NL => by_panels::<Blocks<panel_32::Iq4Nl>>(weights, inputs, out, scratch),
            Q2_K => by_panels::<SuperBlocks<layouts_256::Q2K>>(weights, inputs, out, scratch),
            Q3_K => by_panels::<SuperBlocks<layouts_256::Q3K>>(weights, inputs, out, scratch),
            Q4_K => by_panels::<SuperBlocks<layouts_256::Q4K>>(weights, inputs, out, scratch),
            Q5_K => by_panels::<SuperBlocks<layouts_256::Q5K>>(weights, inputs, out, scratch),
            Q6_K => by_panels::<SuperBlocks<layouts_256::Q6K>>(weights, inputs, out, scratch),
            IQ4_XS => by_panels::<SuperBlocks<layouts_256::Iq4Xs>>(weights, inputs, out, scratch),
            // Formats that few files have.
            _ => return avx512::products(weights, inputs, out, scratch),
        })
    };
    done.ok_or(Refused::Sizes)
}

/// Multiplies panel by panel. No tile is in use before and after a panel.
///
/// # Safety
/// As for [`matmul`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn by_panels<F: Format>(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    // The checks that the pointers below rely on.
    let (cols, rows) = (weights.cols(), inputs.rows());
    let fits = (1..=OUTPUTS).contains(&weights.rows())
        && i32::try_from(weights.bytes().len()).is_ok()
        && weights.dtype().block_bytes() == F::BYTES
        && weights.dtype().block_len() == F::COLS
        && inputs.cols() == cols;
    if !fits {
        return (weights.rows() == 0).then_some(());
    }
    let out = out.get_mut(..rows.checked_mul(OUTPUTS)?)?;
    // SAFETY: every bit pattern of `Line`, which is bytes, and of f32 is valid.
    let (_, lines, _) = unsafe { scratch.align_to_mut::<Line>() };
    let (work, panel) = lines.split_at_mut_checked(size_of::<Work>() / size_of::<Line>())?;
    // SAFETY: every bit pattern of `Work` is valid, and of `F::Panel` as well. These types are whole numbers of lines.
    let (work, panel) = unsafe { (work.align_to_mut::<Work>().1.first_mut()?, panel.align_to_mut::<F::Panel>().1) };
    let blocks = cols / F::COLS;
    if blocks == 0 {
        out.fill(0.0);
    }
    let batch = Batch::new(inputs, blocks, F::COLS)?;
    let row_bytes = blocks * F::BYTES;
    // Panels of as equal length as possible.
    let length = blocks.div_ceil(blocks.div_ceil(F::BLOCKS).max(1));
    let mut first = 0;
    while first < blocks {
        let panel = panel.get_mut(..(blocks - first).min(length))?;
        let is_last = first + panel.len() == blocks;
        // As many bytes of the next rows of weights as the panel has: one part while the panel is unpacked, and one
        // part with each group of inputs.
        let parts = 1 + rows.div_ceil(ROWS);
        let next = weights.bytes().as_ptr().wrapping_add(inputs.next().wrapping_mul(row_bytes));
        let from = next.wrapping_add(OUTPUTS * first * F::BYTES);
        let bytes = OUTPUTS * panel.len() * F::BYTES;
        let ahead = |part: usize, units: usize| Ahead::part(from, bytes, part, parts, units);
        // SAFETY: the caller promises AMX. `first + panel.len()` is at most the number of blocks in the rows of weights
        // and inputs, whose types, sizes and number are those of `F` as checked above; the panel has at most
        // `F::BLOCKS`, `out` a place for every row, and `row` is below their number. Tiles have shapes from `set` to
        // `restore`.
        unsafe {
            F::unpack(weights, first, panel, |units| ahead(0, units));
            let shapes = Shapes::current();
            let (mut shaped, mut before) = (0, None);
            for (part, row) in (0..rows).step_by(ROWS).enumerate() {
                let count = (rows - row).min(ROWS);
                if count != shaped {
                    F::shapes(count).set();
                    shaped = count;
                }
                #[cfg(test)]
                crate::kernels::x86_64::counted::multiplied(count * OUTPUTS * panel.len());
                let input = batch.row(row, first, F::COLS);
                let group = Group { first: input, stride: batch.stride, rows: count, turn: part % 2 };
                let out = out.as_mut_ptr().add(row * OUTPUTS);
                if first == 0 {
                    // Zeroed here and not for all rows before, so that these elements are in the first-level cache.
                    out.write_bytes(0, count * OUTPUTS);
                }
                let ahead = ahead(1 + part, Ahead::UNITS * panel.len());
                F::add_products(panel, &group, before.as_ref(), work, ahead, out);
                if is_last {
                    fetch_rows(inputs.destination(), row..row + count);
                }
                if row + count == rows {
                    F::finish(panel, &group, work, out);
                }
                before = Some(group);
            }
            shapes.restore();
        }
        first += panel.len();
    }
    Some(())
}
