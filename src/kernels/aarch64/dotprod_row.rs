//! The dot product of bytes for one row of inputs. The lanes of a register are sums of one row of weights.

use core::arch::aarch64::*;
use core::arch::asm;

use super::dotprod::Dotprod;
use super::lanes::Neon;
use super::neon::{Dot, Sums};
use crate::kernels::generic::{self, Family, Inputs, Quad};
use crate::tensor::TensorView;

generic::level_products!(Neon: (), Sums<Dotprod>: Dotprod::new(), "neon,dotprod");

impl Dot for Dotprod {
    // `dotprod` multiplies several rows of inputs.
    const MOST: [usize; 2] = [1, 1];

    #[inline(always)]
    fn dot(self, mut acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // The intrinsic is not stable yet.
        // SAFETY: `self` proves the instruction; it only computes.
        unsafe {
            asm!(
                "sdot {acc:v}.4s, {w:v}.16b, {x:v}.16b",
                acc = inout(vreg) acc,
                w = in(vreg) w,
                x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        acc
    }
}
