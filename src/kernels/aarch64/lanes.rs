//! The 16 f32 lanes in four registers of 128 bits.

use core::arch::aarch64::*;
use core::arch::asm;

use half::f16;

use crate::kernels::generic::{LANES, Lanes};
use crate::num::{SETTLED_MIN, WEIGHT_MIN};

/// Four registers of NEON. NEON is part of the target: this is compiled only where every function may use it, so there
/// is nothing to prove.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Neon([float32x4_t; 4]);

impl Neon {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(float32x4_t, float32x4_t) -> float32x4_t) -> Self {
        let ([a, b, c, d], [e, f_, g, h]) = (self.0, other.0);
        Self([f(a, e), f(b, f_), f(c, g), f(d, h)])
    }
}

impl Lanes for Neon {
    type Proof = ();

    const QUERIES: usize = 4;
    const LOADS_F16: bool = true;
    const FUSED: bool = true;

    #[inline(always)]
    fn splat((): (), x: f32) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self([unsafe { vdupq_n_f32(x) }; 4])
    }

    #[inline(always)]
    unsafe fn load((): (), from: *const f32) -> Self {
        // SAFETY: NEON is part of the target; the caller promises 16 elements to read.
        unsafe { Self([vld1q_f32(from), vld1q_f32(from.add(4)), vld1q_f32(from.add(8)), vld1q_f32(from.add(12))]) }
    }

    #[inline(always)]
    unsafe fn load_f16((): (), from: *const f16) -> Self {
        // SAFETY: NEON is part of the target; the caller promises 16 elements to read.
        unsafe {
            let (low, high) = (vld1q_u16(from.cast()), vld1q_u16(from.add(8).cast()));
            let halves = [vget_low_u16(low), vget_high_u16(low), vget_low_u16(high), vget_high_u16(high)];
            Self(halves.map(value))
        }
    }

    #[inline(always)]
    unsafe fn load_i8((): (), from: *const i8) -> Self {
        // SAFETY: NEON is part of the target; the caller promises 16 elements to read.
        Self(unsafe { codes(vld1q_s8(from)) })
    }

    #[inline(always)]
    unsafe fn load_i4((): (), from: *const u8, upper: bool) -> Self {
        // SAFETY: NEON is part of the target; the caller promises 16 bytes to read.
        unsafe {
            let bytes = vld1q_s8(from.cast());
            let bytes = if upper { bytes } else { vshlq_n_s8::<4>(bytes) };
            Self(codes(vshrq_n_s8::<4>(bytes)))
        }
    }

    #[inline(always)]
    unsafe fn load_bf16((): (), from: *const u16) -> Self {
        // SAFETY: NEON is part of the target; the caller promises 16 elements to read.
        unsafe {
            let (low, high) = (vld1q_u16(from), vld1q_u16(from.add(8)));
            let halves = [vget_low_u16(low), vget_high_u16(low), vget_low_u16(high), vget_high_u16(high)];
            Self(halves.map(|bits| vreinterpretq_f32_u32(vshll_n_u16::<16>(bits))))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        let [a, b, c, d] = self.0;
        // SAFETY: NEON is part of the target; the caller promises room for 16 elements.
        unsafe {
            vst1q_f32(to, a);
            vst1q_f32(to.add(4), b);
            vst1q_f32(to.add(8), c);
            vst1q_f32(to.add(12), d);
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        self.zip(other, |a, b| unsafe { vaddq_f32(a, b) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        self.zip(other, |a, b| unsafe { vsubq_f32(a, b) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        self.zip(other, |a, b| unsafe { vmulq_f32(a, b) })
    }

    #[inline(always)]
    fn add_exact(self, a: Self, b: Self) -> Self {
        let ([c, d, e, f], [g, h, i, j], [k, l, m, n]) = (self.0, a.0, b.0);
        let add = |c, g, k| {
            // SAFETY: NEON is part of the target, see `Neon`.
            unsafe { vfmaq_f32(c, g, k) }
        };
        Self([add(c, g, k), add(d, h, l), add(e, i, m), add(f, j, n)])
    }

    #[inline(always)]
    fn settle(self, (): ()) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(self.0.map(|x| unsafe {
            let small = vcagtq_f32(vdupq_n_f32(SETTLED_MIN), x);
            vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(x), small))
        }))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // The maximum instruction is not used, because it gives NaN if one operand is NaN.
        // SAFETY: NEON is part of the target, see `Neon`.
        self.zip(other, |a, b| unsafe { vbslq_f32(vcgtq_f32(a, b), a, b) })
    }

    #[inline(always)]
    fn first(self, count: usize, others: Self) -> Self {
        const INDICES: [[u32; 4]; 4] = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]];
        let ([a, b, c, d], [e, f, g, h], [i, j, k, l]) = (self.0, others.0, INDICES);
        // SAFETY: NEON is part of the target; the arrays have the four elements that are read.
        unsafe {
            let count = vdupq_n_u32(count.min(LANES) as u32);
            let choose = |a, b, i: [u32; 4]| vbslq_f32(vcltq_u32(vld1q_u32(i.as_ptr()), count), a, b);
            Self([choose(a, e, i), choose(b, f, j), choose(c, g, k), choose(d, h, l)])
        }
    }

    #[inline(always)]
    fn weight(self) -> Self {
        // SAFETY: NEON is part of the target, see `Neon`.
        Self(self.0.map(|x| unsafe { weight(x) }))
    }

    #[inline(always)]
    fn tree(self) -> f32 {
        let [a, b, c, d] = self.0;
        // SAFETY: NEON is part of the target, see `Neon`.
        unsafe {
            let four = vaddq_f32(vaddq_f32(a, c), vaddq_f32(b, d));
            let two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
            vget_lane_f32::<0>(two) + vget_lane_f32::<1>(two)
        }
    }

    #[inline(always)]
    fn prefetch<T>(address: *const T) {
        // SAFETY: every AArch64 has the instruction, which takes any address and changes nothing.
        unsafe { asm!("prfm pldl1keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) };
    }

    #[inline(always)]
    fn prefetch_later<T>(address: *const T) {
        // SAFETY: every AArch64 has the instruction, which takes any address and changes nothing.
        unsafe { asm!("prfm pldl2keep, [{}]", in(reg) address, options(nostack, preserves_flags, readonly)) };
    }
}

/// Returns 16 signed bytes as f32.
#[inline]
#[target_feature(enable = "neon")]
fn codes(bytes: int8x16_t) -> [float32x4_t; 4] {
    let (low, high) = (vmovl_s8(vget_low_s8(bytes)), vmovl_s8(vget_high_s8(bytes)));
    [vget_low_s16(low), vget_high_s16(low), vget_low_s16(high), vget_high_s16(high)]
        .map(|four| vcvtq_f32_s32(vmovl_s16(four)))
}

/// Returns four halves as f32. The oldest supported Rust does not have the intrinsic of this instruction.
#[inline(always)]
fn value(bits: uint16x4_t) -> float32x4_t {
    let values;
    // SAFETY: NEON has the instruction and is part of the target; it only computes.
    unsafe {
        asm!("fcvtl {:v}.4s, {:v}.4h", lateout(vreg) values, in(vreg) bits, options(pure, nomem, nostack, preserves_flags));
    }
    values
}

/// Returns [`crate::num::weight`] of each lane, operation by operation.
#[inline]
#[target_feature(enable = "neon")]
fn weight(x: float32x4_t) -> float32x4_t {
    let constant = |x| vdupq_n_f32(x);
    let magic = constant(12_582_912.0);
    let shifted = vaddq_f32(vmulq_f32(x, constant(core::f32::consts::LOG2_E)), magic);
    let n = vsubq_f32(shifted, magic);
    let r = vsubq_f32(x, vmulq_f32(n, constant(0.693_359_4)));
    let r = vsubq_f32(r, vmulq_f32(n, constant(-2.121_944_4e-4)));
    let mut p = constant(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = vaddq_f32(vmulq_f32(p, r), constant(coefficient));
    }
    let y = vaddq_f32(vmulq_f32(p, vmulq_f32(r, r)), r);
    let y = vaddq_f32(y, constant(1.0));
    // This is (shifted - magic + 127) << 23: the shift drops the bits of magic.
    let exponent = vaddq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(127));
    let result = vmulq_f32(y, vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent)));
    let result = vbslq_f32(vcgtq_f32(x, constant(88.0)), constant(f32::INFINITY), result);
    vbslq_f32(vcltq_f32(x, constant(WEIGHT_MIN)), constant(0.0), result)
}
