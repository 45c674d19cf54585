//! Rows of weights times one row of activations, straight on the blocks of the file.
//!
//! Such a product waits for memory, so the work per byte has to be small and the memory busy. Sixteen
//! rows are done at once. Within a block, or a few, each row's codes meet the activations in vector dot
//! products; the partial sums of the 16 rows are then transposed and added, which leaves one register whose
//! lanes are rows, so the ordered chain of f32 additions is one addition for 16 rows. While a block is
//! computed, as many bytes of the next 16 rows are fetched into the cache, also across the end of the call, in the
//! order that the processor likes.

mod iq3_s;
mod iq4_xs;
mod k16;
mod k32;
mod lanes;
mod nibbles;
mod pairs;
mod tile;

use core::arch::x86_64::__m512;

use crate::kernels::fetch::FetchOrder;
use crate::kernels::generic::{Inputs, OUTPUTS, Refused};
use crate::quant::{ActivationRow, QuantizedRow, by_dtype};
use crate::tensor::{Dtype, TensorView};
use tile::{ROWS, Tile};

/// Rows of activations that are multiplied with weights in registers. For more it pays to unpack them once, to memory.
pub(super) const FEW: usize = 4;

/// Whether [`products`] does so many rows of activations of this width, where it has a kernel for the type.
pub(super) fn supports(dtype: Dtype, cols: usize, rows: usize) -> bool {
    let several = match dtype {
        Dtype::Q4_0 | Dtype::Q4_1 | Dtype::Q5_0 | Dtype::Q5_1 | Dtype::Q8_0 | Dtype::IQ4_NL => true,
        Dtype::Q4_K | Dtype::Q5_K | Dtype::Q6_K => true,
        _ => false,
    };
    let enough = match dtype {
        Dtype::Q4_0 | Dtype::Q4_1 | Dtype::IQ4_NL => cols >= 32 * nibbles::BLOCKS,
        _ => true,
    };
    // The distance of the first and the last row of a tile is an i32 of a gathering load.
    let known = rows == 1 || several && rows <= FEW;
    known && enough && dtype.row_bytes(cols).is_some_and(|bytes| bytes <= i32::MAX as usize / ROWS)
}

/// See [`Level::products`](crate::kernels::Level::products); [`supports`] is true.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products(weights: TensorView<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> Result<(), Refused> {
    match inputs.rows() {
        1 => one(weights, inputs, out),
        2 => few::<2>(weights, inputs, out),
        3 => few::<3>(weights, inputs, out),
        4 => few::<4>(weights, inputs, out),
        _ => Err(Refused::NoKernel),
    }
}

#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn one(weights: TensorView<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> Result<(), Refused> {
    let done = by_dtype!(weights.dtype(), {
        Q4_0 => tiles::<18, 32, 4, 1>(weights, inputs, out, |tile, [x]| [nibbles::q4_0(tile, *x)]),
        Q4_1 => tiles::<20, 32, 4, 1>(weights, inputs, out, |tile, [x]| [nibbles::q4_1(tile, *x)]),
        Q5_0 => tiles::<22, 32, 2, 1>(weights, inputs, out, |tile, [x]| [pairs::q5_0(tile, *x)]),
        Q5_1 => tiles::<24, 32, 2, 1>(weights, inputs, out, |tile, [x]| [pairs::q5_1(tile, *x)]),
        Q8_0 => tiles::<34, 32, 2, 1>(weights, inputs, out, |tile, [x]| [pairs::q8_0(tile, *x)]),
        IQ4_NL => tiles::<18, 32, 4, 1>(weights, inputs, out, |tile, [x]| [nibbles::iq4_nl(tile, *x)]),
        Q4_K => tiles::<144, 256, 1, 1>(weights, inputs, out, |tile, x| k32::q4_k(tile, x)),
        Q5_K => tiles::<176, 256, 1, 1>(weights, inputs, out, |tile, x| k32::q5_k(tile, x)),
        Q6_K => tiles::<210, 256, 1, 1>(weights, inputs, out, |tile, x| k16::q6_k(tile, x)),
        Q2_K => tiles::<84, 256, 1, 1>(weights, inputs, out, |tile, [x]| [k16::q2_k(tile, *x)]),
        Q3_K => tiles::<110, 256, 1, 1>(weights, inputs, out, |tile, [x]| [k16::q3_k(tile, *x)]),
        IQ4_XS => tiles::<136, 256, 1, 1>(weights, inputs, out, |tile, [x]| [iq4_xs::iq4_xs(tile, *x)]),
        Q1_0 => tiles::<18, 128, 4, 1>(weights, inputs, out, |tile, [x]| [lanes::q1_0(tile, *x)]),
        Q2_0 => tiles::<18, 64, 4, 1>(weights, inputs, out, |tile, [x]| [lanes::q2_0(tile, *x)]),
        TQ2_0 => tiles::<66, 256, 1, 1>(weights, inputs, out, |tile, [x]| [lanes::tq2_0(tile, *x)]),
        MXFP4 => tiles::<17, 32, 4, 1>(weights, inputs, out, |tile, [x]| [lanes::mxfp4(tile, *x)]),
        IQ3_S => tiles::<110, 256, 1, 1>(weights, inputs, out, |tile, [x]| [iq3_s::iq3_s(tile, *x)]),
        _ => return Err(Refused::NoKernel),
    });
    done.ok_or(Refused::Sizes)
}

/// The types whose kernels multiply weights that are in registers with up to [`FEW`] rows of activations.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn few<const N: usize>(weights: TensorView<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> Result<(), Refused> {
    let done = by_dtype!(weights.dtype(), {
        Q4_0 => tiles::<18, 32, 4, N>(weights, inputs, out, |tile, x| nibbles::few_q4_0(tile, x)),
        Q4_1 => tiles::<20, 32, 4, N>(weights, inputs, out, |tile, x| nibbles::few_q4_1(tile, x)),
        Q5_0 => tiles::<22, 32, 2, N>(weights, inputs, out, |tile, x| pairs::few_q5_0(tile, x)),
        Q5_1 => tiles::<24, 32, 2, N>(weights, inputs, out, |tile, x| pairs::few_q5_1(tile, x)),
        Q8_0 => tiles::<34, 32, 2, N>(weights, inputs, out, |tile, x| pairs::few_q8_0(tile, x)),
        Q4_K => tiles::<144, 256, 1, N>(weights, inputs, out, |tile, x| k32::q4_k(tile, x)),
        Q5_K => tiles::<176, 256, 1, N>(weights, inputs, out, |tile, x| k32::q5_k(tile, x)),
        Q6_K => tiles::<210, 256, 1, N>(weights, inputs, out, |tile, x| k16::q6_k(tile, x)),
        IQ4_NL => tiles::<18, 32, 4, N>(weights, inputs, out, |tile, x| nibbles::few_iq4_nl(tile, x)),
        _ => return Err(Refused::NoKernel),
    });
    done.ok_or(Refused::Sizes)
}

/// All rows, a tile at a time, times `N` rows of activations; blocks have `LEN` elements in `BYTES` bytes. The kernel takes
/// `TOGETHER` blocks of a row at once.
#[inline(never)] // a function of its own for each format
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn tiles<const BYTES: usize, const LEN: usize, const TOGETHER: usize, const N: usize>(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    kernel: impl Fn(&Tile<'_, BYTES>, &[QuantizedRow<'_>; N]) -> [__m512; N],
) -> Option<()> {
    // Four blocks of a row are little more than a line: by rows, each line would be fetched about twice.
    let order = if TOGETHER < 4 { inputs.order() } else { FetchOrder::Memory };
    let x = quantized_rows::<N>(inputs)?;
    let blocks = weights.cols() / const { LEN };
    // A scale per block, or of larger blocks of formats with blocks of 32 per 32.
    let scales = blocks * const { if LEN < 256 { LEN / 32 } else { 1 } };
    if x.iter().any(|x| [x.codes.len(), x.scales.len(), x.sums.len()] != [blocks * LEN, scales, blocks * (LEN / 16)]) {
        return None;
    }
    let (out, _) = out.as_chunks_mut::<OUTPUTS>();
    let out = out.first_chunk_mut::<N>()?;
    for (index, first) in (0..weights.rows().min(OUTPUTS)).step_by(ROWS).enumerate() {
        let next = if first + ROWS < weights.rows() { first + ROWS } else { inputs.next() };
        let tile = Tile::new::<TOGETHER>(weights, blocks, first, next, order)?;
        let sums = kernel(&tile, &x);
        for (sums, out) in sums.iter().zip(&mut *out) {
            tile.store(*sums, out.as_chunks_mut::<ROWS>().0.get_mut(index)?);
        }
    }
    Some(())
}

#[inline]
fn quantized_rows<'a, const N: usize>(inputs: &Inputs<'a>) -> Option<[QuantizedRow<'a>; N]> {
    let row = |row: usize| match inputs.row(row)? {
        ActivationRow::Q8x32(x) | ActivationRow::Q8x256(x) => Some(x),
        _ => None,
    };
    let mut rows = [row(0)?; N];
    for (index, place) in rows.iter_mut().enumerate().skip(1) {
        *place = row(index)?;
    }
    Some(rows)
}
