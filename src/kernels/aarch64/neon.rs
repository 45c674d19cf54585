//! The level `neon`: products of bytes are 16 bits wide, and are added up in 32 bits.

use core::arch::aarch64::*;
use core::ops::Range;

use super::lanes::Neon;
use crate::kernels::generic::{self, Combine, Family, Floats, Inputs, Norm, Quad, Queries};
use crate::kv::{KvSource, KvTileMut};
use crate::mem::Tile;
use crate::quant::{Form, QuantizeError};
use crate::tensor::TensorView;

crate::kernels::shims::shims!(Neon: (),);
crate::kernels::shims::quantize_shim!();
generic::level_products!(Neon: (), Sums<()>: (),);

/// An instruction that adds 16 products of bytes to four sums. A value proves that the machine has the instruction.
pub(super) trait Dot: Copy {
    /// See [`Quad::MOST`].
    const MOST: [usize; 2];

    fn dot(self, acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t;
}

impl Dot for () {
    const MOST: [usize; 2] = [4, 2];

    #[inline(always)]
    fn dot(self, acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // |w| <= 128 and |x| <= 127: two products are at most 32,512.
        // SAFETY: NEON is part of the target, see `Neon`.
        unsafe {
            let pairs = vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x);
            vpadalq_s16(acc, pairs)
        }
    }
}

/// Four sums, and the proof of the instruction that adds to them.
#[derive(Clone, Copy)]
pub(super) struct Sums<D>(int32x4_t, D);

impl<D: Dot> Quad for Sums<D> {
    type Proof = D;

    type Codes = int8x16_t;
    type Floats = Four;

    const MOST: [usize; 2] = D::MOST;

    #[inline(always)]
    fn zero(dot: D) -> Self {
        Self::splat(dot, 0)
    }

    #[inline(always)]
    unsafe fn load(_: D, from: *const i8) -> int8x16_t {
        // SAFETY: NEON is part of the target; the caller promises 16 elements to read.
        unsafe { vld1q_s8(from) }
    }

    #[inline(always)]
    fn dot(self, w: int8x16_t, x: int8x16_t) -> Self {
        Self(self.1.dot(self.0, w, x), self.1)
    }

    #[inline(always)]
    fn splat(dot: D, x: i32) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vdupq_n_s32(x) }, dot)
    }

    #[inline(always)]
    fn ints(dot: D, from: &[i32; 4]) -> Self {
        // SAFETY: NEON is part of the target; the array has the four elements that are read.
        Self(unsafe { vld1q_s32(from.as_ptr()) }, dot)
    }

    #[inline(always)]
    fn mul_add(self, other: Self, by: Self) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vmlaq_s32(self.0, other.0, by.0) }, self.1)
    }

    #[inline(always)]
    fn sums(rows: [Self; 4]) -> Self {
        let [a, b, c, d] = rows.map(|row| row.0);
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d)) }, rows[0].1)
    }

    #[inline(always)]
    fn floats(self) -> Four {
        // SAFETY: NEON is part of the target, see `Neon`.
        Four(unsafe { vcvtq_f32_s32(self.0) })
    }
}

/// Four lanes of f32.
#[derive(Clone, Copy)]
pub(super) struct Four(float32x4_t);

impl Floats for Four {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vdupq_n_f32(x) })
    }

    #[inline(always)]
    fn load(from: &[f32; 4]) -> Self {
        // SAFETY: NEON is part of the target; the array has the four elements that are read.
        Self(unsafe { vld1q_f32(from.as_ptr()) })
    }

    #[inline(always)]
    fn store(self) -> [f32; 4] {
        let mut to = [0.0; 4];
        // SAFETY: NEON is part of the target; the array has room for the four lanes.
        unsafe { vst1q_f32(to.as_mut_ptr(), self.0) };
        to
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vaddq_f32(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vsubq_f32(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vmulq_f32(self.0, other.0) })
    }
}
