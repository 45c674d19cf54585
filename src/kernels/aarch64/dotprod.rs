//! NEON with the dot product of bytes (FEAT_DotProd: ARMv8.4, and most cores of ARMv8.2).

use core::arch::aarch64::*;
use core::arch::asm;

use super::lanes::Neon;
use super::neon::sums;
use crate::kernels::generic::{self, Family, Inputs, Quad};
use crate::tensor::TensorView;

// Nothing else has a use for it.
pub(in crate::kernels) use super::neon::{
    attend, attend_scratch, combine_tile, norm, norm_in_place, quantize_row, soft_cap, store,
};

generic::level_products!(Neon: (), Dots: Dotprod::new(), "neon,dotprod");

/// The machine has the dot product of bytes. NEON is part of the target.
#[derive(Clone, Copy)]
struct Dotprod(());

impl Dotprod {
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    fn new() -> Self {
        Self(())
    }
}

/// There is none without a [`Dotprod`], so where there is one the machine has the instruction.
#[derive(Clone, Copy)]
struct Dots(int32x4_t);

impl Quad for Dots {
    type Proof = Dotprod;

    type Codes = int8x16_t;

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
        // SAFETY: `self` proves the instruction, see `Dots`; it only computes.
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
    fn mul_add(self, other: Self, by: i32) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vmlaq_n_s32(self.0, other.0, by) })
    }

    #[inline(always)]
    fn sums(rows: [Self; 4]) -> [i32; 4] {
        sums(rows.map(|row| row.0))
    }
}
