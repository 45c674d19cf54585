//! Products of quantized weights by the instruction that multiplies two rows of weights by two rows of activations,
//! eight codes of each.
//!
//! A panel has eight rows, and four rows of activations are swept over it. The four sums of an instruction stay where
//! they are until their block ends: what continues the chains of outputs is computed in the same lanes.
// Indices below run over fixed arrays of constant length, so no check is left of them; iterators in their
// place are not always inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use core::arch::aarch64::*;
use core::arch::asm;
use core::marker::PhantomData;

use crate::kernels::generic::{COLS, Family, Row};
use crate::quant::{ActivationRow, Layout32, Layout256, QuantizedRow};

/// Rows of weights at a time.
pub(super) const ROWS: usize = 8;

const PAIRS: usize = ROWS / 2;

/// The machine has the product of matrices of bytes. NEON is part of the target.
#[derive(Clone, Copy)]
pub(super) struct I8mm(());

impl I8mm {
    #[inline]
    #[target_feature(enable = "neon,i8mm")]
    pub(super) fn new() -> Self {
        Self(())
    }
}

/// A format with blocks of 32.
pub(super) struct Of32<B>(PhantomData<B>);

/// A format with super-blocks of 256 in `SUBS` sub-blocks.
pub(super) struct Of256<B, const SUBS: usize>(PhantomData<B>);

/// Unpacked blocks of eight rows, as the instruction reads them. What is there twice is for two rows of activations.
pub(super) struct Panel {
    /// Eight codes of each row at a time.
    codes: [[[i8; 8]; ROWS]; COLS / 8],
    /// Per block.
    scales: [[[f32; 2]; ROWS]; COLS / 32],
    /// Per block, where there are some.
    mins: [[[f32; 2]; ROWS]; COLS / 32],
    /// Per sub-block.
    sub_scales: [[[i32; 2]; ROWS]; COLS / 16],
    /// Eight sub-blocks of each row at a time.
    sub_mins: [[[u8; 8]; ROWS]; COLS / 128],
    has_mins: bool,
}

impl Panel {
    const ZERO: Self = Self {
        codes: [[[0; 8]; ROWS]; COLS / 8],
        scales: [[[0.0; 2]; ROWS]; COLS / 32],
        mins: [[[0.0; 2]; ROWS]; COLS / 32],
        sub_scales: [[[0; 2]; ROWS]; COLS / 16],
        sub_mins: [[[0; 8]; ROWS]; COLS / 128],
        has_mins: false,
    };
}

impl<B: Layout32> Family<ROWS> for Of32<B> {
    type Proof = I8mm;
    type Block = B;
    type Panel = Panel;
    const LEN: usize = 32;
    const FOUR: bool = true;

    #[inline(always)]
    fn panel() -> Panel {
        Panel::ZERO
    }

    #[inline(always)]
    fn activations(row: ActivationRow<'_>) -> Option<QuantizedRow<'_>> {
        if let ActivationRow::Q8x32(row) = row { Some(row) } else { None }
    }

    #[inline(always)]
    fn unpack(blocks: &[B], row: usize, panel: &mut Panel) {
        let places = panel.codes.as_chunks_mut::<4>().0.iter_mut().zip(&mut panel.scales).zip(&mut panel.mins);
        for (block, ((codes, scales), mins)) in blocks.iter().zip(places) {
            let block = block.unpack();
            set(codes, row, block.codes.as_chunks().0);
            set([scales], row, &[[block.scale; 2]]);
            set([mins], row, &[[block.min.unwrap_or_default(); 2]]);
            panel.has_mins = block.min.is_some();
        }
    }

    #[inline(always)]
    unsafe fn sweep<const T: usize>(
        proof: I8mm,
        panel: &Panel,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    ) {
        // SAFETY: `proof` says that the machine has the instructions; what the caller promises is the same.
        unsafe { sweep_32(proof, panel, blocks, x, acc) }
    }
}

impl<B: Layout256<SUBS>, const SUBS: usize> Family<ROWS> for Of256<B, SUBS> {
    type Proof = I8mm;
    type Block = B;
    type Panel = Panel;
    const LEN: usize = 256;
    const FOUR: bool = true;

    #[inline(always)]
    fn panel() -> Panel {
        Panel::ZERO
    }

    #[inline(always)]
    fn activations(row: ActivationRow<'_>) -> Option<QuantizedRow<'_>> {
        if let ActivationRow::Q8x256(row) = row { Some(row) } else { None }
    }

    #[inline(always)]
    fn unpack(blocks: &[B], row: usize, panel: &mut Panel) {
        let subs = panel.sub_scales.chunks_exact_mut(SUBS).zip(panel.sub_mins.chunks_exact_mut(SUBS / 8));
        let scales = panel.scales.iter_mut().zip(&mut panel.mins);
        let places = panel.codes.as_chunks_mut::<32>().0.iter_mut().zip(subs).zip(scales);
        for (block, ((codes, (sub_scales, sub_mins)), (scales, mins))) in blocks.iter().zip(places) {
            let block = block.unpack();
            set(codes, row, block.codes.as_chunks().0);
            set([scales], row, &[[block.scale; 2]]);
            for (place, sub_scale) in sub_scales.iter_mut().zip(block.sub_scales) {
                set([place], row, &[[i32::from(sub_scale); 2]]);
            }
            panel.has_mins = block.mins.is_some();
            if let Some(from) = block.mins {
                set([mins], row, &[[from.min; 2]]);
                set(sub_mins, row, from.sub_mins.as_chunks().0);
            }
        }
    }

    #[inline(always)]
    unsafe fn sweep<const T: usize>(
        proof: I8mm,
        panel: &Panel,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    ) {
        // SAFETY: `proof` says that the machine has the instructions; what the caller promises is the same.
        unsafe { sweep_256::<SUBS, T>(proof, panel, blocks, x, acc) }
    }
}

/// Sets the row `row` of each place.
#[inline(always)]
fn set<'p, T: Copy + 'p>(places: impl IntoIterator<Item = &'p mut [T; ROWS]>, row: usize, values: &[T]) {
    for (place, &value) in places.into_iter().zip(values) {
        if let Some(place) = place.get_mut(row) {
            *place = value;
        }
    }
}

/// Continues the chains by blocks of 32.
///
/// # Safety
/// Every row has `blocks` blocks, at most [`COLS`] elements, that can be read.
#[target_feature(enable = "neon,dotprod,i8mm")]
unsafe fn sweep_32<const T: usize>(proof: I8mm, panel: &Panel, blocks: usize, x: [Row; T], acc: &mut [[f32; ROWS]; T]) {
    let mut chains = chains(acc);
    for (b, (scales, mins)) in panel.scales.iter().zip(&panel.mins).enumerate().take(blocks) {
        // SAFETY: b < blocks, and the caller promises so many blocks of 32 in every row, at most COLS elements.
        let isums = unsafe { squares::<T, 32>(proof, panel, b * 32, x) };
        for t in (0..T).step_by(2) {
            let [one, two] = pair(x, t);
            // SAFETY: b < blocks, and the caller promises so many scales and twice as many sums in every row.
            let (dx, sums) = unsafe {
                let sum = |row: Row| row.sums.add(b * 2).cast::<[i16; 2]>().read_unaligned();
                (both(*one.scales.add(b), *two.scales.add(b)), [sum(one), sum(two)])
            };
            for p in 0..PAIRS {
                chains[t][p] = vaddq_f32(chains[t][p], scaled(isums[t][p], scales, p, dx));
            }
            if panel.has_mins {
                let [one, two] = sums.map(|[low, high]| i32::from(low) + i32::from(high));
                let msum = vzip1q_s32(vdupq_n_s32(one), vdupq_n_s32(two));
                for p in 0..PAIRS {
                    chains[t][p] = vaddq_f32(chains[t][p], scaled(msum, mins, p, dx));
                }
            }
        }
    }
    *acc = rows(chains);
}

/// Continues the chains by super-blocks.
///
/// # Safety
/// Every row has `blocks` super-blocks, at most [`COLS`] elements, that can be read.
#[target_feature(enable = "neon,dotprod,i8mm")]
unsafe fn sweep_256<const SUBS: usize, const T: usize>(
    proof: I8mm,
    panel: &Panel,
    blocks: usize,
    x: [Row; T],
    acc: &mut [[f32; ROWS]; T],
) {
    let mut chains = chains(acc);
    let subs = panel.sub_scales.as_chunks::<SUBS>().0.iter().zip(panel.sub_mins.chunks_exact(SUBS / 8));
    let scales = panel.scales.iter().zip(&panel.mins);
    for (b, ((sub_scales, sub_mins), (scales, mins))) in subs.zip(scales).enumerate().take(blocks) {
        let mut isums = [[vdupq_n_s32(0); PAIRS]; T];
        for (sub, sub_scales) in sub_scales.iter().enumerate() {
            let first = b * 256 + sub * (256 / SUBS);
            // SAFETY: b < blocks, and the caller promises so many super-blocks in every row, at most COLS elements; the
            // sub-blocks of b are within it.
            let dots = unsafe {
                match SUBS {
                    8 => squares::<T, 32>(proof, panel, first, x),
                    _ => squares::<T, 16>(proof, panel, first, x),
                }
            };
            for t in (0..T).step_by(2) {
                for p in 0..PAIRS {
                    isums[t][p] = vmlaq_s32(isums[t][p], dots[t][p], ints(sub_scales, p));
                }
            }
        }
        for t in (0..T).step_by(2) {
            let [one, two] = pair(x, t);
            // SAFETY: b < blocks, and the caller promises so many scales in every row.
            let dx = unsafe { both(*one.scales.add(b), *two.scales.add(b)) };
            for p in 0..PAIRS {
                chains[t][p] = vaddq_f32(chains[t][p], scaled(isums[t][p], scales, p, dx));
            }
            if panel.has_mins {
                // SAFETY: b < blocks, and the caller promises 16 sums of each of so many super-blocks in every row.
                let sums = unsafe { sums::<SUBS>([one, two].map(|row| row.sums.add(b * 16))) };
                for p in 0..PAIRS {
                    let msum = min_sum(proof, sub_mins, p, sums);
                    chains[t][p] = vsubq_f32(chains[t][p], scaled(msum, mins, p, dx));
                }
            }
        }
    }
    *acc = rows(chains);
}

/// Products of `LEN` columns, a multiple of 16, from `first` on: element `t` is of the rows `t` and `t + 1` of inputs, for
/// even `t`.
///
/// # Safety
/// `first + LEN <= COLS`, and every row has so many codes from there on.
#[inline(always)]
unsafe fn squares<const T: usize, const LEN: usize>(
    proof: I8mm,
    panel: &Panel,
    first: usize,
    x: [Row; T],
) -> [[int32x4_t; PAIRS]; T] {
    // SAFETY: NEON is part of the target. Columns below first + LEN, which the caller promises to be at most COLS, have
    // ROWS codes each in the panel; and so many columns are in every row.
    unsafe {
        let mut sums = [[vdupq_n_s32(0); PAIRS]; T];
        for i in 0..LEN / 16 {
            let at = first + i * 16;
            let codes = panel.codes.as_ptr().cast::<i8>().add(at * ROWS);
            let w = |octet: usize, p: usize| vld1q_s8(codes.add(octet * 8 * ROWS + p * 16));
            let w = [[w(0, 0), w(0, 1), w(0, 2), w(0, 3)], [w(1, 0), w(1, 1), w(1, 2), w(1, 3)]];
            for t in (0..T).step_by(2) {
                let [one, two] = pair(x, t).map(|row| vreinterpretq_s64_s8(vld1q_s8(row.codes.add(at))));
                let x = [vzip1q_s64(one, two), vzip2q_s64(one, two)].map(|octet| vreinterpretq_s8_s64(octet));
                for octet in 0..2 {
                    for p in 0..PAIRS {
                        sums[t][p] = smmla(proof, sums[t][p], w[octet][p], x[octet]);
                    }
                }
            }
        }
        sums
    }
}

/// The rows `t` and `t + 1`; past the last row it is that row again.
#[inline(always)]
fn pair<const T: usize>(x: [Row; T], t: usize) -> [Row; 2] {
    [x[t], x[(t + 1).min(T - 1)]]
}

/// `a` and `b`, twice.
#[inline]
#[target_feature(enable = "neon")]
fn both(a: f32, b: f32) -> float32x4_t {
    vzip1q_f32(vdupq_n_f32(a), vdupq_n_f32(b))
}

/// `sum * (scale * dx)` for the pair `p` of rows of weights.
#[inline]
#[target_feature(enable = "neon")]
fn scaled(sum: int32x4_t, scales: &[[f32; 2]; ROWS], p: usize, dx: float32x4_t) -> float32x4_t {
    let scales: &[[f32; 4]; PAIRS] = bytemuck::must_cast_ref(scales);
    // SAFETY: the array has the four elements that are read.
    let scales = unsafe { vld1q_f32(scales[p].as_ptr()) };
    vmulq_f32(vcvtq_f32_s32(sum), vmulq_f32(scales, dx))
}

/// The numbers of the pair `p`.
#[inline]
#[target_feature(enable = "neon")]
fn ints(of_rows: &[[i32; 2]; ROWS], p: usize) -> int32x4_t {
    let of_pairs: &[[i32; 4]; PAIRS] = bytemuck::must_cast_ref(of_rows);
    // SAFETY: the array has the four elements that are read.
    unsafe { vld1q_s32(of_pairs[p].as_ptr()) }
}

/// The sums of the codes of two rows by sub-block, eight sub-blocks at a time, without their lower 7 bits and these bits.
/// For 16 elements |sum| <= 16 * 127, so both parts are bytes.
///
/// # Safety
/// 16 sums can be read of each row.
#[inline]
#[target_feature(enable = "neon")]
unsafe fn sums<const SUBS: usize>(rows: [*const i16; 2]) -> [[int8x16_t; 2]; 2] {
    // SAFETY: the caller promises so many sums.
    let [one, two] = rows.map(|row| unsafe { [vld1q_s16(row), vld1q_s16(row.add(8))] });
    let [one, two] = [one, two].map(|[a, b]| if SUBS == 8 { [vpaddq_s16(a, b); 2] } else { [a, b] });
    let parts = |one, two| {
        let upper = [one, two].map(|sums| vmovn_s16(vshrq_n_s16::<7>(sums)));
        let lower = [one, two].map(|sums| vmovn_s16(vandq_s16(sums, vdupq_n_s16(127))));
        [upper, lower].map(|[one, two]| vcombine_s8(one, two))
    };
    [parts(one[0], two[0]), parts(one[1], two[1])]
}

/// The sums of `sub_mins` times `sums` for the pair `p` of rows of weights.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn min_sum(proof: I8mm, sub_mins: &[[[u8; 8]; ROWS]], p: usize, sums: [[int8x16_t; 2]; 2]) -> int32x4_t {
    let (mut upper, mut lower) = (vdupq_n_s32(0), vdupq_n_s32(0));
    for (sub_mins, [x_upper, x_lower]) in sub_mins.iter().zip(sums) {
        let sub_mins: &[[u8; 16]; PAIRS] = bytemuck::must_cast_ref(sub_mins);
        // SAFETY: the array has the 16 elements that are read.
        let sub_mins = unsafe { vld1q_u8(sub_mins[p].as_ptr()) };
        upper = usmmla(proof, upper, sub_mins, x_upper);
        lower = usmmla(proof, lower, sub_mins, x_lower);
    }
    vaddq_s32(vshlq_n_s32::<7>(upper), lower)
}

/// Outputs in the lanes of the instruction: two of a row of weights, for two rows of inputs, then two of the next one.
#[inline]
#[target_feature(enable = "neon")]
fn chains<const T: usize>(acc: &[[f32; ROWS]; T]) -> [[float32x4_t; PAIRS]; T] {
    let mut chains = [[vdupq_n_f32(0.0); PAIRS]; T];
    for t in (0..T).step_by(2) {
        for half in 0..2 {
            // SAFETY: a row has the four elements that are read from 0 or from 4 on.
            let [one, two] = [t, (t + 1).min(T - 1)].map(|t| unsafe { vld1q_f32(acc[t].as_ptr().add(half * 4)) });
            chains[t][half * 2] = vzip1q_f32(one, two);
            chains[t][half * 2 + 1] = vzip2q_f32(one, two);
        }
    }
    chains
}

/// The inverse of [`chains`].
#[inline]
#[target_feature(enable = "neon")]
fn rows<const T: usize>(chains: [[float32x4_t; PAIRS]; T]) -> [[f32; ROWS]; T] {
    let mut acc = [[0.0; ROWS]; T];
    for t in (0..T).step_by(2) {
        for half in 0..2 {
            let (a, b) = (chains[t][half * 2], chains[t][half * 2 + 1]);
            // The first row last: without a second one, both are the same place.
            for (t, row) in [((t + 1).min(T - 1), vuzp2q_f32(a, b)), (t, vuzp1q_f32(a, b))] {
                // SAFETY: a row has room for the four elements from 0 or from 4 on.
                unsafe { vst1q_f32(acc[t].as_mut_ptr().add(half * 4), row) };
            }
        }
    }
    acc
}

/// Adds the products of two rows of `w` and two rows of `x`, eight codes each: lane 2 r + t is row r times row t.
#[inline(always)]
fn smmla(_: I8mm, mut acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
    // The intrinsic is not stable yet.
    // SAFETY: there is an `I8mm`, so the machine has the instruction; it only computes.
    unsafe {
        asm!(
            "smmla {acc:v}.4s, {w:v}.16b, {x:v}.16b",
            acc = inout(vreg) acc,
            w = in(vreg) w,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    acc
}

/// As [`smmla`], for rows of `w` without a sign.
#[inline(always)]
fn usmmla(_: I8mm, mut acc: int32x4_t, w: uint8x16_t, x: int8x16_t) -> int32x4_t {
    // SAFETY: there is an `I8mm`, so the machine has the instruction; it only computes.
    unsafe {
        asm!(
            "usmmla {acc:v}.4s, {w:v}.16b, {x:v}.16b",
            acc = inout(vreg) acc,
            w = in(vreg) w,
            x = in(vreg) x,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    acc
}
