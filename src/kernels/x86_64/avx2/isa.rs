//! The products of bytes, in which the two levels with 256-bit registers differ.

use core::arch::x86_64::*;

/// The multiply instructions of a level. A value proves that the machine has the instructions of the level, at least
/// AVX2, FMA and F16C: see [`Lanes`](crate::kernels::generic::Lanes).
///
/// The `#[inline(always)]` functions of this folder are bodies for the `#[target_feature]` functions of a level. The
/// functions that take no such value are unsafe.
///
/// # Safety
/// A value exists only where the machine has AVX2, FMA and F16C.
pub(in crate::kernels::x86_64) unsafe trait Isa: Copy {
    /// Whether [`Isa::dot_u8`] takes any u8: `vpdpbusd` does not saturate.
    const VNNI: bool;

    /// Returns `acc`, 8 lanes of i32, plus the sums of 4 products of `u` (u8) and `x` (i8, -127 to 127) each.
    ///
    /// Without VNNI, `u` must be at most 128, because pairs are summed in 16 bits: 2 * 128 * 127 = 32,512 < 2^15.
    fn dot_u8(self, acc: __m256i, u: __m256i, x: __m256i) -> __m256i;

    /// Returns `acc`, 8 lanes of i32, plus the sums of 2 products of i16 each. `vpdpwssd` does the same in one
    /// instruction, but waits longer for the sum before it.
    #[inline(always)]
    fn dot_i16(self, acc: __m256i, a: __m256i, b: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2: a value is made by `new` of its type alone, which needs it.
        unsafe { _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)) }
    }
}

/// Proof that the machine has AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Avx2(());

/// Proof that the machine has AVX-VNNI, AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(in crate::kernels::x86_64) struct AvxVnni(());

impl Avx2 {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(in crate::kernels::x86_64) fn new() -> Self {
        Self(())
    }
}

impl AvxVnni {
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
    pub(in crate::kernels::x86_64) fn new() -> Self {
        Self(())
    }
}

// SAFETY: `new`, the only way to a value, is compiled with AVX2, FMA and F16C.
unsafe impl Isa for Avx2 {
    const VNNI: bool = false;

    #[inline(always)]
    fn dot_u8(self, acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX2: it is made by `new` alone.
        let (pairs, ones) = unsafe { (_mm256_maddubs_epi16(u, x), _mm256_set1_epi16(1)) };
        self.dot_i16(acc, pairs, ones)
    }
}

// SAFETY: `new`, the only way to a value, is compiled with AVX2, FMA and F16C, too.
unsafe impl Isa for AvxVnni {
    const VNNI: bool = true;

    #[inline(always)]
    fn dot_u8(self, acc: __m256i, u: __m256i, x: __m256i) -> __m256i {
        // SAFETY: `self` proves AVX-VNNI: it is made by `new` alone.
        unsafe { _mm256_dpbusd_avx_epi32(acc, u, x) }
    }
}
