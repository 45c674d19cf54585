//! The 16 f32 lanes in four registers of 128 bits.

use core::arch::wasm32::*;

use half::f16;

use crate::kernels::generic::{LANES, Lanes};
use crate::num::{SETTLED_MIN, WEIGHT_MIN};

/// Four registers. The instructions are part of the target, so there is nothing to prove.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Simd128([v128; 4]);

impl Simd128 {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(v128, v128) -> v128) -> Self {
        let ([a, b, c, d], [e, g, h, i]) = (self.0, other.0);
        Self([f(a, e), f(b, g), f(c, h), f(d, i)])
    }
}

impl Lanes for Simd128 {
    type Proof = ();

    const QUERIES: usize = 2;
    const LOADS_F16: bool = false;
    const FUSED: bool = false;

    #[inline(always)]
    fn splat((): (), x: f32) -> Self {
        Self([f32x4_splat(x); 4])
    }

    #[inline(always)]
    unsafe fn load((): (), from: *const f32) -> Self {
        let from = from.cast::<v128>();
        // SAFETY: the caller promises 16 elements to read; no alignment is needed.
        unsafe { Self([v128_load(from), v128_load(from.add(1)), v128_load(from.add(2)), v128_load(from.add(3))]) }
    }

    #[inline(always)]
    unsafe fn load_f16((): (), from: *const f16) -> Self {
        // SAFETY: the caller promises 16 elements to read; no alignment is needed.
        Self(unsafe { load_u16(from.cast()) }.map(halves))
    }

    #[inline(always)]
    unsafe fn load_i8((): (), from: *const i8) -> Self {
        // SAFETY: the caller promises 16 bytes to read; no alignment is needed.
        Self(codes(unsafe { v128_load(from.cast()) }))
    }

    #[inline(always)]
    unsafe fn load_i4((): (), from: *const u8, upper: bool) -> Self {
        // SAFETY: the caller promises 16 bytes to read; no alignment is needed.
        let bytes = unsafe { v128_load(from.cast()) };
        let bytes = if upper { bytes } else { i8x16_shl(bytes, 4) };
        Self(codes(i8x16_shr(bytes, 4)))
    }

    #[inline(always)]
    unsafe fn load_bf16((): (), from: *const u16) -> Self {
        // SAFETY: the caller promises 16 elements to read; no alignment is needed.
        Self(unsafe { load_u16(from) }.map(|bits| u32x4_shl(bits, 16)))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        let ([a, b, c, d], to) = (self.0, to.cast::<v128>());
        // SAFETY: the caller promises room for 16 elements; no alignment is needed.
        unsafe {
            v128_store(to, a);
            v128_store(to.add(1), b);
            v128_store(to.add(2), c);
            v128_store(to.add(3), d);
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_add(a, b))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_sub(a, b))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| f32x4_mul(a, b))
    }

    #[inline(always)]
    fn settle(self, (): ()) -> Self {
        Self(self.0.map(|x| v128_andnot(x, f32x4_lt(f32x4_abs(x), f32x4_splat(SETTLED_MIN)))))
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // pmax(b, a) is `if b < a { a } else { b }`.
        self.zip(other, |a, b| f32x4_pmax(b, a))
    }

    #[inline(always)]
    fn first(self, count: usize, others: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, others.0);
        let count = u32x4_splat(count.min(LANES) as u32);
        let choose = |a, b, indices| v128_bitselect(a, b, u32x4_lt(indices, count));
        Self([
            choose(a, e, u32x4(0, 1, 2, 3)),
            choose(b, f, u32x4(4, 5, 6, 7)),
            choose(c, g, u32x4(8, 9, 10, 11)),
            choose(d, h, u32x4(12, 13, 14, 15)),
        ])
    }

    #[inline(always)]
    fn weight(self) -> Self {
        Self(self.0.map(weight))
    }

    #[inline(always)]
    fn tree(self) -> f32 {
        let [a, b, c, d] = self.0;
        let four = f32x4_add(f32x4_add(a, c), f32x4_add(b, d));
        let two = f32x4_add(four, i32x4_shuffle::<2, 3, 2, 3>(four, four));
        f32x4_extract_lane::<0>(two) + f32x4_extract_lane::<1>(two)
    }

    #[inline(always)]
    fn prefetch<T>(_address: *const T) {}

    #[inline(always)]
    fn prefetch_later<T>(_address: *const T) {}
}

/// Returns 16 signed bytes as f32.
#[inline(always)]
fn codes(bytes: v128) -> [v128; 4] {
    let (low, high) = (i16x8_extend_low_i8x16(bytes), i16x8_extend_high_i8x16(bytes));
    [
        i32x4_extend_low_i16x8(low),
        i32x4_extend_high_i16x8(low),
        i32x4_extend_low_i16x8(high),
        i32x4_extend_high_i16x8(high),
    ]
    .map(|codes| f32x4_convert_i32x4(codes))
}

/// Loads 16 numbers, each into 32 bits.
///
/// # Safety
/// 16 elements can be read at `from`, which needs no alignment.
#[inline(always)]
unsafe fn load_u16(from: *const u16) -> [v128; 4] {
    let from = from.cast::<v128>();
    // SAFETY: the caller promises 16 elements to read, the first 8 and the last 8 of them.
    let (low, high) = unsafe { (v128_load(from), v128_load(from.add(1))) };
    [
        u32x4_extend_low_u16x8(low),
        u32x4_extend_high_u16x8(low),
        u32x4_extend_low_u16x8(high),
        u32x4_extend_high_u16x8(high),
    ]
}

/// Returns [`crate::num::f16_to_f32`] of the lower half of each lane, operation by operation.
#[inline(always)]
fn halves(bits: v128) -> v128 {
    let magnitude = u32x4_shl(v128_and(bits, u32x4_splat(0x7fff)), 13);
    let special = v128_and(u32x4_ge(magnitude, u32x4_splat(0x0f80_0000)), u32x4_splat(0x7f80_0000));
    let normal = v128_or(u32x4_add(magnitude, u32x4_splat(112 << 23)), special);
    let subnormal = f32x4_sub(u32x4_add(magnitude, u32x4_splat(113 << 23)), u32x4_splat(113 << 23));
    let value = v128_bitselect(subnormal, normal, u32x4_lt(magnitude, u32x4_splat(1 << 23)));
    v128_or(value, u32x4_shl(v128_and(bits, u32x4_splat(0x8000)), 16))
}

/// Returns [`crate::num::weight`] of each lane, operation by operation.
#[inline(always)]
fn weight(x: v128) -> v128 {
    let magic = f32x4_splat(12_582_912.0);
    let shifted = f32x4_add(f32x4_mul(x, f32x4_splat(core::f32::consts::LOG2_E)), magic);
    let n = f32x4_sub(shifted, magic);
    let r = f32x4_sub(x, f32x4_mul(n, f32x4_splat(0.693_359_4)));
    let r = f32x4_sub(r, f32x4_mul(n, f32x4_splat(-2.121_944_4e-4)));
    let mut p = f32x4_splat(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = f32x4_add(f32x4_mul(p, r), f32x4_splat(coefficient));
    }
    let y = f32x4_add(f32x4_mul(p, f32x4_mul(r, r)), r);
    let y = f32x4_add(y, f32x4_splat(1.0));
    // This is (shifted - magic + 127) << 23: the shift drops the bits of magic.
    let exponent = i32x4_add(shifted, i32x4_splat(127));
    let result = f32x4_mul(y, i32x4_shl(exponent, 23));
    let result = v128_bitselect(f32x4_splat(f32::INFINITY), result, f32x4_gt(x, f32x4_splat(88.0)));
    v128_andnot(result, f32x4_lt(x, f32x4_splat(WEIGHT_MIN)))
}
