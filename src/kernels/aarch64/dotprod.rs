//! The level `dotprod`: NEON with the dot product of bytes (FEAT_DotProd: ARMv8.4, and most cores of ARMv8.2).

use core::arch::aarch64::*;
use core::arch::asm;

use super::dotprod_row;
use super::panels::{self, Instruction, Panel, ROWS};
use super::sweeps::{self, Dots, Lanes};
use crate::kernels::generic::{self, Family, Inputs, Row};
use crate::tensor::TensorView;

pub(in crate::kernels) use super::dotprod_row::products_scratch;
// No other kernel uses the dot product of bytes.
pub(in crate::kernels) use super::neon::{
    attend, attend_scratch, combine_tile, convolve, gate, norm, norm_in_place, normalize, quantize_row, settle_row,
    soft_cap, store, update_state,
};

/// Number of rows of inputs whose outputs share a register.
const INPUTS: usize = 1;

type Of32<B, const PARTS: usize> = panels::Of32<Dotprod, B, PARTS, INPUTS>;
type Of256<B, const SUBS: usize> = panels::Of256<Dotprod, B, SUBS, INPUTS>;

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "neon,dotprod")]
pub(in crate::kernels) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), generic::Refused> {
    if inputs.rows() == 1 {
        return dotprod_row::products(weights, inputs, out, scratch);
    }
    // Floats, and NVFP4 with its parts of 16, have only the kernel for one row of inputs.
    generic::by_format!(
        weights,
        inputs,
        out,
        return dotprod_row::products(weights, inputs, out, scratch),
        return dotprod_row::products(weights, inputs, out, scratch)
    )
}

#[target_feature(enable = "neon,dotprod")]
fn blocks<F: Family<ROWS, Proof = Dotprod>>(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
) -> Option<()> {
    generic::block_products::<F, _>(Dotprod::new(), weights, inputs, out)
}

/// Proof that the machine has the dot product of bytes. NEON is part of the target.
#[derive(Clone, Copy)]
pub(super) struct Dotprod(());

impl Dotprod {
    #[inline]
    #[target_feature(enable = "neon,dotprod")]
    pub(super) fn new() -> Self {
        Self(())
    }

    /// Adds the products of four columns of eight rows of weights.
    ///
    /// # Safety
    /// 16 codes of each row of weights can be read.
    #[inline(always)]
    unsafe fn group<const GROUP: usize, const T: usize>(
        self,
        mut sums: Lanes<int32x4_t, T>,
        w: *const i8,
        x: [int8x16_t; T],
    ) -> Lanes<int32x4_t, T> {
        // SAFETY: NEON is part of the target. GROUP is below 4, and the caller promises four times 32 codes.
        let [a, b] = unsafe { [vld1q_s8(w.add(GROUP * 32)), vld1q_s8(w.add(GROUP * 32 + 16))] };
        for ([low, high], x) in sums.iter_mut().zip(x) {
            *low = self.sdot::<GROUP>(*low, a, x);
            *high = self.sdot::<GROUP>(*high, b, x);
        }
        sums
    }

    /// Adds the products of four rows of `w`, four codes each, with the four codes of `x` from 4 `GROUP` on.
    #[inline(always)]
    fn sdot<const GROUP: usize>(self, mut acc: int32x4_t, w: int8x16_t, x: int8x16_t) -> int32x4_t {
        // The intrinsic is not stable yet.
        // SAFETY: `self` proves the instruction; it only computes.
        unsafe {
            asm!(
                "sdot {acc:v}.4s, {w:v}.16b, {x:v}.4b[{group}]",
                acc = inout(vreg) acc,
                w = in(vreg) w,
                x = in(vreg) x,
                group = const GROUP,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        acc
    }
}

impl Instruction<INPUTS> for Dotprod {
    #[target_feature(enable = "neon,dotprod")]
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

    #[target_feature(enable = "neon,dotprod")]
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

impl Dots<INPUTS> for Dotprod {
    #[inline(always)]
    unsafe fn dots<const T: usize>(
        self,
        mut sums: Lanes<int32x4_t, T>,
        w: *const i8,
        x: [*const i8; T],
    ) -> Lanes<int32x4_t, T> {
        // SAFETY: NEON is part of the target. The caller promises 16 codes of eight rows of weights, and of each row of
        // inputs. There is one call per group and no loop, because the number of the group is part of the instruction.
        unsafe {
            let x = x.map(|x| vld1q_s8(x));
            sums = self.group::<0, T>(sums, w, x);
            sums = self.group::<1, T>(sums, w, x);
            sums = self.group::<2, T>(sums, w, x);
            self.group::<3, T>(sums, w, x)
        }
    }
}
