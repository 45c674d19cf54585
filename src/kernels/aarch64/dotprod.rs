//! NEON with the dot product of bytes (FEAT_DotProd: ARMv8.4, and most cores of ARMv8.2).

use core::arch::aarch64::*;
use core::arch::asm;

use super::lanes::Neon;
use super::neon::sums;
use crate::kernels::generic::{self, Family, Inputs, Of32, Of256, Quad};
use crate::tensor::TensorView;

// Nothing else has a use for it.
pub(in crate::kernels) use super::neon::{
    attend, attend_scratch, combine_tile, norm, norm_in_place, quantize_row, soft_cap, store,
};

generic::level_products!(Neon, Dots, "neon,dotprod");

/// Named only in functions that are compiled for this level.
#[derive(Clone, Copy)]
struct Dots(int32x4_t);

impl Quad for Dots {
    type Codes = int8x16_t;

    #[inline(always)]
    fn zero() -> Self {
        // SAFETY: as for `Neon`.
        Self(unsafe { vdupq_n_s32(0) })
    }

    #[inline(always)]
    unsafe fn load(from: *const i8) -> int8x16_t {
        // SAFETY: the caller's promise.
        unsafe { vld1q_s8(from) }
    }

    #[inline(always)]
    fn dot(self, w: int8x16_t, x: int8x16_t) -> Self {
        let mut acc = self.0;
        // The intrinsic is not stable yet.
        // SAFETY: the processor has the instruction, see `Dots`; it only computes.
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
        // SAFETY: as for `Neon`.
        Self(unsafe { vmlaq_n_s32(self.0, other.0, by) })
    }

    #[inline(always)]
    fn sums(rows: [Self; 4]) -> [i32; 4] {
        sums(rows.map(|row| row.0))
    }
}
