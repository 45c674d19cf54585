//! Products of rows of activations with a panel, by an instruction whose lanes are outputs, so that they need not be
//! added up. Outputs stay in the lanes of the instruction until the panel ends.
// Loops index fixed arrays of constant length, so no bounds check remains. Iterators in their place are not always
// inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use core::arch::aarch64::*;

use super::panels::{Panel, ROWS};
use crate::kernels::generic::Row;

/// Sums or outputs of [`ROWS`] rows of weights and `T` rows of inputs. `T` is even if `INPUTS` is 2.
///
/// If `INPUTS` is 1, element `[t][h]` has the rows 4 h to 4 h + 3 of the weights for input `t`.
///
/// If `INPUTS` is 2, an element has two rows of weights, for two inputs each. For even `t`, element `[t][h]` has the
/// rows 2 h and 2 h + 1 for the inputs `t` and `t + 1`. Element `[t + 1][h]` has the rows 4 + 2 h and 5 + 2 h for the
/// same inputs.
pub(super) type Lanes<V, const T: usize> = [[V; 2]; T];

/// An instruction that adds products to sums. It is never called in a closure: closures are not always inlined, and
/// code that is not inlined into a function with the instruction's feature cannot be assembled.
pub(super) trait Dots<const INPUTS: usize>: Copy {
    /// Adds the products of 16 columns. `w` has groups of 4 `INPUTS` columns: of each group, the codes of all rows.
    ///
    /// # Safety
    /// 16 codes of each of [`ROWS`] rows of weights, and of each row of inputs, can be read.
    unsafe fn dots<const T: usize>(
        self,
        sums: Lanes<int32x4_t, T>,
        w: *const i8,
        x: [*const i8; T],
    ) -> Lanes<int32x4_t, T>;
}

/// See [`Instruction::sweep_32`](super::panels::Instruction::sweep_32).
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn sweep_32<I: Dots<INPUTS>, const INPUTS: usize, const T: usize, const MINS: bool>(
    instruction: I,
    panel: &Panel<INPUTS>,
    blocks: usize,
    x: [Row; T],
    acc: &mut [[f32; ROWS]; T],
) {
    // SAFETY: NEON is part of the target. b < blocks, and the caller promises `blocks` blocks of 32 in every row, with
    // a scale and two sums each, which are at most the COLS columns of a panel.
    unsafe {
        let mut chains = chains::<INPUTS, T>(acc);
        for (b, (scales, mins)) in panel.scales.iter().zip(&panel.mins).enumerate().take(blocks) {
            let isums = dots::<I, INPUTS, T>(instruction, panel, b * 2, 2, x);
            let dx = x.map(|row| *row.scales.add(b));
            for t in 0..T {
                for h in 0..2 {
                    chains[t][h] = vaddq_f32(chains[t][h], scaled::<INPUTS, T>(isums[t][h], scales, dx, t, h));
                }
            }
            if MINS {
                let sums = x.map(|row| row.sums.add(b * 2).cast::<[i16; 2]>().read_unaligned());
                let sums = sums.map(|[low, high]| (i32::from(low) + i32::from(high)) as f32);
                for t in 0..T {
                    for h in 0..2 {
                        let min = vmulq_f32(floats(mins, t, h), of_inputs::<INPUTS, T>(dx, t));
                        let product = vmulq_f32(of_inputs::<INPUTS, T>(sums, t), min);
                        chains[t][h] = vaddq_f32(chains[t][h], product);
                    }
                }
            }
        }
        *acc = outputs::<INPUTS, T>(chains);
    }
}

/// See [`Instruction::sweep_256`](super::panels::Instruction::sweep_256).
///
/// # Safety
/// As there.
#[inline(always)]
pub(super) unsafe fn sweep_256<
    I: Dots<INPUTS>,
    const SUBS: usize,
    const INPUTS: usize,
    const T: usize,
    const MINS: bool,
>(
    instruction: I,
    panel: &Panel<INPUTS>,
    blocks: usize,
    x: [Row; T],
    acc: &mut [[f32; ROWS]; T],
) {
    // SAFETY: NEON is part of the target. b < blocks, and the caller promises `blocks` super-blocks in every row, with
    // a scale and 16 sums each, which are at most the COLS columns of a panel.
    unsafe {
        let mut chains = chains::<INPUTS, T>(acc);
        let subs = panel.sub_scales.as_chunks::<SUBS>().0.iter().zip(&panel.sub_mins);
        let scales = panel.scales.iter().zip(&panel.mins);
        for (b, ((sub_scales, sub_mins), (scales, mins))) in subs.zip(scales).enumerate().take(blocks) {
            let mut isums = [[vdupq_n_s32(0); 2]; T];
            for (sub, sub_scales) in sub_scales.iter().enumerate() {
                let count = 16 / SUBS;
                let dots = dots::<I, INPUTS, T>(instruction, panel, b * 16 + sub * count, count, x);
                for t in 0..T {
                    for h in 0..2 {
                        isums[t][h] = vmlaq_s32(isums[t][h], dots[t][h], ints(sub_scales, t, h));
                    }
                }
            }
            let dx = x.map(|row| *row.scales.add(b));
            for t in 0..T {
                for h in 0..2 {
                    chains[t][h] = vaddq_f32(chains[t][h], scaled::<INPUTS, T>(isums[t][h], scales, dx, t, h));
                }
            }
            if MINS {
                let parts = x.map(|row| parts(row.sums.add(b * 16)));
                let (w, zero) = (sub_mins.as_ptr(), [[vdupq_n_s32(0); 2]; T]);
                let upper = instruction.dots(zero, w, parts.each_ref().map(|[upper, _]| upper.as_ptr()));
                let lower = instruction.dots(zero, w, parts.each_ref().map(|[_, lower]| lower.as_ptr()));
                for t in 0..T {
                    for h in 0..2 {
                        let msum = vaddq_s32(vshlq_n_s32::<7>(upper[t][h]), lower[t][h]);
                        chains[t][h] = vsubq_f32(chains[t][h], scaled::<INPUTS, T>(msum, mins, dx, t, h));
                    }
                }
            }
        }
        *acc = outputs::<INPUTS, T>(chains);
    }
}

/// Returns the products of `count` times 16 columns, from column 16 `first` on. `count` is 1 or 2.
///
/// # Safety
/// These columns are in the panel and in every row.
#[inline(always)]
unsafe fn dots<I: Dots<INPUTS>, const INPUTS: usize, const T: usize>(
    instruction: I,
    panel: &Panel<INPUTS>,
    first: usize,
    count: usize,
    x: [Row; T],
) -> Lanes<int32x4_t, T> {
    // SAFETY: NEON is part of the target. The caller promises the columns, of which the panel has eight codes and every
    // row one.
    unsafe {
        let w = panel.codes.as_ptr().add(first);
        let x = x.map(|row| row.codes.add(first * 16));
        let sums = instruction.dots([[vdupq_n_s32(0); 2]; T], w.cast(), x);
        if count == 1 { sums } else { instruction.dots(sums, w.add(1).cast(), x.map(|row| row.add(16))) }
    }
}

/// Splits the sums of 16 parts of a super-block: returns the sums shifted right by 7 bits, and their lower 7 bits.
/// |sum| <= 16 * 127, so both fit a code.
///
/// # Safety
/// 16 sums can be read.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn parts(sums: *const i16) -> [[i8; 16]; 2] {
    // SAFETY: the caller promises 16 sums that can be read.
    let sums = unsafe { [vld1q_s16(sums), vld1q_s16(sums.add(8))] };
    let [a, b] = sums.map(|sums| vmovn_s16(vshrq_n_s16::<7>(sums)));
    let [c, d] = sums.map(|sums| vmovn_s16(vandq_s16(sums, vdupq_n_s16(127))));
    let mut parts = [[0; 16]; 2];
    // SAFETY: each part has room for the 16 elements.
    unsafe {
        vst1q_s8(parts[0].as_mut_ptr(), vcombine_s8(a, b));
        vst1q_s8(parts[1].as_mut_ptr(), vcombine_s8(c, d));
    }
    parts
}

/// Returns `sum * (scale * dx)` for the lanes `[t][h]`.
#[inline]
#[target_feature(enable = "neon")]
fn scaled<const INPUTS: usize, const T: usize>(
    sum: int32x4_t,
    scales: &[[f32; INPUTS]; ROWS],
    dx: [f32; T],
    t: usize,
    h: usize,
) -> float32x4_t {
    vmulq_f32(vcvtq_f32_s32(sum), vmulq_f32(floats(scales, t, h), of_inputs::<INPUTS, T>(dx, t)))
}

/// Returns the numbers of the inputs that belong to the lanes `[t][h]`. `x` has one number of each input.
#[inline]
#[target_feature(enable = "neon")]
fn of_inputs<const INPUTS: usize, const T: usize>(x: [f32; T], t: usize) -> float32x4_t {
    match INPUTS {
        1 => vdupq_n_f32(x[t]),
        _ => vzip1q_f32(vdupq_n_f32(x[t & !1]), vdupq_n_f32(x[(t | 1).min(T - 1)])),
    }
}

/// Returns the numbers of the rows of weights that belong to the lanes `[t][h]`. `of_rows` has one number of each row.
#[inline]
#[target_feature(enable = "neon")]
fn floats<const INPUTS: usize>(of_rows: &[[f32; INPUTS]; ROWS], t: usize, h: usize) -> float32x4_t {
    // SAFETY: four of the 8 INPUTS numbers are read, from 4 h on, or from 8 (t % 2) + 4 h on.
    unsafe { vld1q_f32(of_rows.as_flattened().as_ptr().add(t % INPUTS * 8 + h * 4)) }
}

/// Does the same as [`floats`] for integers.
#[inline]
#[target_feature(enable = "neon")]
fn ints<const INPUTS: usize>(of_rows: &[[i32; INPUTS]; ROWS], t: usize, h: usize) -> int32x4_t {
    // SAFETY: four of the 8 INPUTS numbers are read, from 4 h on, or from 8 (t % 2) + 4 h on.
    unsafe { vld1q_s32(of_rows.as_flattened().as_ptr().add(t % INPUTS * 8 + h * 4)) }
}

/// Puts outputs into the lanes of the instruction.
#[inline]
#[target_feature(enable = "neon")]
fn chains<const INPUTS: usize, const T: usize>(acc: &[[f32; ROWS]; T]) -> Lanes<float32x4_t, T> {
    // SAFETY: a row has the four elements that are read from 0 or from 4 on.
    let rows = acc.map(|row| unsafe { [vld1q_f32(row.as_ptr()), vld1q_f32(row.as_ptr().add(4))] });
    let mut chains = rows;
    if INPUTS == 2 {
        for t in (0..T - T % 2).step_by(2) {
            let ([a, b], [c, d]) = (rows[t], rows[t + 1]);
            (chains[t], chains[t + 1]) = ([vzip1q_f32(a, c), vzip2q_f32(a, c)], [vzip1q_f32(b, d), vzip2q_f32(b, d)]);
        }
    }
    chains
}

/// Takes outputs out of the lanes of the instruction: the inverse of [`chains`].
#[inline]
#[target_feature(enable = "neon")]
fn outputs<const INPUTS: usize, const T: usize>(chains: Lanes<float32x4_t, T>) -> [[f32; ROWS]; T] {
    let mut rows = chains;
    if INPUTS == 2 {
        for t in (0..T - T % 2).step_by(2) {
            let ([a, b], [c, d]) = (chains[t], chains[t + 1]);
            (rows[t], rows[t + 1]) = ([vuzp1q_f32(a, b), vuzp1q_f32(c, d)], [vuzp2q_f32(a, b), vuzp2q_f32(c, d)]);
        }
    }
    rows.map(|[a, b]| {
        let mut row = [0.0; ROWS];
        // SAFETY: a row has room for the four elements from 0 or from 4 on.
        unsafe {
            vst1q_f32(row.as_mut_ptr(), a);
            vst1q_f32(row.as_mut_ptr().add(4), b);
        }
        row
    })
}
