//! Rows of weights times two to five rows of activations: codes are unpacked once, in registers, and used for each row.
//!
//! The kernels for one row stay apart. Of these for several rows, used for one, the compiler orders loads and fetches in a way
//! that makes decoding 5 to 15 % slower (`docs/rejected.md`).

use core::arch::x86_64::{__m512, _mm512_mask_storeu_ps};

use super::tile::{ROWS, Tile};
use super::{k16, k32, nibbles, pairs};
use crate::kernels::fetch::FetchOrder;
use crate::kernels::generic::{Inputs, OUTPUTS, Refused};
use crate::quant::{ActivationRow, QuantizedRow, by_dtype};
use crate::tensor::{Dtype, TensorView};

/// Whether [`products`] has a kernel for so many rows of activations. More of them are as fast or faster where weights are unpacked to
/// memory (`docs/rejected.md`).
pub(in crate::kernels::x86_64::avx512) fn supports(dtype: Dtype, cols: usize, rows: usize) -> bool {
    let most = match dtype {
        Dtype::Q8_0 => 5,
        Dtype::Q4_0 | Dtype::Q4_1 | Dtype::Q5_0 | Dtype::Q5_1 | Dtype::IQ4_NL => 3,
        Dtype::Q4_K | Dtype::Q5_K | Dtype::Q6_K => 3,
        _ => return false,
    };
    (2..=most).contains(&rows) && super::supports(dtype, cols)
}

/// See [`Level::products`](crate::kernels::Level::products); [`supports`] is true.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(in crate::kernels::x86_64::avx512) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
) -> Result<(), Refused> {
    match inputs.rows() {
        2 => several::<2>(weights, inputs, out),
        3 => several::<3>(weights, inputs, out),
        4 => tiles::<34, 32, 2, 4>(weights, inputs, out, |tile, x| pairs::few_q8_0(tile, x)).ok_or(Refused::Sizes),
        5 => tiles::<34, 32, 2, 5>(weights, inputs, out, |tile, x| pairs::few_q8_0(tile, x)).ok_or(Refused::Sizes),
        _ => Err(Refused::NoKernel),
    }
}

#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn several<const N: usize>(weights: TensorView<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> Result<(), Refused> {
    let done = by_dtype!(weights.dtype(), {
        Q4_0 => tiles::<18, 32, 4, N>(weights, inputs, out, |tile, x| nibbles::few_q4_0(tile, x)),
        Q4_1 => tiles::<20, 32, 4, N>(weights, inputs, out, |tile, x| nibbles::few_q4_1(tile, x)),
        Q5_0 => tiles::<22, 32, 2, N>(weights, inputs, out, |tile, x| pairs::few_q5_0(tile, x)),
        Q5_1 => tiles::<24, 32, 2, N>(weights, inputs, out, |tile, x| pairs::few_q5_1(tile, x)),
        Q8_0 => tiles::<34, 32, 2, N>(weights, inputs, out, |tile, x| pairs::few_q8_0(tile, x)),
        IQ4_NL => tiles::<18, 32, 4, N>(weights, inputs, out, |tile, x| nibbles::few_iq4_nl(tile, x)),
        Q4_K => tiles::<144, 256, 1, N>(weights, inputs, out, |tile, x| k32::few_q4_k(tile, x)),
        Q5_K => tiles::<176, 256, 1, N>(weights, inputs, out, |tile, x| k32::few_q5_k(tile, x)),
        Q6_K => tiles::<210, 256, 1, N>(weights, inputs, out, |tile, x| k16::few_q6_k(tile, x)),
        _ => return Err(Refused::NoKernel),
    });
    done.ok_or(Refused::Sizes)
}

/// All rows of weights, a tile at a time, times `N` rows of activations; blocks have `LEN` elements in `BYTES` bytes. The kernel
/// takes `TOGETHER` blocks of a row at once. It may rely on `x` having as many blocks as the tile.
#[inline(never)] // a function of its own for each format
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn tiles<const BYTES: usize, const LEN: usize, const TOGETHER: usize, const N: usize>(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    kernel: impl Fn(&Tile<'_, BYTES>, &[QuantizedRow<'_>; N]) -> [__m512; N],
) -> Option<()> {
    // As for one row.
    let order = if TOGETHER < 4 { inputs.order() } else { FetchOrder::Memory };
    let x = quantized_rows::<N>(inputs)?;
    let out = out.as_chunks_mut::<OUTPUTS>().0.first_chunk_mut::<N>()?;
    for (index, first) in (0..weights.rows().min(OUTPUTS)).step_by(ROWS).enumerate() {
        let next = if first + ROWS < weights.rows() { first + ROWS } else { inputs.next() };
        let tile = Tile::new::<TOGETHER, N>(weights, first, next, order)?;
        let blocks = tile.blocks();
        let lengths = [blocks * LEN, blocks, blocks * (LEN / 16)];
        if x.iter().any(|x| [x.codes.len(), x.scales.len(), x.sums.len()] != lengths) {
            return None;
        }
        #[cfg(test)]
        {
            crate::kernels::x86_64::counted::unpacked(ROWS * blocks);
            crate::kernels::x86_64::counted::multiplied(N * ROWS * blocks);
        }
        for (sums, out) in kernel(&tile, &x).iter().zip(&mut *out) {
            let out = out.as_chunks_mut::<ROWS>().0.get_mut(index)?;
            // SAFETY: at most the 16 elements of `out` are written: a lane of the mask each.
            unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), tile.mask(), *sums) };
        }
    }
    Some(())
}

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
