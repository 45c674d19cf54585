//! What the two levels with 256-bit registers do differently: products of bytes and of 16-bit integers.

use core::arch::x86_64::*;

/// The multiply instructions of a level.
///
/// All functions of this trait, and all `#[inline(always)]` functions of this folder, are bodies for the
/// `#[target_feature]` functions of a level: their caller has the instructions of the level, at least AVX2
/// and F16C.
pub(in crate::kernels::x86_64) trait Isa {
    /// Whether [`Isa::dot_u8`] takes any u8: `vpdpbusd` does not saturate.
    const VNNI: bool;

    /// `acc`, 8 lanes of i32, plus the sums of 4 products of `u` (u8) and `x` (i8, -127 to 127) each.
    ///
    /// Without VNNI `u` is at most 128: pairs are summed in 16 bits, 2 * 128 * 127 = 32,512 < 2^15.
    ///
    /// # Safety
    /// The processor has the instructions of the level.
    unsafe fn dot_u8(acc: __m256i, u: __m256i, x: __m256i) -> __m256i;

    /// `acc`, 8 lanes of i32, plus the sums of 2 products of i16 each.
    ///
    /// # Safety
    /// The processor has the instructions of the level.
    unsafe fn dot_i16(acc: __m256i, a: __m256i, b: __m256i) -> __m256i;
}

/// AVX2 alone.
pub(in crate::kernels::x86_64) struct Avx2;

/// AVX2 and AVX-VNNI.
pub(in crate::kernels::x86_64) struct AvxVnni;

impl Isa for Avx2 {
    const VNNI: bool = false;

    #[inline(always)]
    unsafe fn dot_u8(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { Self::dot_i16(acc, _mm256_maddubs_epi16(u, x), _mm256_set1_epi16(1)) }
    }

    #[inline(always)]
    unsafe fn dot_i16(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)) }
    }
}

impl Isa for AvxVnni {
    const VNNI: bool = true;

    #[inline(always)]
    unsafe fn dot_u8(acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
        // SAFETY: the caller has AVX-VNNI.
        unsafe { _mm256_dpbusd_avx_epi32(acc, u, x) }
    }

    #[inline(always)]
    unsafe fn dot_i16(acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: the caller has AVX-VNNI.
        unsafe { _mm256_dpwssd_avx_epi32(acc, a, b) }
    }
}
