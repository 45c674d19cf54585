//! Products of block formats on levels whose vectors multiply quads of bytes, four rows of weights at a time.
// Loops index fixed arrays of constant length, so no bounds check remains. Iterators in their place are not always
// inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use core::marker::PhantomData;

use super::blocks::{COLS, Family, Row};
use crate::quant::{Layout256, Parts};

/// Number of rows of weights at a time.
const ROWS: usize = 4;

/// Four lanes of i32. A value proves that the machine has the instructions of the type, as with
/// [`Lanes`](super::lanes).
pub(in crate::kernels) trait Quad: Copy {
    /// Proof that the machine has the instructions.
    type Proof: Copy;

    /// 16 codes.
    type Codes: Copy;

    type Floats: Floats;

    /// Largest number of rows of inputs at a time that the registers hold, for blocks of 32 and for super-blocks: 1, 2
    /// or 4.
    const MOST: [usize; 2];

    fn zero(proof: Self::Proof) -> Self;

    /// # Safety
    /// 16 elements can be read at `from`, which needs no alignment.
    unsafe fn load(proof: Self::Proof, from: *const i8) -> Self::Codes;

    /// Adds 16 products, each to one of the lanes. No code in `x` is -128.
    fn dot(self, w: Self::Codes, x: Self::Codes) -> Self;

    fn splat(proof: Self::Proof, x: i32) -> Self;

    fn ints(proof: Self::Proof, from: &[i32; ROWS]) -> Self;

    /// Returns `self + other * by`.
    fn mul_add(self, other: Self, by: Self) -> Self;

    /// Returns a register whose lane r is the sum of the lanes of `rows[r]`.
    fn sums(rows: [Self; ROWS]) -> Self;

    /// Returns the lanes rounded to f32.
    fn floats(self) -> Self::Floats;
}

/// Four lanes of f32, in registers that every machine of the target has.
pub(in crate::kernels) trait Floats: Copy {
    fn splat(x: f32) -> Self;
    fn load(from: &[f32; ROWS]) -> Self;
    fn store(self) -> [f32; ROWS];
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

/// A format with blocks of `PARTS` times `LEN` elements, 16 or 32, multiplied by quads of lanes.
pub(in crate::kernels) struct OfParts<Q, B, const LEN: usize, const PARTS: usize>(PhantomData<(Q, B)>);

/// A format with super-blocks of 256 in `SUBS` sub-blocks, multiplied by quads of lanes.
pub(in crate::kernels) struct Of256<Q, B, const SUBS: usize>(PhantomData<(Q, B)>);

/// Unpacked blocks of four rows.
pub(in crate::kernels) struct Panel {
    codes: [[i8; COLS]; ROWS],
    /// Scales of each row, per block or part of a block.
    scales: [[f32; ROWS]; COLS / 16],
    /// Minima of each row, per block or part of a block, if `has_mins`.
    mins: [[f32; ROWS]; COLS / 16],
    /// Sub-scales of each row, per sub-block.
    sub_scales: [[i32; ROWS]; COLS / 16],
    /// Sub-minima of each row, per sub-block.
    sub_mins: [[i32; ROWS]; COLS / 16],
    has_mins: bool,
}

impl Panel {
    const ZERO: Self = Self {
        codes: [[0; COLS]; ROWS],
        scales: [[0.0; ROWS]; COLS / 16],
        mins: [[0.0; ROWS]; COLS / 16],
        sub_scales: [[0; ROWS]; COLS / 16],
        sub_mins: [[0; ROWS]; COLS / 16],
        has_mins: false,
    };
}

impl<Q: Quad, B: Parts<LEN, PARTS>, const LEN: usize, const PARTS: usize> Family<ROWS> for OfParts<Q, B, LEN, PARTS> {
    type Proof = Q::Proof;
    type Block = B;
    type Panel = Panel;
    const LEN: usize = LEN * PARTS;
    const SCALED: usize = 32;
    const MOST: usize = Q::MOST[0];

    const ZERO: Panel = Panel::ZERO;

    #[inline(always)]
    fn unpack(blocks: &[B], row: usize, panel: &mut Panel) {
        let Some(codes) = panel.codes.get_mut(row) else { return };
        let codes = codes.as_chunks_mut::<LEN>().0.as_chunks_mut::<PARTS>().0.iter_mut();
        let (scales, mins) = (panel.scales.as_chunks_mut::<PARTS>().0, panel.mins.as_chunks_mut::<PARTS>().0);
        let places = codes.zip(scales.iter_mut().zip(mins));
        for (block, (codes, (scales, mins))) in blocks.iter().zip(places) {
            let parts = codes.iter_mut().zip(scales).zip(mins);
            for (part, ((codes, scales), mins)) in block.parts().into_iter().zip(parts) {
                *codes = part.codes;
                panel.has_mins = part.min.is_some();
                if let (Some(scale), Some(min)) = (scales.get_mut(row), mins.get_mut(row)) {
                    *scale = part.scale;
                    *min = part.min.unwrap_or_default();
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn sweep<const T: usize>(
        proof: Q::Proof,
        panel: &Panel,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    ) {
        let mut chains = [Q::Floats::splat(0.0); T];
        for t in 0..T {
            chains[t] = Q::Floats::load(&acc[t]);
        }
        for (p, (scales, mins)) in panel.scales.iter().zip(&panel.mins).enumerate().take(blocks * PARTS) {
            // SAFETY: p < blocks * PARTS, and the caller promises these parts in every row, at most COLS elements.
            let isums = unsafe { dots::<Q, T, LEN>(proof, panel, p * LEN, x, [[Q::zero(proof); ROWS]; T]) };
            for t in 0..T {
                // SAFETY: p < blocks * PARTS, and the caller promises a scale per 32 elements of these parts in every
                // row.
                let dx = Q::Floats::splat(unsafe { *x[t].scales.add(p * LEN / 32) });
                chains[t] = chains[t].add(Q::sums(isums[t]).floats().mul(Q::Floats::load(scales).mul(dx)));
                if panel.has_mins {
                    // SAFETY: p < blocks * PARTS, and the caller promises a sum per 16 elements of these parts in every
                    // row.
                    let msum: i32 = (0..LEN / 16).map(|i| i32::from(unsafe { *x[t].sums.add(p * LEN / 16 + i) })).sum();
                    let msum = Q::Floats::splat(msum as f32);
                    chains[t] = chains[t].add(msum.mul(Q::Floats::load(mins).mul(dx)));
                }
            }
        }
        for t in 0..T {
            acc[t] = chains[t].store();
        }
    }
}

impl<Q: Quad, B: Layout256<SUBS>, const SUBS: usize> Family<ROWS> for Of256<Q, B, SUBS> {
    type Proof = Q::Proof;
    type Block = B;
    type Panel = Panel;
    const LEN: usize = 256;
    const SCALED: usize = 256;
    const MOST: usize = Q::MOST[1];

    const ZERO: Panel = Panel::ZERO;

    #[inline(always)]
    fn unpack(blocks: &[B], row: usize, panel: &mut Panel) {
        let Some(codes) = panel.codes.get_mut(row) else { return };
        let subs = panel.sub_scales.as_chunks_mut::<SUBS>().0.iter_mut();
        let subs = subs.zip(panel.sub_mins.as_chunks_mut::<SUBS>().0);
        let places =
            codes.as_chunks_mut::<256>().0.iter_mut().zip(subs).zip(panel.scales.iter_mut().zip(&mut panel.mins));
        for (block, ((codes, (sub_scales, sub_mins)), (scales, mins))) in blocks.iter().zip(places) {
            let block = block.unpack();
            *codes = block.codes;
            set(scales, row, block.scale);
            for (place, sub_scale) in sub_scales.iter_mut().zip(block.sub_scales) {
                set(place, row, i32::from(sub_scale));
            }
            panel.has_mins = block.mins.is_some();
            if let Some(from) = block.mins {
                set(mins, row, from.min);
                for (place, sub_min) in sub_mins.iter_mut().zip(from.sub_mins) {
                    set(place, row, i32::from(sub_min));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn sweep<const T: usize>(
        proof: Q::Proof,
        panel: &Panel,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    ) {
        let mut chains = [Q::Floats::splat(0.0); T];
        for t in 0..T {
            chains[t] = Q::Floats::load(&acc[t]);
        }
        let subs = panel.sub_scales.as_chunks::<SUBS>().0.iter().zip(panel.sub_mins.as_chunks::<SUBS>().0);
        let scales = panel.scales.iter().zip(&panel.mins);
        for (b, ((sub_scales, sub_mins), (scales, mins))) in subs.zip(scales).enumerate().take(blocks) {
            let mut isums = [Q::zero(proof); T];
            for (sub, sub_scales) in sub_scales.iter().enumerate() {
                let first = b * 256 + sub * (256 / SUBS);
                // SAFETY: b < blocks, and the caller promises `blocks` super-blocks in every row, at most COLS
                // elements; the sub-blocks of super-block b are within them.
                let dots = unsafe {
                    match SUBS {
                        8 => dots::<Q, T, 32>(proof, panel, first, x, [[Q::zero(proof); ROWS]; T]),
                        _ => dots::<Q, T, 16>(proof, panel, first, x, [[Q::zero(proof); ROWS]; T]),
                    }
                };
                for t in 0..T {
                    isums[t] = isums[t].mul_add(Q::sums(dots[t]), Q::ints(proof, sub_scales));
                }
            }
            for t in 0..T {
                // SAFETY: b < blocks, and the caller promises `blocks` scales and 16 times as many sums in every row.
                let (dx, sums) = unsafe { (*x[t].scales.add(b), &*x[t].sums.add(b * 16).cast::<[i16; 16]>()) };
                let dx = Q::Floats::splat(dx);
                chains[t] = chains[t].add(isums[t].floats().mul(Q::Floats::load(scales).mul(dx)));
                if panel.has_mins {
                    let mut msum = Q::zero(proof);
                    for (sums, sub_mins) in sums.chunks_exact(16 / SUBS).zip(sub_mins) {
                        let sum = sums.iter().map(|&sum| i32::from(sum)).sum();
                        msum = msum.mul_add(Q::ints(proof, sub_mins), Q::splat(proof, sum));
                    }
                    chains[t] = chains[t].sub(msum.floats().mul(Q::Floats::load(mins).mul(dx)));
                }
            }
        }
        for t in 0..T {
            acc[t] = chains[t].store();
        }
    }
}

/// Adds the products of `LEN` columns from `first` on. `LEN` is a multiple of 16.
///
/// # Safety
/// `first + LEN <= COLS`, and every row has `LEN` codes from `first` on.
#[inline(always)]
unsafe fn dots<Q: Quad, const T: usize, const LEN: usize>(
    proof: Q::Proof,
    panel: &Panel,
    first: usize,
    x: [Row; T],
    mut isums: [[Q; ROWS]; T],
) -> [[Q; ROWS]; T] {
    for i in 0..LEN / 16 {
        let at = first + i * 16;
        // SAFETY: at + 16 <= first + LEN, and the caller promises that this is at most COLS, the codes of a row of the
        // panel.
        let w = unsafe {
            [
                Q::load(proof, panel.codes[0].as_ptr().add(at)),
                Q::load(proof, panel.codes[1].as_ptr().add(at)),
                Q::load(proof, panel.codes[2].as_ptr().add(at)),
                Q::load(proof, panel.codes[3].as_ptr().add(at)),
            ]
        };
        for t in 0..T {
            // SAFETY: at + 16 <= first + LEN, and the caller promises the codes before that in every row.
            let x = unsafe { Q::load(proof, x[t].codes.add(at)) };
            for r in 0..ROWS {
                isums[t][r] = isums[t][r].dot(w[r], x);
            }
        }
    }
    isums
}

#[inline(always)]
fn set<T>(lanes: &mut [T; ROWS], lane: usize, value: T) {
    if let Some(place) = lanes.get_mut(lane) {
        *place = value;
    }
}
