//! Functions that make 32 codes, a byte each, from the bits of blocks.

use core::arch::x86_64::*;

/// Returns the four codes of 2 bits of each of two bytes, in each lane of 64 bits. The lower two bytes of the lane of
/// `which` are the indices of the two bytes.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn pairs_of_bits(bytes: __m256i, which: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let four_each = _mm256_setr_epi64x(
            0x0101_0101_0000_0000,
            0x0909_0909_0808_0808,
            0x0101_0101_0000_0000,
            0x0909_0909_0808_0808,
        );
        let bytes = _mm256_shuffle_epi8(bytes, _mm256_shuffle_epi8(which, four_each));
        // Byte i keeps bits 2 i and 2 i + 1. The masks drop the bits that the shifts bring from another byte.
        let low = _mm256_and_si256(bytes, _mm256_set1_epi32(0x0030_0003));
        let high = _mm256_and_si256(_mm256_srli_epi32::<2>(bytes), _mm256_set1_epi32(0x3000_0300));
        let codes = _mm256_or_si256(low, high);
        let upper = _mm256_and_si256(_mm256_srli_epi32::<4>(codes), _mm256_set1_epi32(0x0303_0000));
        _mm256_or_si256(_mm256_and_si256(codes, _mm256_set1_epi32(0x0000_0303)), upper)
    }
}

/// Returns the codes of MXFP4 for 32 indices below 16.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn fp4_values(indices: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let table = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), indices)
    }
}

/// Returns the lower nibbles of 16 bytes, then the upper ones.
///
/// # Safety
/// The processor has AVX2; 16 bytes can be read.
#[inline(always)]
pub(super) unsafe fn nibbles(bytes: *const u8) -> __m256i {
    // SAFETY: the caller promises AVX2 and 16 bytes to read; no alignment is needed.
    unsafe {
        let twice = _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.cast()));
        let shifted = _mm256_srlv_epi64(twice, _mm256_setr_epi64x(0, 0, 4, 4));
        _mm256_and_si256(shifted, _mm256_set1_epi8(15))
    }
}

/// Returns 16 bytes, then the 16 bytes `distance` bytes after them.
///
/// # Safety
/// The processor has AVX2; 16 bytes can be read at both places.
#[inline(always)]
pub(super) unsafe fn both(bytes: *const u8, distance: usize) -> __m256i {
    // SAFETY: the caller promises AVX2 and 16 bytes at both places; no alignment is needed.
    unsafe { _mm256_loadu2_m128i(bytes.add(distance).cast(), bytes.cast()) }
}

/// Returns the lower nibbles of [`both`], then the upper ones.
///
/// # Safety
/// The processor has AVX2; 16 bytes can be read at both places.
#[inline(always)]
pub(super) unsafe fn nibbles_of_two(bytes: *const u8, distance: usize) -> [__m256i; 2] {
    // SAFETY: the caller promises AVX2 and 16 bytes at both places.
    unsafe { low_and_high(both(bytes, distance)) }
}

/// Returns the lower nibbles, then the upper ones.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn low_and_high(bytes: __m256i) -> [__m256i; 2] {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let mask = _mm256_set1_epi8(15);
        [_mm256_and_si256(bytes, mask), _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), mask)]
    }
}

/// Returns the codes of IQ4_NL and IQ4_XS for 32 indices below 16.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn values(indices: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let table = _mm_setr_epi8(-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113);
        _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), indices)
    }
}

/// Returns 16 in byte i where bit i of the 32 bits is set, and 0 elsewhere.
///
/// # Safety
/// The processor has AVX2; four bytes can be read.
#[inline(always)]
pub(super) unsafe fn fifth_bits(bits: *const u8) -> __m256i {
    // SAFETY: the caller promises AVX2 and four bytes to read.
    unsafe { _mm256_and_si256(is_set(bits), _mm256_set1_epi8(16)) }
}

/// Returns [`fifth_bits`] of bits 0 to 15 of two blocks, then of bits 16 to 31 of both.
///
/// # Safety
/// The processor has AVX2; four bytes can be read at both places.
#[inline(always)]
pub(super) unsafe fn fifth_bits_of_two(bits: *const u8, distance: usize) -> [__m256i; 2] {
    // SAFETY: the caller promises AVX2 and four bytes at both places.
    unsafe { is_set_in_two(bits, distance).map(|set| _mm256_and_si256(set, _mm256_set1_epi8(16))) }
}

/// Returns ones in all bits of byte i where bit i of the 32 bits is set, and 0 elsewhere.
///
/// # Safety
/// The processor has AVX2; four bytes can be read.
#[inline(always)]
pub(super) unsafe fn is_set(bits: *const u8) -> __m256i {
    // SAFETY: the caller promises AVX2 and four bytes to read.
    unsafe { is_set_of(bits.cast::<u32>().read_unaligned()) }
}

/// As [`is_set`], for the bits of a number.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
pub(super) unsafe fn is_set_of(bits: u32) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe { all_bits(_mm256_set1_epi32(bits.cast_signed()), _mm256_setr_epi64x(0, ONES, 2 * ONES, 3 * ONES)) }
}

/// Returns [`is_set`] of bits 0 to 15 of two blocks, then of bits 16 to 31 of both.
///
/// # Safety
/// The processor has AVX2; four bytes can be read at both places.
#[inline(always)]
pub(super) unsafe fn is_set_in_two(bits: *const u8, distance: usize) -> [__m256i; 2] {
    // SAFETY: the caller promises AVX2 and four bytes at both places.
    unsafe {
        let first = _mm256_set1_epi32(bits.cast::<i32>().read_unaligned());
        let second = _mm256_set1_epi32(bits.add(distance).cast::<i32>().read_unaligned());
        let bits = _mm256_blend_epi32::<0xf0>(first, second);
        [
            all_bits(bits, _mm256_setr_epi64x(0, ONES, 0, ONES)),
            all_bits(bits, _mm256_setr_epi64x(2 * ONES, 3 * ONES, 2 * ONES, 3 * ONES)),
        ]
    }
}

/// 1 in each byte.
pub(super) const ONES: i64 = 0x0101_0101_0101_0101;

/// Returns ones in all bits of byte i where bit i mod 8 of the byte with index `byte` is set, and 0 elsewhere.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn all_bits(bits: __m256i, byte: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        _mm256_cmpeq_epi8(_mm256_and_si256(_mm256_shuffle_epi8(bits, byte), bit), bit)
    }
}
