//! The level `simd128`: SIMD of 128 bits, without the relaxed instructions, whose results depend on the machine.

use core::arch::wasm32::*;
use core::ops::Range;

use super::lanes::Simd128;
use crate::kernels::generic::{self, Combine, Family, Floats, Inputs, Norm, Quad, Queries};
use crate::kv::{KvSource, KvTileMut};
use crate::mem::Tile;
use crate::quant::{Form, QuantizeError};
use crate::tensor::TensorView;

crate::kernels::shims::shims!(Simd128: (),);
crate::kernels::shims::quantize_shim!();
generic::level_products!(Simd128: (), Products: (),);

#[derive(Clone, Copy)]
struct Products(v128);

impl Quad for Products {
    type Proof = ();

    /// 16 codes as i16.
    type Codes = [v128; 2];
    type Floats = Four;

    const MOST: [usize; 2] = [4, 2];

    #[inline(always)]
    fn zero((): ()) -> Self {
        Self(i32x4_splat(0))
    }

    #[inline(always)]
    unsafe fn load((): (), from: *const i8) -> [v128; 2] {
        // SAFETY: the caller promises 16 elements to read, the first 8 and the last 8 of them.
        unsafe { [i16x8_load_extend_i8x8(from), i16x8_load_extend_i8x8(from.add(8))] }
    }

    #[inline(always)]
    fn dot(self, w: [v128; 2], x: [v128; 2]) -> Self {
        let ([w0, w1], [x0, x1]) = (w, x);
        Self(i32x4_add(i32x4_add(self.0, i32x4_dot_i16x8(w0, x0)), i32x4_dot_i16x8(w1, x1)))
    }

    #[inline(always)]
    fn splat((): (), x: i32) -> Self {
        Self(i32x4_splat(x))
    }

    #[inline(always)]
    fn ints((): (), from: &[i32; 4]) -> Self {
        // SAFETY: the array has the 16 bytes that are read, of any alignment.
        Self(unsafe { v128_load(from.as_ptr().cast()) })
    }

    #[inline(always)]
    fn mul_add(self, other: Self, by: Self) -> Self {
        Self(i32x4_add(self.0, i32x4_mul(other.0, by.0)))
    }

    #[inline(always)]
    fn sums(rows: [Self; 4]) -> Self {
        let [a, b, c, d] = rows.map(|row| row.0);
        // Sums of lanes 0 and 2, and of lanes 1 and 3, of a and of b. Then the same for c and d.
        let ab = i32x4_add(i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b));
        let cd = i32x4_add(i32x4_shuffle::<0, 4, 1, 5>(c, d), i32x4_shuffle::<2, 6, 3, 7>(c, d));
        Self(i32x4_add(i32x4_shuffle::<0, 1, 4, 5>(ab, cd), i32x4_shuffle::<2, 3, 6, 7>(ab, cd)))
    }

    #[inline(always)]
    fn floats(self) -> Four {
        Four(f32x4_convert_i32x4(self.0))
    }
}

/// Four lanes of f32.
#[derive(Clone, Copy)]
struct Four(v128);

impl Floats for Four {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        Self(f32x4_splat(x))
    }

    #[inline(always)]
    fn load(from: &[f32; 4]) -> Self {
        // SAFETY: the array has the 16 bytes that are read, of any alignment.
        Self(unsafe { v128_load(from.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self) -> [f32; 4] {
        let mut to = [0.0; 4];
        // SAFETY: the array has room for the 16 bytes, of any alignment.
        unsafe { v128_store(to.as_mut_ptr().cast(), self.0) };
        to
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(f32x4_add(self.0, other.0))
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(f32x4_sub(self.0, other.0))
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self(f32x4_mul(self.0, other.0))
    }
}
