//! Products of rows of weights and one row of activations, straight from the blocks of the file.
//!
//! Such a product waits for memory, so the work per byte has to be small and the memory busy. Sixteen rows are
//! multiplied at once. Within a block, or a few blocks, the codes of each row are multiplied with the activations in
//! vector dot products. Then the partial sums of the 16 rows are transposed and added. That leaves one register whose
//! lanes are rows, so the ordered chain of f32 additions is one addition for 16 rows. While a block is multiplied, as
//! many bytes of the next 16 rows are fetched into the cache, also across the end of the call, in the order that suits
//! the processor.

pub(super) mod by_row;
mod iq4_xs;
mod k16;
mod k32;
mod lanes;
mod q8_0;
pub(super) mod tile;

use core::arch::x86_64::{__m512, _mm512_mask_storeu_ps};

use super::by_row::{Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Tq1_0};
use crate::kernels::fetch::FetchOrder;
use crate::kernels::generic::{Inputs, OUTPUTS, Refused};
use crate::quant::{ActivationRow, QuantizedRow, by_dtype};
use crate::tensor::{Dtype, TensorView};
use by_row::by_row;
use tile::{ROWS, Tile};

/// Returns whether [`products`] supports rows of this width, where it has a kernel for the type.
pub(super) fn supports(dtype: Dtype, cols: usize) -> bool {
    // The byte distance from the first to the last row of a tile is an i32 offset of a gathering load.
    dtype.row_bytes(cols).is_some_and(|bytes| bytes <= i32::MAX as usize / ROWS)
}

/// See [`Level::products`](crate::kernels::Level::products). There is one row of quantized activations, and
/// [`supports`] is true.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products(weights: TensorView<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> Result<(), Refused> {
    let Some(ActivationRow::Q8x32(x) | ActivationRow::Q8x256(x)) = inputs.row(0) else {
        return Err(Refused::Sizes);
    };
    let out = out.first_chunk_mut::<OUTPUTS>().ok_or(Refused::Sizes)?;
    let done = by_dtype!(weights.dtype(), {
        Q8_0 => tiles::<34, 32, 2, 2048>(weights, inputs, x, out, |tile, x| q8_0::q8_0(tile, x)),
        Q2_K => tiles::<84, 256, 1, 8192>(weights, inputs, x, out, |tile, x| k16::q2_k(tile, x)),
        Q3_K => tiles::<110, 256, 1, 8192>(weights, inputs, x, out, |tile, x| k16::q3_k(tile, x)),
        Q4_K => tiles::<144, 256, 1, 4096>(weights, inputs, x, out, |tile, x| k32::q4_k(tile, x)),
        Q5_K => tiles::<176, 256, 1, 4096>(weights, inputs, x, out, |tile, x| k32::q5_k(tile, x)),
        Q6_K => tiles::<210, 256, 1, 4096>(weights, inputs, x, out, |tile, x| k16::q6_k(tile, x)),
        IQ4_XS => tiles::<136, 256, 1, 8192>(weights, inputs, x, out, |tile, x| iq4_xs::iq4_xs(tile, x)),
        Q1_0 => tiles::<18, 128, 4, 4096>(weights, inputs, x, out, |tile, x| lanes::q1_0(tile, x)),
        Q2_0 => tiles::<18, 64, 4, 4096>(weights, inputs, x, out, |tile, x| lanes::q2_0(tile, x)),
        TQ2_0 => tiles::<66, 256, 1, 4096>(weights, inputs, x, out, |tile, x| lanes::tq2_0(tile, x)),
        IQ2_XXS => tiles::<66, 256, 1, 4096>(weights, inputs, x, out, |tile, x| by_row::<Iq2Xxs, 66, 2>(tile, x)),
        IQ2_XS => tiles::<74, 256, 1, 4096>(weights, inputs, x, out, |tile, x| by_row::<Iq2Xs, 74, 2>(tile, x)),
        IQ2_S => tiles::<82, 256, 1, 4096>(weights, inputs, x, out, |tile, x| by_row::<Iq2S, 82, 4>(tile, x)),
        IQ3_XXS => tiles::<98, 256, 1, 4096>(weights, inputs, x, out, |tile, x| by_row::<Iq3Xxs, 98, 2>(tile, x)),
        IQ3_S => tiles::<110, 256, 1, 4096>(weights, inputs, x, out, |tile, x| by_row::<Iq3S, 110, 2>(tile, x)),
        IQ1_S => tiles::<50, 256, 1, 4096>(weights, inputs, x, out, |tile, x| by_row::<Iq1S, 50, 2>(tile, x)),
        IQ1_M => tiles::<56, 256, 1, 4096>(weights, inputs, x, out, |tile, x| by_row::<Iq1M, 56, 2>(tile, x)),
        TQ1_0 => tiles::<54, 256, 1, 4096>(weights, inputs, x, out, |tile, x| by_row::<Tq1_0, 54, 1>(tile, x)),
        _ => return Err(Refused::NoKernel),
    });
    done.ok_or(Refused::Sizes)
}

/// Multiplies all rows, a tile at a time. Blocks have `LEN` elements in `BYTES` bytes. The kernel takes `TOGETHER`
/// blocks of a row at once. `LEAD` is the lead of
/// [`Coming::with_lead`](crate::kernels::x86_64::ahead::Coming::with_lead).
#[inline]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn tiles<const BYTES: usize, const LEN: usize, const TOGETHER: usize, const LEAD: usize>(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    x: QuantizedRow<'_>,
    out: &mut [f32; OUTPUTS],
    kernel: impl Fn(&Tile<'_, BYTES, TOGETHER>, QuantizedRow<'_>) -> __m512,
) -> Option<()> {
    // Four blocks of a row are little more than a line. In the order of rows, each line would be fetched about twice.
    let order = if TOGETHER < 4 { inputs.order() } else { FetchOrder::Memory };
    for (first, out) in (0..weights.rows()).step_by(ROWS).zip(out.as_chunks_mut::<ROWS>().0) {
        let tile = Tile::new(weights, first, inputs, (LEAD, order))?;
        let blocks = tile.blocks();
        // Blocks of 256 have one scale of the activations. Smaller blocks have a scale per 32 elements.
        let scales = blocks * const { if LEN < 256 { LEN / 32 } else { 1 } };
        if [x.codes.len(), x.scales.len(), x.sums.len()] != [blocks * LEN, scales, blocks * (LEN / 16)] {
            return None;
        }
        let sums = kernel(&tile, x);
        // SAFETY: at most the 16 elements of `out` are written, one for each lane of the mask.
        unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), tile.mask(), sums) };
    }
    Some(())
}
