//! 16 lanes in two registers.

use core::arch::x86_64::*;

use half::f16;

use super::isa::Avx2;
use crate::kernels::generic::{Columns, LANES, Lanes};
use crate::num::{SETTLED_MIN, WEIGHT_MIN};

/// 16 lanes of f32. It is made only with an [`Avx2`], so a value proves that the machine has AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Ymm2(__m256, __m256);

impl Lanes for Ymm2 {
    type Proof = Avx2;

    const QUERIES: usize = 4;
    const LOADS_F16: bool = true;
    const FUSED: bool = true;

    #[inline(always)]
    fn splat(_: Avx2, x: f32) -> Self {
        // SAFETY: the argument proves AVX and AVX2.
        let x = unsafe { _mm256_set1_ps(x) };
        Self(x, x)
    }

    #[inline(always)]
    unsafe fn load(_: Avx2, from: *const f32) -> Self {
        // SAFETY: the argument proves AVX; the caller promises 16 elements to read.
        unsafe { Self(_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))) }
    }

    #[inline(always)]
    unsafe fn load_f16(_: Avx2, from: *const f16) -> Self {
        // SAFETY: the argument proves F16C; the caller promises 16 elements to read.
        unsafe {
            let (low, high) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(8).cast()));
            Self(_mm256_cvtph_ps(low), _mm256_cvtph_ps(high))
        }
    }

    #[inline(always)]
    unsafe fn load_i8(_: Avx2, from: *const i8) -> Self {
        // SAFETY: the argument proves AVX2; the caller promises 16 elements to read.
        unsafe {
            let (low, high) = (_mm_loadl_epi64(from.cast()), _mm_loadl_epi64(from.add(8).cast()));
            Self(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(low)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(high)))
        }
    }

    #[inline(always)]
    unsafe fn load_i4(_: Avx2, from: *const u8, upper: bool) -> Self {
        // SAFETY: the argument proves AVX2; the caller promises 16 bytes to read.
        unsafe {
            let (low, high) = (_mm_loadl_epi64(from.cast()), _mm_loadl_epi64(from.add(8).cast()));
            Self(half_codes(low, upper), half_codes(high, upper))
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(_: Avx2, from: *const u16) -> Self {
        // SAFETY: the argument proves AVX2; the caller promises 16 elements to read.
        unsafe {
            let (low, high) = (_mm_loadu_si128(from.cast()), _mm_loadu_si128(from.add(8).cast()));
            Self(upper_halves(low), upper_halves(high))
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: `self` proves AVX; the caller promises room for 16 elements.
        unsafe {
            _mm256_storeu_ps(to, self.0);
            _mm256_storeu_ps(to.add(8), self.1);
        }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX, see `Ymm2`.
        unsafe { Self(_mm256_add_ps(self.0, other.0), _mm256_add_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX, see `Ymm2`.
        unsafe { Self(_mm256_sub_ps(self.0, other.0), _mm256_sub_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX, see `Ymm2`.
        unsafe { Self(_mm256_mul_ps(self.0, other.0), _mm256_mul_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn add_exact(self, a: Self, b: Self) -> Self {
        // SAFETY: `self` proves FMA, see `Ymm2`.
        unsafe { Self(_mm256_fmadd_ps(a.0, b.0, self.0), _mm256_fmadd_ps(a.1, b.1, self.1)) }
    }

    /// Adds to the lower halves of the lanes first, and then to the upper ones: twice as many rows fit the registers.
    #[inline(always)]
    unsafe fn add_columns<const R: usize, const XS: usize, const EXACT: bool>(
        _: Avx2,
        lanes: &mut [[Self; R]; XS],
        columns: Columns,
    ) {
        for half in 0..2 {
            let columns = columns.skip(8 * half);
            // SAFETY: the argument proves the instructions; the caller promises the columns.
            unsafe { add_to_halves::<R, XS, EXACT>(lanes, half, columns) };
        }
    }

    #[inline(always)]
    fn settle(self, _: Avx2) -> Self {
        // SAFETY: the argument proves AVX and AVX2.
        unsafe { Self(settle(self.0), settle(self.1)) }
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // The instruction gives its second operand where one of them is NaN.
        // SAFETY: `self` proves AVX, see `Ymm2`.
        unsafe { Self(_mm256_max_ps(self.0, other.0), _mm256_max_ps(self.1, other.1)) }
    }

    #[inline(always)]
    fn first(self, count: usize, others: Self) -> Self {
        // SAFETY: `self` proves AVX2, see `Ymm2`.
        unsafe {
            let count = _mm256_set1_epi32(count.min(16) as i32);
            let low = _mm256_cmpgt_epi32(count, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            let high = _mm256_cmpgt_epi32(count, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15));
            let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
            Self(_mm256_blendv_ps(others.0, self.0, low), _mm256_blendv_ps(others.1, self.1, high))
        }
    }

    #[inline(always)]
    fn weight(self) -> Self {
        // SAFETY: `self` proves AVX2, see `Ymm2`.
        unsafe { Self(weight(self.0), weight(self.1)) }
    }

    #[inline(always)]
    fn tree(self) -> f32 {
        // SAFETY: `self` proves AVX2, see `Ymm2`.
        unsafe { tree8(_mm256_add_ps(self.0, self.1)) }
    }

    #[inline(always)]
    fn prefetch<T>(address: *const T) {
        // SAFETY: SSE is part of every x86-64, and a prefetch may have any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }

    #[inline(always)]
    fn prefetch_later<T>(address: *const T) {
        // SAFETY: SSE is part of every x86-64, and a prefetch may have any address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) };
    }
}

/// Returns the sum of 8 lanes as the last three levels of [`crate::num::tree16`].
#[inline]
#[target_feature(enable = "avx2")]
pub(in crate::kernels::x86_64) fn tree8(lanes: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn upper_halves(bits: __m128i) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(bits)))
}

/// Returns the upper or the lower halves of 8 bytes, in two's complement, as f32.
#[inline]
#[target_feature(enable = "avx2")]
fn half_codes(bytes: __m128i, upper: bool) -> __m256 {
    let bytes = _mm256_cvtepi8_epi32(bytes);
    _mm256_cvtepi32_ps(if upper {
        _mm256_srai_epi32::<4>(bytes)
    } else {
        _mm256_srai_epi32::<28>(_mm256_slli_epi32::<28>(bytes))
    })
}

/// [`crate::num::settle`] of each lane.
#[inline]
#[target_feature(enable = "avx2")]
fn settle(x: __m256) -> __m256 {
    let magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0), x);
    _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(magnitude, _mm256_set1_ps(SETTLED_MIN)), x)
}

/// [`crate::num::weight`], operation by operation.
#[inline]
#[target_feature(enable = "avx2")]
fn weight(x: __m256) -> __m256 {
    let magic = _mm256_set1_ps(12_582_912.0);
    let shifted = _mm256_add_ps(_mm256_mul_ps(x, _mm256_set1_ps(core::f32::consts::LOG2_E)), magic);
    let n = _mm256_sub_ps(shifted, magic);
    let r = _mm256_sub_ps(x, _mm256_mul_ps(n, _mm256_set1_ps(0.693_359_4)));
    let r = _mm256_sub_ps(r, _mm256_mul_ps(n, _mm256_set1_ps(-2.121_944_4e-4)));
    let mut p = _mm256_set1_ps(1.987_569_1e-4);
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = _mm256_add_ps(_mm256_mul_ps(p, r), _mm256_set1_ps(coefficient));
    }
    let y = _mm256_add_ps(_mm256_mul_ps(p, _mm256_mul_ps(r, r)), r);
    let y = _mm256_add_ps(y, _mm256_set1_ps(1.0));
    // (shifted - magic + 127) << 23: the shift drops the bits of magic.
    let exponent = _mm256_add_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32(127));
    let result = _mm256_mul_ps(y, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)));
    let large = _mm256_cmp_ps::<_CMP_GT_OQ>(x, _mm256_set1_ps(88.0));
    let result = _mm256_blendv_ps(result, _mm256_set1_ps(f32::INFINITY), large);
    _mm256_andnot_ps(_mm256_cmp_ps::<_CMP_LT_OQ>(x, _mm256_set1_ps(WEIGHT_MIN)), result)
}

/// Adds the products of 8 of each 16 columns to the lower halves of the lanes, or to the upper ones if `half` is 1.
///
/// # Safety
/// The processor has FMA; as [`Lanes::add_columns`], for 8 of each 16 columns.
#[inline(always)]
// Loops index fixed arrays of constant length, so no bounds check remains.
#[allow(clippy::indexing_slicing, clippy::needless_range_loop)]
unsafe fn add_to_halves<const R: usize, const XS: usize, const EXACT: bool>(
    lanes: &mut [[Ymm2; R]; XS],
    half: usize,
    columns: Columns,
) {
    let Columns { steps, mut panel, panel_stride, mut x, x_stride } = columns;
    // SAFETY: the caller promises FMA, and 8 columns of R rows of the panel and of XS rows of inputs, `steps` times.
    unsafe {
        let mut sums = [[_mm256_setzero_ps(); R]; XS];
        for i in 0..XS {
            for r in 0..R {
                sums[i][r] = if half == 0 { lanes[i][r].0 } else { lanes[i][r].1 };
            }
        }
        for _ in 0..steps {
            let mut inputs = [_mm256_setzero_ps(); XS];
            for i in 0..XS {
                inputs[i] = _mm256_loadu_ps(x.add(i * x_stride));
            }
            for r in 0..R {
                let weights = _mm256_loadu_ps(panel.add(r * LANES));
                for i in 0..XS {
                    sums[i][r] = if EXACT {
                        _mm256_fmadd_ps(weights, inputs[i], sums[i][r])
                    } else {
                        _mm256_add_ps(sums[i][r], _mm256_mul_ps(weights, inputs[i]))
                    };
                }
            }
            panel = panel.wrapping_add(panel_stride);
            x = x.wrapping_add(LANES);
        }
        for i in 0..XS {
            for r in 0..R {
                *(if half == 0 { &mut lanes[i][r].0 } else { &mut lanes[i][r].1 }) = sums[i][r];
            }
        }
    }
}
