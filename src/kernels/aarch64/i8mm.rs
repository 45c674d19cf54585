//! The level `i8mm`: NEON with the product of matrices of bytes (FEAT_I8MM: ARMv8.6, and some cores of ARMv8.2).

use core::arch::aarch64::*;
use core::arch::asm;

use super::dotprod;
use super::panels::{self, Instruction, Panel, ROWS};
use super::sweeps::{self, Dots, Lanes};
use crate::kernels::generic::{self, Family, Inputs, Row};
use crate::tensor::TensorView;

// Only products of several rows of inputs use the matrix product.
pub(in crate::kernels) use super::dotprod::{
    attend, attend_scratch, combine_tile, convolve, gate, norm, norm_in_place, normalize, products_scratch,
    quantize_row, settle_row, soft_cap, store, update_state,
};

/// Number of rows of inputs whose outputs share a register.
const INPUTS: usize = 2;

type Of32<B, const PARTS: usize> = panels::Of32<I8mm, B, PARTS, INPUTS>;
type Of256<B, const SUBS: usize> = panels::Of256<I8mm, B, SUBS, INPUTS>;

/// See [`Level::products`](crate::kernels::Level::products). A single row of inputs would leave half of each
/// instruction unused.
#[target_feature(enable = "neon,dotprod,i8mm")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), generic::Refused> {
    if inputs.rows() == 1 {
        return dotprod::products(weights, inputs, out, scratch);
    }
    // Floats, and NVFP4 with its parts of 16, have only the kernel for one row of inputs.
    generic::by_format!(
        weights,
        inputs,
        out,
        return dotprod::products(weights, inputs, out, scratch),
        return dotprod::products(weights, inputs, out, scratch)
    )
}

#[target_feature(enable = "neon,dotprod,i8mm")]
fn blocks<F: Family<ROWS, Proof = I8mm>>(weights: TensorView<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> Option<()> {
    generic::block_products::<F, _>(I8mm::new(), weights, inputs, out)
}

/// Proof that the machine has the product of matrices of bytes. NEON is part of the target.
#[derive(Clone, Copy)]
struct I8mm(());

impl I8mm {
    #[inline]
    #[target_feature(enable = "neon,dotprod,i8mm")]
    fn new() -> Self {
        Self(())
    }

    /// Adds the products of eight columns of eight rows of weights.
    ///
    /// # Safety
    /// 16 codes of each row of weights can be read.
    #[inline(always)]
    unsafe fn octet<const OCTET: usize, const T: usize>(
        self,
        mut sums: Lanes<int32x4_t, T>,
        w: *const i8,
        x: [int64x2_t; T],
    ) -> Lanes<int32x4_t, T> {
        // SAFETY: NEON is part of the target. OCTET is below 2, and the caller promises twice 64 codes.
        let [a, b, c, d] = unsafe { [0, 16, 32, 48].map(|pair| vld1q_s8(w.add(OCTET * 64 + pair))) };
        for ([one, two], x) in sums.as_chunks_mut::<2>().0.iter_mut().zip(x.as_chunks::<2>().0) {
            let [x, y] = *x;
            // SAFETY: NEON is part of the target, see `Neon`.
            let x = unsafe { vreinterpretq_s8_s64(if OCTET == 0 { vzip1q_s64(x, y) } else { vzip2q_s64(x, y) }) };
            *one = [self.smmla(one[0], a, x), self.smmla(one[1], b, x)];
            *two = [self.smmla(two[0], c, x), self.smmla(two[1], d, x)];
        }
        sums
    }

    /// Adds the products of two rows of `w` with two rows of `x`, eight codes each. Lane 2 r + t is row r times row t.
    #[inline(always)]
    fn smmla(self, mut acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // The intrinsic is not stable yet.
        // SAFETY: `self` proves the instruction; it only computes.
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
}

impl Instruction<INPUTS> for I8mm {
    #[target_feature(enable = "neon,dotprod,i8mm")]
    unsafe fn sweep_32<const T: usize, const MINS: bool>(
        self,
        panel: &Panel<INPUTS>,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    ) {
        // SAFETY: the caller makes the same promises.
        unsafe { sweeps::sweep_32::<Self, INPUTS, T, MINS>(self, panel, blocks, x, acc) }
    }

    #[target_feature(enable = "neon,dotprod,i8mm")]
    unsafe fn sweep_256<const SUBS: usize, const T: usize, const MINS: bool>(
        self,
        panel: &Panel<INPUTS>,
        blocks: usize,
        x: [Row; T],
        acc: &mut [[f32; ROWS]; T],
    ) {
        // SAFETY: the caller makes the same promises.
        unsafe { sweeps::sweep_256::<Self, SUBS, INPUTS, T, MINS>(self, panel, blocks, x, acc) }
    }
}

impl Dots<INPUTS> for I8mm {
    #[inline(always)]
    unsafe fn dots<const T: usize>(
        self,
        mut sums: Lanes<int32x4_t, T>,
        w: *const i8,
        x: [*const i8; T],
    ) -> Lanes<int32x4_t, T> {
        // SAFETY: NEON is part of the target. The caller promises 16 codes of eight rows of weights, and of each row of
        // inputs. There is one call per octet and no loop, because the number of the octet chooses the shuffle.
        unsafe {
            let x = x.map(|x| vreinterpretq_s64_s8(vld1q_s8(x)));
            sums = self.octet::<0, T>(sums, w, x);
            self.octet::<1, T>(sums, w, x)
        }
    }
}
