//! The formats without kernels of their own: unpacked by the code of the plain kernel, and multiplied 16 codes at a time.

use core::arch::x86_64::*;

use super::isa::Avx2;
use crate::kernels::generic::{self, Family, Floats, Inputs, OfParts, Quad, Refused};
use crate::quant::{by_dtype, iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_xxs, nvfp4, tq1_0};
use crate::tensor::TensorView;

type Of16<B, const PARTS: usize> = OfParts<Sums, B, 16, PARTS>;
type Of256<B, const SUBS: usize> = generic::Of256<Sums, B, SUBS>;

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,fma,f16c")]
pub(in crate::kernels::x86_64) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
) -> Result<(), Refused> {
    let done = by_dtype!(weights.dtype(), {
        IQ2_XXS => blocks::<Of256<iq2_xxs::Block, 8>>(weights, inputs, out),
        IQ2_XS => blocks::<Of256<iq2_xs::Block, 16>>(weights, inputs, out),
        IQ2_S => blocks::<Of256<iq2_s::Block, 16>>(weights, inputs, out),
        IQ3_XXS => blocks::<Of256<iq3_xxs::Block, 8>>(weights, inputs, out),
        IQ1_S => blocks::<Of256<iq1_s::Block, 8>>(weights, inputs, out),
        IQ1_M => blocks::<Of256<iq1_m::Block, 16>>(weights, inputs, out),
        TQ1_0 => blocks::<Of256<tq1_0::Block, 8>>(weights, inputs, out),
        NVFP4 => blocks::<Of16<nvfp4::Block, 4>>(weights, inputs, out),
        _ => return Err(Refused::NoKernel),
    });
    done.ok_or(Refused::Sizes)
}

// A function for each format, so that a profile tells them apart.
#[inline(never)]
#[target_feature(enable = "avx2,fma,f16c")]
fn blocks<F: Family<4, Proof = Avx2>>(weights: TensorView<'_>, inputs: &Inputs<'_>, out: &mut [f32]) -> Option<()> {
    generic::block_products::<F, _>(Avx2::new(), weights, inputs, out)
}

/// There is none without an [`Avx2`], so where there is one the machine has AVX2.
#[derive(Clone, Copy)]
struct Sums(Avx2, __m128i);

impl Quad for Sums {
    type Proof = Avx2;

    type Codes = __m128i;
    type Floats = Four;

    const MOST: [usize; 2] = [2, 2];

    #[inline(always)]
    fn zero(proof: Avx2) -> Self {
        // SAFETY: SSE2 is part of every x86-64, and this only computes on registers.
        Self(proof, unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(_: Avx2, from: *const i8) -> __m128i {
        // SAFETY: SSE2 is part of every x86-64; the caller promises 16 elements to read.
        unsafe { _mm_loadu_si128(from.cast()) }
    }

    #[inline(always)]
    fn dot(self, w: __m128i, x: __m128i) -> Self {
        // |w| <= 128 and |x| <= 127: two products are at most 32,512.
        // SAFETY: `self` proves AVX2, which every machine with it has SSSE3 beside.
        unsafe {
            let pairs = _mm_maddubs_epi16(_mm_abs_epi8(w), _mm_sign_epi8(x, w));
            Self(self.0, _mm_add_epi32(self.1, _mm_madd_epi16(pairs, _mm_set1_epi16(1))))
        }
    }

    #[inline(always)]
    fn splat(proof: Avx2, x: i32) -> Self {
        // SAFETY: SSE2 is part of every x86-64, and this only computes on registers.
        Self(proof, unsafe { _mm_set1_epi32(x) })
    }

    #[inline(always)]
    fn ints(proof: Avx2, from: &[i32; 4]) -> Self {
        // SAFETY: SSE2 is part of every x86-64; the array has the four elements that are read.
        Self(proof, unsafe { _mm_loadu_si128(from.as_ptr().cast()) })
    }

    #[inline(always)]
    fn mul_add(self, other: Self, by: Self) -> Self {
        // SAFETY: `self` proves AVX2, which every machine with it has SSE4.1 beside.
        Self(self.0, unsafe { _mm_add_epi32(self.1, _mm_mullo_epi32(other.1, by.1)) })
    }

    #[inline(always)]
    fn sums(rows: [Self; 4]) -> Self {
        let [a, b, c, d] = rows;
        // SAFETY: `a` proves AVX2, which every machine with it has SSSE3 beside.
        Self(a.0, unsafe { _mm_hadd_epi32(_mm_hadd_epi32(a.1, b.1), _mm_hadd_epi32(c.1, d.1)) })
    }

    #[inline(always)]
    fn floats(self) -> Four {
        // SAFETY: SSE2 is part of every x86-64, and this only computes on registers.
        Four(unsafe { _mm_cvtepi32_ps(self.1) })
    }
}

/// Four lanes of f32.
#[derive(Clone, Copy)]
struct Four(__m128);

impl Floats for Four {
    #[inline(always)]
    fn splat(x: f32) -> Self {
        // SAFETY: SSE is part of every x86-64, and this only computes on registers.
        Self(unsafe { _mm_set1_ps(x) })
    }

    #[inline(always)]
    fn load(from: &[f32; 4]) -> Self {
        // SAFETY: SSE is part of every x86-64; the array has the four elements that are read.
        Self(unsafe { _mm_loadu_ps(from.as_ptr()) })
    }

    #[inline(always)]
    fn store(self) -> [f32; 4] {
        let mut to = [0.0; 4];
        // SAFETY: SSE is part of every x86-64; the array has room for the four lanes.
        unsafe { _mm_storeu_ps(to.as_mut_ptr(), self.0) };
        to
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: SSE is part of every x86-64, and this only computes on registers.
        Self(unsafe { _mm_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: SSE is part of every x86-64, and this only computes on registers.
        Self(unsafe { _mm_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: SSE is part of every x86-64, and this only computes on registers.
        Self(unsafe { _mm_mul_ps(self.0, other.0) })
    }
}
