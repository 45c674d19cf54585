//! 16 lanes in one register.

use core::arch::x86_64::*;

use half::f16;

use crate::kernels::generic::Lanes;
use crate::num::{SETTLED_MIN, WEIGHT_MIN};

/// Proof that the machine has AVX-512 F, BW, VL and VNNI, with AVX2, FMA and F16C.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Avx512(());

impl Avx512 {
    #[inline]
    #[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn new() -> Self {
        Self(())
    }
}

/// 16 lanes of f32. It is made only with an [`Avx512`], so a value proves that the machine has the instructions.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(in crate::kernels) struct Zmm(__m512);

impl Lanes for Zmm {
    type Proof = Avx512;

    const QUERIES: usize = 8;
    const LOADS_F16: bool = true;
    const FUSED: bool = true;

    #[inline(always)]
    fn splat(_: Avx512, x: f32) -> Self {
        // SAFETY: the argument proves AVX-512 F.
        Self(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn load(_: Avx512, from: *const f32) -> Self {
        // SAFETY: the argument proves AVX-512 F; the caller promises 16 elements to read.
        Self(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn load_f16(_: Avx512, from: *const f16) -> Self {
        // SAFETY: the argument proves AVX-512 F; the caller promises 16 elements to read.
        Self(unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) })
    }

    #[inline(always)]
    unsafe fn load_i8(_: Avx512, from: *const i8) -> Self {
        // SAFETY: the argument proves AVX-512 F; the caller promises 16 elements to read.
        Self(unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()))) })
    }

    #[inline(always)]
    unsafe fn load_i4(_: Avx512, from: *const u8, upper: bool) -> Self {
        // SAFETY: the argument proves AVX-512 F; the caller promises 16 bytes to read.
        unsafe {
            let bytes = _mm512_cvtepi8_epi32(_mm_loadu_si128(from.cast()));
            let bytes = if upper { bytes } else { _mm512_slli_epi32::<28>(bytes) };
            let codes = if upper { _mm512_srai_epi32::<4>(bytes) } else { _mm512_srai_epi32::<28>(bytes) };
            Self(_mm512_cvtepi32_ps(codes))
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(_: Avx512, from: *const u16) -> Self {
        // SAFETY: the argument proves AVX-512 F; the caller promises 16 elements to read.
        let bits = unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast())) };
        // SAFETY: the argument proves AVX-512 F.
        Self(unsafe { _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits)) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: `self` proves AVX-512 F; the caller promises room for 16 elements.
        unsafe { _mm512_storeu_ps(to, self.0) };
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX-512 F, see `Zmm`.
        Self(unsafe { _mm512_add_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX-512 F, see `Zmm`.
        Self(unsafe { _mm512_sub_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX-512 F, see `Zmm`.
        Self(unsafe { _mm512_mul_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn add_exact(self, a: Self, b: Self) -> Self {
        // SAFETY: `self` proves AVX-512 F, see `Zmm`.
        Self(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
    }

    #[inline(always)]
    fn settle(self, _: Avx512) -> Self {
        // SAFETY: `self` proves AVX-512 F, see `Zmm`.
        unsafe {
            let least = _mm512_set1_ps(SETTLED_MIN);
            Self(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_NLT_UQ>(_mm512_abs_ps(self.0), least), self.0))
        }
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        // The instruction gives its second operand where one of them is NaN.
        // SAFETY: `self` proves AVX-512 F, see `Zmm`.
        Self(unsafe { _mm512_max_ps(self.0, other.0) })
    }

    #[inline(always)]
    fn largest(self) -> f32 {
        // SAFETY: `self` proves AVX-512 F. No lane of a maximum is NaN, so their order does not matter.
        unsafe {
            let half = _mm512_castps512_ps256(_mm512_max_ps(self.0, _mm512_shuffle_f32x4::<0b1110>(self.0, self.0)));
            let quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half));
            let two = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
            _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)))
        }
    }

    #[inline(always)]
    fn first(self, count: usize, others: Self) -> Self {
        let mask = ((1_u32 << count.min(16)) - 1) as u16;
        // SAFETY: `self` proves AVX-512 F, see `Zmm`.
        Self(unsafe { _mm512_mask_blend_ps(mask, others.0, self.0) })
    }

    #[inline(always)]
    fn weight(self) -> Self {
        // SAFETY: `self` proves AVX-512 F, see `Zmm`.
        let [result] = unsafe { weights([self.0]) };
        Self(result)
    }

    #[inline(always)]
    #[allow(clippy::indexing_slicing, clippy::needless_range_loop)] // As for `weights`.
    fn weights<const M: usize>(proof: Avx512, mut x: [Self; M]) -> [Self; M] {
        let mut registers = [Self::splat(proof, 0.0).0; M];
        for m in 0..M {
            registers[m] = x[m].0;
        }
        // SAFETY: the argument proves AVX-512 F.
        let results = unsafe { weights(registers) };
        for m in 0..M {
            x[m] = Self(results[m]);
        }
        x
    }

    #[inline(always)]
    fn tree(self) -> f32 {
        // SAFETY: `self` proves AVX-512 F and AVX2, see `Zmm`.
        unsafe {
            let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self.0)));
            crate::kernels::x86_64::avx2::ymm::tree8(_mm256_add_ps(_mm512_castps512_ps256(self.0), high))
        }
    }

    #[inline(always)]
    unsafe fn store_trees<const N: usize>(dots: [Self; N], to: *mut f32) {
        let (eights, rest) = dots.as_chunks::<8>();
        let mut to = to;
        for &dots in eights {
            // SAFETY: `dots` prove AVX-512 F; the caller promises room for N elements, these are 8 of them.
            unsafe {
                _mm256_storeu_ps(to, trees(dots));
                to = to.add(8);
            }
        }
        for (i, dot) in rest.iter().enumerate() {
            // SAFETY: after the eights the caller's N elements have room for `rest`, and i is below its length.
            unsafe { to.add(i).write_unaligned(dot.tree()) };
        }
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

/// Returns the tree sums of eight dots. Each level adds the two halves of every dot, and puts two dots together into
/// one register.
#[inline]
#[target_feature(enable = "avx512f")]
fn trees(dots: [Zmm; 8]) -> __m256 {
    let [Zmm(a), Zmm(b), Zmm(c), Zmm(d), Zmm(e), Zmm(f), Zmm(g), Zmm(h)] = dots;
    let (a, b, c, d) = (halve_512(a, b), halve_512(c, d), halve_512(e, f), halve_512(g, h));
    let (a, b) = (halve_256(a, b), halve_256(c, d));
    // Each dot has 128 bits left. Now dots i and i + 4 come together.
    let low = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    let high = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
    let two = _mm512_add_ps(low, high);
    let sums = _mm512_add_ps(two, _mm512_movehdup_ps(two));
    let order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 0, 0, 0, 0, 0, 0, 0);
    _mm512_castps512_ps256(_mm512_permutexvar_ps(order, sums))
}

/// Adds lanes i + 8 to lanes i. The sums of a are in the lower half, the sums of b in the upper one.
#[inline]
#[target_feature(enable = "avx512f")]
fn halve_512(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4::<0x4e>(a, b))
}

/// Adds lanes i + 4 to lanes i, in both halves. The sums of a are in the lower half, the sums of b in the upper one.
#[inline]
#[target_feature(enable = "avx512f")]
fn halve_256(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b))
}

/// [`crate::num::weight`] of each lane of `M` registers, operation by operation.
#[inline]
#[target_feature(enable = "avx512f")]
#[allow(clippy::indexing_slicing, clippy::needless_range_loop)] // Fixed lengths; iterators are not always inlined.
fn weights<const M: usize>(x: [__m512; M]) -> [__m512; M] {
    let zero = [_mm512_setzero_ps(); M];
    let (mut shifted, mut r, mut p, mut y) = (zero, zero, zero, zero);
    let magic = _mm512_set1_ps(12_582_912.0);
    for m in 0..M {
        shifted[m] = _mm512_add_ps(_mm512_mul_ps(x[m], _mm512_set1_ps(core::f32::consts::LOG2_E)), magic);
    }
    for m in 0..M {
        let n = _mm512_sub_ps(shifted[m], magic);
        r[m] = _mm512_sub_ps(x[m], _mm512_mul_ps(n, _mm512_set1_ps(0.693_359_4)));
        r[m] = _mm512_sub_ps(r[m], _mm512_mul_ps(n, _mm512_set1_ps(-2.121_944_4e-4)));
        p[m] = _mm512_set1_ps(1.987_569_1e-4);
    }
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        for m in 0..M {
            p[m] = _mm512_add_ps(_mm512_mul_ps(p[m], r[m]), _mm512_set1_ps(coefficient));
        }
    }
    for m in 0..M {
        y[m] = _mm512_add_ps(_mm512_mul_ps(p[m], _mm512_mul_ps(r[m], r[m])), r[m]);
        y[m] = _mm512_add_ps(y[m], _mm512_set1_ps(1.0));
    }
    for m in 0..M {
        // (shifted - magic + 127) << 23: the shift drops the bits of magic.
        let exponent = _mm512_add_epi32(_mm512_castps_si512(shifted[m]), _mm512_set1_epi32(127));
        let result = _mm512_mul_ps(y[m], _mm512_castsi512_ps(_mm512_slli_epi32::<23>(exponent)));
        let large = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x[m], _mm512_set1_ps(88.0));
        let result = _mm512_mask_blend_ps(large, result, _mm512_set1_ps(f32::INFINITY));
        let not_small = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x[m], _mm512_set1_ps(WEIGHT_MIN));
        y[m] = _mm512_maskz_mov_ps(not_small, result);
    }
    y
}
