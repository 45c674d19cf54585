//! The dot product of bytes for one row of inputs: the sums of a row of weights are in the lanes of a register.

use core::arch::aarch64::*;
use core::arch::asm;

use super::dotprod::Dotprod;
use super::lanes::Neon;
use super::neon::Four;
use crate::kernels::generic::{self, Family, Inputs, Quad};
use crate::tensor::TensorView;

generic::level_products!(Neon: (), Sums: Dotprod::new(), "neon,dotprod");

/// There is none without a [`Dotprod`], so where there is one the machine has the instruction.
#[derive(Clone, Copy)]
struct Sums(int32x4_t);

impl Quad for Sums {
    type Proof = Dotprod;

    type Codes = int8x16_t;
    type Floats = Four;

    // Several rows are multiplied by `dotprod`.
    const MOST: [usize; 2] = [1, 1];

    #[inline(always)]
    fn zero(_: Dotprod) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vdupq_n_s32(0) })
    }

    #[inline(always)]
    unsafe fn load(_: Dotprod, from: *const i8) -> int8x16_t {
        // SAFETY: NEON is part of the target; the caller promises 16 elements to read.
        unsafe { vld1q_s8(from) }
    }

    #[inline(always)]
    fn dot(self, w: int8x16_t, x: int8x16_t) -> Self {
        let mut acc = self.0;
        // The intrinsic is not stable yet.
        // SAFETY: `self` proves the instruction, see `Sums`; it only computes.
        unsafe {
            asm!(
                "sdot {acc:v}.4s, {w:v}.16b, {x:v}.16b",
                acc = inout(vreg) acc,
                w = in(vreg) w,
                x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        Self(acc)
    }

    #[inline(always)]
    fn splat(_: Dotprod, x: i32) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vdupq_n_s32(x) })
    }

    #[inline(always)]
    fn ints(_: Dotprod, from: &[i32; 4]) -> Self {
        // SAFETY: NEON is part of the target; the array has the four elements that are read.
        Self(unsafe { vld1q_s32(from.as_ptr()) })
    }

    #[inline(always)]
    fn mul_add(self, other: Self, by: Self) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vmlaq_s32(self.0, other.0, by.0) })
    }

    #[inline(always)]
    fn sums(rows: [Self; 4]) -> Self {
        let [a, b, c, d] = rows.map(|row| row.0);
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d)) })
    }

    #[inline(always)]
    fn floats(self) -> Four {
        Four::rounded(self.0)
    }
}
