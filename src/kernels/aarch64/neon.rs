//! NEON: products of bytes are 16 bits wide and then summed in 32.

use core::arch::aarch64::*;
use core::ops::Range;

use super::lanes::Neon;
use crate::kernels::generic::{self, Combine, Family, Inputs, Norm, Quad, Queries};
use crate::kv::{KvSource, KvTileMut};
use crate::mem::Tile;
use crate::quant::{Form, QuantizeError};
use crate::tensor::TensorView;

crate::kernels::shims::shims!(Neon: (),);
crate::kernels::shims::quantize_shim!();
generic::level_products!(Neon: (), Products: (),);

#[derive(Clone, Copy)]
struct Products(int32x4_t);

impl Quad for Products {
    type Proof = ();

    type Codes = int8x16_t;

    #[inline(always)]
    fn zero((): ()) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(unsafe { vdupq_n_s32(0) })
    }

    #[inline(always)]
    unsafe fn load((): (), from: *const i8) -> int8x16_t {
        // SAFETY: NEON is part of the target; the caller promises 16 elements to read.
        unsafe { vld1q_s8(from) }
    }

    #[inline(always)]
    fn dot(self, w: int8x16_t, x: int8x16_t) -> Self {
        // |w| <= 128 and |x| <= 127: two products are at most 32,512.
        // SAFETY: NEON is part of the target, see `Neon`.
        unsafe {
            let pairs = vmlal_high_s8(vmull_s8(vget_low_s8(w), vget_low_s8(x)), w, x);
            Self(vpadalq_s16(self.0, pairs))
        }
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

/// Element r is the sum of the lanes of `rows[r]`.
#[inline(always)]
pub(super) fn sums([a, b, c, d]: [int32x4_t; 4]) -> [i32; 4] {
    let mut sums = [0; 4];
    // SAFETY: NEON is part of the target; the array has room for the four lanes.
    unsafe { vst1q_s32(sums.as_mut_ptr(), vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d))) };
    sums
}
