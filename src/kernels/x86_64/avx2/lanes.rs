//! Functions that bring eight rows of weights to the eight 32-bit lanes of a register.

use core::arch::x86_64::*;

/// Returns a register whose lane r is the sum of all lanes of `rows[r]`.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn sums(rows: &[__m256i; 8]) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let [lower, upper] = sums_of_halves(rows);
        _mm256_add_epi32(lower, upper)
    }
}

/// Returns two registers: lane r is the sum of the lower four lanes of `rows[r]` in the first, and of the upper four in
/// the second.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn sums_of_halves(rows: &[__m256i; 8]) -> [__m256i; 2] {
    let [a, b, c, d, e, f, g, h] = *rows;
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let low = pairs_64(pairs_32(a, b), pairs_32(c, d));
        let high = pairs_64(pairs_32(e, f), pairs_32(g, h));
        [_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high)]
    }
}

/// Adds lanes i + 2 to lanes i in each half of four lanes. The sums of `a` are in the even lanes, the sums of `b` in
/// the odd ones.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn pairs_32(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe { _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)) }
}

/// Adds the upper two lanes to the lower two in each half of four lanes. The sums of `a` are in the lower two lanes,
/// the sums of `b` in the upper two.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn pairs_64(a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe { _mm256_add_epi32(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)) }
}

/// Returns the transposed rows: lane r of element i is lane i of `rows[r]`.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn transpose(rows: &[__m256i; 8]) -> [__m256i; 8] {
    let [a, b, c, d, e, f, g, h] = *rows;
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let ([a0, a1, a2, a3], [e0, e1, e2, e3]) = (four(a, b, c, d), four(e, f, g, h));
        [
            _mm256_permute2x128_si256::<0x20>(a0, e0),
            _mm256_permute2x128_si256::<0x20>(a1, e1),
            _mm256_permute2x128_si256::<0x20>(a2, e2),
            _mm256_permute2x128_si256::<0x20>(a3, e3),
            _mm256_permute2x128_si256::<0x31>(a0, e0),
            _mm256_permute2x128_si256::<0x31>(a1, e1),
            _mm256_permute2x128_si256::<0x31>(a2, e2),
            _mm256_permute2x128_si256::<0x31>(a3, e3),
        ]
    }
}

/// Transposes four rows: element i has lane i of each row in its lower half, and lane 4 + i in its upper half.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn four(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> [__m256i; 4] {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(ab, cd),
            _mm256_unpackhi_epi64(ab, cd),
            _mm256_unpacklo_epi64(ab_high, cd_high),
            _mm256_unpackhi_epi64(ab_high, cd_high),
        ]
    }
}

/// Returns bytes 4 i to 4 i + 3 of eight rows in element i.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn fours(rows: &[__m128i; 8]) -> [__m256i; 4] {
    let [a, b, c, d, e, f, g, h] = *rows;
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe { four(_mm256_set_m128i(e, a), _mm256_set_m128i(f, b), _mm256_set_m128i(g, c), _mm256_set_m128i(h, d)) }
}

/// Returns the f16 numbers `offset` bytes after each of the pointers, as f32.
///
/// # Safety
/// The processor has AVX2 and F16C; two bytes can be read at each place.
#[inline(always)]
pub(super) unsafe fn halves(blocks: &[*const u8; 8], offset: usize) -> __m256 {
    // SAFETY: the caller promises AVX2 and F16C, and two bytes at `offset` of each of the blocks.
    unsafe { _mm256_cvtph_ps(words(blocks, offset)) }
}

/// Returns the two bytes `offset` bytes after each of the pointers.
///
/// # Safety
/// The processor has AVX2; two bytes can be read at each place.
#[inline(always)]
pub(super) unsafe fn words(blocks: &[*const u8; 8], offset: usize) -> __m128i {
    let [a, b, c, d, e, f, g, h] = *blocks;
    // SAFETY: the caller promises AVX2, and two bytes at `offset` of each of the blocks.
    unsafe {
        let half = |block: *const u8| i32::from(block.add(offset).cast::<u16>().read_unaligned());
        let mut bits = _mm_cvtsi32_si128(half(a));
        bits = _mm_insert_epi16::<1>(bits, half(b));
        bits = _mm_insert_epi16::<2>(bits, half(c));
        bits = _mm_insert_epi16::<3>(bits, half(d));
        bits = _mm_insert_epi16::<4>(bits, half(e));
        bits = _mm_insert_epi16::<5>(bits, half(f));
        bits = _mm_insert_epi16::<6>(bits, half(g));
        bits = _mm_insert_epi16::<7>(bits, half(h));
        bits
    }
}

/// Returns the same register, of which the compiler knows nothing. So it does not change the order of additions.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn hidden(mut register: __m256i) -> __m256i {
    // SAFETY: the text has no instruction, so it neither reads nor writes anything. This function has AVX2.
    unsafe { core::arch::asm!("/* {} */", inout(ymm_reg) register, options(pure, nomem, nostack, preserves_flags)) };
    register
}

/// Empties all registers between two loops. Without this the compiler keeps constants of the first loop, which runs
/// again, and moves sums of the second loop to memory.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn clear_registers() {
    // SAFETY: the text has no instruction, so it neither reads nor writes anything. This function has AVX2.
    unsafe {
        core::arch::asm!(
            "", out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
            out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
            out("ymm12") _, out("ymm13") _, out("ymm14") _, out("ymm15") _, options(nomem, nostack, preserves_flags)
        );
    }
}
