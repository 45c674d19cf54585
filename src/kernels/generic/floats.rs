//! Products of F32, F16 and BF16 weights, several rows of weights and of inputs at a time.
//!
//! Every dot has 16 lanes by index mod 16, which the fixed tree adds up. A tile of dots keeps its lanes in registers,
//! so each load and conversion of weights serves several rows of inputs, and each load of inputs several rows of
//! weights. Where memory limits the speed, only few rows of weights are read at a time, so that they are read nearly as
//! they lie in memory.
// Loops index fixed arrays of constant length, so no bounds check remains. Iterators in their place are not always
// inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use super::lanes::{LANES, Lanes};
use super::products::{Inputs, OUTPUTS};
use crate::kernels::fetch::FetchOrder;
use crate::quant::{ActivationRow, form};
use crate::tensor::{Dtype, TensorView};

/// Distance in bytes from the weights that are multiplied to the weights that are fetched meanwhile. Times for several
/// distances, on a Zen 5, are in `docs/performance/kernels.md`.
const LEAD: usize = 16384;
/// Bytes of a cache line.
const LINE: usize = 64;

/// An element type of weights.
pub(super) trait Weight {
    const BYTES: usize;

    /// Whether products with inputs of 13 bits ([`Form::Short`](crate::quant::Form::Short)) are exact.
    const EXACT: bool = false;

    /// Loads 16 elements. They are settled if the type has numbers below 2^-50 in magnitude, other than 0.
    ///
    /// # Safety
    /// 16 elements can be read at `from`, which needs no alignment.
    unsafe fn load<V: Lanes>(proof: V::Proof, from: *const u8) -> V;
}

pub(super) struct F32;
pub(super) struct F16;
pub(super) struct Bf16;

impl Weight for F32 {
    const BYTES: usize = 4;

    #[inline(always)]
    unsafe fn load<V: Lanes>(proof: V::Proof, from: *const u8) -> V {
        // SAFETY: the caller promises 16 elements of this type, of any alignment.
        unsafe { V::load(proof, from.cast()) }.settle(proof)
    }
}

impl Weight for F16 {
    const BYTES: usize = 2;
    const EXACT: bool = true;

    #[inline(always)]
    unsafe fn load<V: Lanes>(proof: V::Proof, from: *const u8) -> V {
        // SAFETY: the caller promises 16 elements of this type, of any alignment.
        unsafe { V::load_f16(proof, from.cast()) }
    }
}

impl Weight for Bf16 {
    const BYTES: usize = 2;

    #[inline(always)]
    unsafe fn load<V: Lanes>(proof: V::Proof, from: *const u8) -> V {
        // SAFETY: the caller promises 16 elements of this type, of any alignment.
        unsafe { V::load_bf16(proof, from.cast()) }.settle(proof)
    }
}

/// Rows of weights and rows of inputs to multiply, from which register tiles are cut.
pub(in crate::kernels) struct FloatTiles<'a, 'o> {
    weights: TensorView<'a>,
    inputs: &'a Inputs<'a>,
    out: &'o mut [f32],
}

/// See [`Level::products`](crate::kernels::Level::products), with registers of 128 bits: 16 of them hold 2 rows of
/// weights times 2 rows of inputs.
#[cfg(any(
    all(target_arch = "aarch64", target_feature = "neon"),
    all(target_arch = "wasm32", target_feature = "simd128")
))]
#[inline(always)]
pub(in crate::kernels) fn float_products<V: Lanes>(
    proof: V::Proof,
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
) -> Option<()> {
    let mut tiles = FloatTiles::new(weights, inputs, out)?;
    for first in (0..inputs.rows()).step_by(2) {
        match inputs.rows() - first {
            1 => tiles.multiply::<V, 4, 1>(proof, first)?,
            _ => tiles.multiply::<V, 2, 2>(proof, first)?,
        }
    }
    Some(())
}

impl<'a, 'o> FloatTiles<'a, 'o> {
    /// Returns `None` on a mismatch of sizes.
    #[inline(always)]
    pub(in crate::kernels) fn new(weights: TensorView<'a>, inputs: &'a Inputs<'a>, out: &'o mut [f32]) -> Option<Self> {
        let fits = weights.cols() == inputs.cols()
            && form(weights.dtype()) == inputs.form()
            && weights.rows() <= OUTPUTS
            && inputs.rows().checked_mul(OUTPUTS)? <= out.len();
        fits.then_some(Self { weights, inputs, out })
    }

    /// Multiplies all rows of the weights with `XS` rows of the inputs from `first` on, `ROWS` rows of weights at a
    /// time.
    #[inline(always)]
    pub(in crate::kernels) fn multiply<V: Lanes, const ROWS: usize, const XS: usize>(
        &mut self,
        proof: V::Proof,
        first: usize,
    ) -> Option<()> {
        match self.weights.dtype() {
            Dtype::F32 => self.multiply_of::<V, F32, ROWS, XS>(proof, first),
            Dtype::F16 => self.multiply_of::<V, F16, ROWS, XS>(proof, first),
            Dtype::BF16 => self.multiply_of::<V, Bf16, ROWS, XS>(proof, first),
            _ => None,
        }
    }

    #[inline(always)]
    fn multiply_of<V: Lanes, W: Weight, const ROWS: usize, const XS: usize>(
        &mut self,
        proof: V::Proof,
        first: usize,
    ) -> Option<()> {
        let cols = self.weights.cols();
        let mut x = [core::ptr::null::<f32>(); XS];
        for (i, x) in x.iter_mut().enumerate() {
            let ActivationRow::F32(row) = self.inputs.row(first.checked_add(i)?)? else { return None };
            *x = row.get(..cols)?.as_ptr();
        }
        let (rows, row_bytes) = (self.weights.rows(), cols.checked_mul(W::BYTES)?);
        let end = rows.checked_mul(row_bytes)?;
        if end > self.weights.bytes().len() {
            return None;
        }
        let all = self.weights.bytes().as_ptr();
        let order = self.inputs.order();
        let mut row = 0;
        while row < rows {
            // Past the last row, the last row is taken again.
            let mut indices = [0; ROWS];
            let mut w = [all; ROWS];
            for r in 0..ROWS {
                indices[r] = (row + r).min(rows - 1);
                w[r] = w[r].wrapping_add(indices[r] * row_bytes);
            }
            // After the last row, the rows that the inputs name are fetched.
            let ahead = match row * row_bytes + LEAD {
                ahead if ahead < end => ahead,
                ahead => self.inputs.next().wrapping_mul(row_bytes).wrapping_add(ahead - end),
            };
            // SAFETY: the weights have `rows` rows of `cols` elements, as compared with their bytes above, and each
            // index is below `rows`; each x is the start of a slice of `cols` elements.
            let sums = unsafe { dots::<V, W, ROWS, XS>(proof, w, x, cols, (all.wrapping_add(ahead), order)) };
            for (i, sums) in sums.iter().enumerate() {
                for (&index, &sum) in indices.iter().zip(sums) {
                    *self.out.get_mut((first + i) * OUTPUTS + index)? = sum;
                }
            }
            row += ROWS;
        }
        Some(())
    }
}

/// Returns `XS` times `ROWS` dots of `cols` elements, and fetches as many bytes as it reads of the weights, from
/// `ahead` on.
///
/// # Safety
/// Every row has `cols` elements that can be read.
#[inline(always)]
unsafe fn dots<V: Lanes, W: Weight, const ROWS: usize, const XS: usize>(
    proof: V::Proof,
    mut w: [*const u8; ROWS],
    mut x: [*const f32; XS],
    cols: usize,
    (ahead, order): (*const u8, FetchOrder),
) -> [[f32; ROWS]; XS] {
    let mut lanes = [[V::splat(proof, 0.0); ROWS]; XS];
    // The last 16 elements are filled up with zeros, which add +0 to lanes that started at +0.
    let (mut last_w, mut last_x) = ([[0_u8; 4 * LANES]; ROWS], [[0.0_f32; LANES]; XS]);
    let (mut whole, mut rest) = (cols / LANES * LANES, cols % LANES);
    loop {
        let mut col = 0;
        while col < whole {
            for line in (0..ROWS * LANES * W::BYTES).step_by(LINE) {
                let place = ahead.wrapping_add(ROWS * col * W::BYTES + line);
                match order {
                    FetchOrder::Memory => V::prefetch(place),
                    FetchOrder::Rows => V::prefetch_later(place),
                }
            }
            let mut inputs = [V::splat(proof, 0.0); XS];
            for i in 0..XS {
                // SAFETY: col + 16 <= whole, and the row has `whole` elements: of its `cols`, by the caller's promise,
                // or the 16 of the array.
                inputs[i] = unsafe { V::load(proof, x[i].add(col)) };
            }
            for r in 0..ROWS {
                // SAFETY: col + 16 <= whole, and the row has `whole` elements: of its `cols`, by the caller's promise,
                // or the 16 of the array.
                let weights = unsafe { W::load::<V>(proof, w[r].add(col * W::BYTES)) };
                for i in 0..XS {
                    lanes[i][r] = add(lanes[i][r], weights, inputs[i], W::EXACT);
                }
            }
            col += LANES;
        }
        if rest == 0 {
            break;
        }
        for i in 0..XS {
            // SAFETY: of the `cols` elements of the row `rest` follow the whole 16s, and the array has 16.
            unsafe { core::ptr::copy_nonoverlapping(x[i].add(whole), last_x[i].as_mut_ptr(), rest) };
            x[i] = last_x[i].as_ptr();
        }
        for r in 0..ROWS {
            // SAFETY: of the `cols` elements of the row `rest` < 16 follow the whole 16s; the array has room for 16 of
            // at most 4 bytes.
            unsafe {
                core::ptr::copy_nonoverlapping(w[r].add(whole * W::BYTES), last_w[r].as_mut_ptr(), rest * W::BYTES);
            }
            w[r] = last_w[r].as_ptr();
        }
        (whole, rest) = (LANES, 0);
    }
    let mut sums = [[0.0; ROWS]; XS];
    for i in 0..XS {
        for r in 0..ROWS {
            sums[i][r] = lanes[i][r].tree();
        }
    }
    sums
}

/// Returns `sum + weights * inputs`. `exact` says whether the products are exact.
#[inline(always)]
pub(super) fn add<V: Lanes>(sum: V, weights: V, inputs: V, exact: bool) -> V {
    if exact { sum.add_exact(weights, inputs) } else { sum.add(weights.mul(inputs)) }
}
