//! Functions for the formats that are unpacked row by row: entries of codebooks, their signs and indices, ternary
//! digits, sub-scales.

use core::arch::x86_64::*;

use super::codes::{ONES, is_set_of};

/// # Safety
/// 32 bytes are readable at the address.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn load(from: *const u8) -> __m256i {
    // SAFETY: the caller promises 32 bytes; no alignment is needed.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// Returns the f16 number at an address, as f32.
///
/// # Safety
/// Two bytes are readable there.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn half(from: *const u8) -> f32 {
    // SAFETY: the caller promises two bytes.
    let bits = unsafe { from.cast::<u16>().read_unaligned() };
    _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits.into())))
}

/// Returns odd sub-scales from the nibbles of 8 bytes. The lower nibble comes first.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn odd_from_nibbles(bytes: __m128i) -> __m128i {
    let both = _mm_unpacklo_epi8(bytes, _mm_srli_epi16::<4>(bytes));
    odd(_mm_and_si128(both, _mm_set1_epi8(15)))
}

/// Returns twice each byte plus 1.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn odd(bytes: __m128i) -> __m128i {
    _mm_add_epi8(_mm_add_epi8(bytes, bytes), _mm_set1_epi8(1))
}

/// Returns the lowest byte of each of eight dwords, twice.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn bytes_twice(dwords: __m256i) -> __m128i {
    let lowest = _mm256_shuffle_epi8(dwords, _mm256_set1_epi64x(0x0c0c_0808_0404_0000));
    _mm_unpacklo_epi64(_mm256_castsi256_si128(lowest), _mm256_extracti128_si256::<1>(lowest))
}

/// Returns the lower dwords of eight numbers of 64 bits, in order.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn in_order([low, high]: [__m256i; 2]) -> __m256i {
    let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
    let dwords = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high));
    _mm256_permute4x64_epi64::<0b11_01_10_00>(dwords)
}

/// Returns 32 words below 256 as bytes, in order.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn packed(low: __m256i, high: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(low, high))
}

/// Returns eight words four times each. The four copies of a word are multiplied by `factors`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn four_times(words: __m128i, [a, b, c, d]: [i16; 4]) -> [__m256i; 2] {
    let words = _mm256_broadcastsi128_si256(words);
    let word = |i: i64| 0x0100_0100_0100_0100 + 2 * i * 0x0101_0101_0101_0101;
    let first = _mm256_setr_epi64x(word(0), word(1), word(2), word(3));
    let second = _mm256_setr_epi64x(word(4), word(5), word(6), word(7));
    let factors = _mm256_setr_epi16(a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d);
    [first, second].map(|order| _mm256_mullo_epi16(_mm256_shuffle_epi8(words, order), factors))
}

/// Returns 32 bytes as words, with the bits of `high` that are in `mask`.
///
/// # Safety
/// 32 bytes are readable at `low`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn with_low_bytes(low: *const u8, [first, second]: [__m256i; 2], mask: i16) -> [__m256i; 2] {
    // SAFETY: the caller promises 32 bytes; no alignment is needed.
    let low = unsafe { [_mm_loadu_si128(low.cast()), _mm_loadu_si128(low.add(16).cast())] };
    let [low, high] = low.map(|low| _mm256_cvtepu8_epi16(low));
    let bits = _mm256_set1_epi16(mask);
    [_mm256_or_si256(low, _mm256_and_si256(first, bits)), _mm256_or_si256(high, _mm256_and_si256(second, bits))]
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn put_dwords(to: &mut [u32; 8], dwords: __m256i) {
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), dwords) };
}

/// Returns bits 0 to 6, 7 to 13, 14 to 20 and 21 to 27 of two dwords of each lane of 128 bits, each in a word. The dwords
/// begin at bytes `FIRST` and `SECOND` of the lane.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn sevens<const FIRST: i64, const SECOND: i64>(dwords: __m256i) -> __m256i {
    // The four words have bytes 0 and 1, 0 and 1, 1 and 2, 2 and 3 of a dword.
    let bytes = |at: i64| 0x0302_0201_0100_0100 + at * 0x0101_0101_0101_0101;
    let bytes = _mm256_setr_epi64x(bytes(FIRST), bytes(SECOND), bytes(FIRST), bytes(SECOND));
    // The 7 bits come to the top of a word.
    let top = _mm256_mullo_epi16(_mm256_shuffle_epi8(dwords, bytes), _mm256_set1_epi64x(0x0010_0008_0004_0200));
    _mm256_srli_epi16::<9>(top)
}

/// Returns the signs of 8 codes each from 7 bits in the bytes. The eighth sign makes the number of signs even.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn even_signs(sevens: __m256i) -> __m256i {
    // The table says which numbers below 16 have an odd number of bits.
    let odd = _mm_set_epi64x(0x0080_8000_8000_0080, 0x8000_0080_0080_8000_u64 as i64);
    let folded = _mm256_xor_si256(sevens, _mm256_srli_epi16::<4>(sevens));
    let folded = _mm256_and_si256(folded, _mm256_set1_epi8(15));
    _mm256_or_si256(sevens, _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(odd), folded))
}

/// Returns each of four bytes eight times.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn eight_times(bytes: &u32) -> __m256i {
    let order = _mm256_setr_epi64x(0, ONES, 2 * ONES, 3 * ONES);
    _mm256_shuffle_epi8(_mm256_set1_epi32(bytes.cast_signed()), order)
}

/// In word i, bit i.
pub(super) const ONE_EACH: [i64; 4] =
    [0x0008_0004_0002_0001, 0x0080_0040_0020_0010, 0x0800_0400_0200_0100, 0x8000_4000_2000_1000_u64 as i64];
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn put(to: &mut [u8; 32], codes: __m256i) {
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), codes) };
}

/// Returns codes with these magnitudes. A code is negative where its bit in `signs` is set.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn signed(magnitudes: __m256i, signs: &u32) -> __m256i {
    // SAFETY: this function has the feature.
    let negative = unsafe { is_set_of(*signs) };
    let magnitudes = _mm256_xor_si256(magnitudes, negative);
    _mm256_add_epi8(_mm256_sub_epi8(magnitudes, negative), _mm256_set1_epi8(64))
}

/// Returns values plus 1, or minus 1 where the bits of `less` are set.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn shifted(values: __m256i, less: __m256i) -> __m256i {
    _mm256_add_epi8(values, _mm256_or_si256(less, _mm256_set1_epi8(1)))
}

/// Returns the values of four entries. An entry has 8 numbers of 2 bits each, none of which is 3.
///
/// # Safety
/// The indices are below `N`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn eights<const N: usize>(
    book: &[u16; N],
    [a, b, c, d]: &[u16; 4],
    [zero, one, two]: [i8; 3],
) -> __m256i {
    // SAFETY: the caller promises that the book has these entries. A check would keep the indices in a vector register.
    let entry = |index: &u16| unsafe { i32::from(*book.get_unchecked(usize::from(*index))) };
    let mut entries = _mm_cvtsi32_si128(entry(a));
    entries = _mm_insert_epi16::<1>(entries, entry(b));
    entries = _mm_insert_epi16::<2>(entries, entry(c));
    entries = _mm_insert_epi16::<3>(entries, entry(d));
    // Repeats each byte four times.
    let bytes =
        _mm256_set_epi64x(0x0707_0707_0606_0606, 0x0505_0505_0404_0404, 0x0303_0303_0202_0202, 0x0101_0101_0000_0000);
    let four = _mm256_shuffle_epi8(_mm256_broadcastq_epi64(entries), bytes);
    let shifted = _mm256_blend_epi16::<0xaa>(four, _mm256_srli_epi16::<4>(four));
    // In every second byte the number stays shifted by 2 bits, so the table has the values at four times the number,
    // too.
    let values = _mm_setr_epi8(zero, one, two, 0, one, 0, 0, 0, two, 0, 0, 0, 0, 0, 0, 0);
    _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), _mm256_and_si256(shifted, _mm256_set1_epi16(0x0c03)))
}

/// Returns four entries of eight values each.
///
/// # Safety
/// The indices are below `N`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn four_entries<const N: usize, I: Copy + Into<usize>>(
    book: &[u64; N],
    [a, b, c, d]: &[I; 4],
) -> __m256i {
    // SAFETY: the caller promises that the book has these entries. A check would keep the indices in a vector register.
    let entry = |index: &I| unsafe { book.get_unchecked((*index).into()).cast_signed() };
    _mm256_setr_epi64x(entry(a), entry(b), entry(c), entry(d))
}

/// Returns entries of 8 numbers of 2 bits each as values of IQ2: 8, 25 or 43 for 0, 1 or 2.
// It runs when the library is compiled, which an index out of bounds would stop.
#[allow(clippy::indexing_slicing)]
pub(super) const fn in_bytes<const N: usize>(book: &[u16; N]) -> [u64; N] {
    let mut entries = [0; N];
    let mut i = 0;
    while i < N {
        let mut j = 0;
        while j < 8 {
            let value = [8, 25, 43, 0][(book[i] >> (2 * j) & 3) as usize];
            entries[i] |= value << (8 * j);
            j += 1;
        }
        i += 1;
    }
    entries
}

/// Returns eight entries of four values each.
///
/// # Safety
/// The indices are below `N`.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) unsafe fn fours<const N: usize, I: Copy + Into<usize>>(
    book: &[u32; N],
    [a, b, c, d, e, f, g, h]: &[I; 8],
) -> __m256i {
    // Single loads: an emulator of the cross runs gets a gather wrong, and processors are hardly faster with it.
    // SAFETY: the caller promises that the book has these entries. A check would keep the indices in a vector register.
    let entry = |index: &I| unsafe { book.get_unchecked((*index).into()).cast_signed() };
    _mm256_setr_epi32(entry(a), entry(b), entry(c), entry(d), entry(e), entry(f), entry(g), entry(h))
}

/// Returns bytes of TQ1_0 less 128.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn signed_bytes(bytes: __m256i) -> __m256i {
    _mm256_xor_si256(bytes, _mm256_set1_epi8(i8::MIN))
}

/// Returns three times each byte, by which the next digit of a byte becomes the first one. 3 (b - 128) and 3 b - 128 have
/// the same lowest 8 bits.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn three_times(signed_bytes: __m256i) -> __m256i {
    _mm256_add_epi8(signed_bytes, _mm256_add_epi8(signed_bytes, signed_bytes))
}

/// Returns the codes of the first digits: digit - 1.
#[inline]
#[target_feature(enable = "avx2,f16c")]
pub(super) fn first_digits(signed_bytes: __m256i) -> __m256i {
    // The digit is 3 b / 256, rounded down: 1 from b = 86 on, and 2 from b = 171 on. A comparison gives -1 where it is
    // true.
    let at_least = |number: u8| _mm256_cmpgt_epi8(signed_bytes, _mm256_set1_epi8((number ^ 0x80).cast_signed() - 1));
    _mm256_sub_epi8(_mm256_set1_epi8(64 - 1), _mm256_add_epi8(at_least(86), at_least(171)))
}
