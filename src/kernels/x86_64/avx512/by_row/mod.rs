//! Super-blocks that are unpacked row by row: the formats with a codebook, and TQ1_0. A block becomes four registers of
//! codes.
//!
//! The entries of codebooks are words, so that 32 indices are looked up in registers: one instruction chooses from 64
//! entries, and others choose from its results. That takes less time than a gathering load.

mod iq1;
mod iq2;
mod iq3;
mod tq1_0;

use core::arch::x86_64::*;

pub(super) use iq1::{Iq1M, Iq1S};
pub(super) use iq2::{Iq2S, Iq2Xs, Iq2Xxs};
pub(super) use iq3::{Iq3S, Iq3Xxs};
pub(super) use tq1_0::Tq1_0;

/// A format that is unpacked row by row.
pub(super) trait ByRow {
    /// Type of a super-block, an array of bytes.
    type Block;
    /// Number that is added to the codes. With 0, the codes are magnitudes and have signs.
    const OFFSET: u8 = 0;
    /// Byte offsets in a block of the 4 bytes with the scale, or of the 4 bytes with each of two parts of it.
    const SCALE: [usize; 2] = [0, 0];
    /// Factor of the f16 number of a block, a power of two.
    const FACTOR: f32;

    /// Unpacks a block of each of `R` rows. With more rows, the codebook is read fewer times.
    ///
    /// # Safety
    /// The processor has the instructions.
    unsafe fn unpack<const R: usize>(blocks: [&Self::Block; R]) -> [Codes; R];

    /// Returns the bits of the f16 number in the lower words of the lanes, from the words at the offsets
    /// [`Self::SCALE`].
    ///
    /// # Safety
    /// The processor has the instructions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn scale_bits(first: __m512i, _second: __m512i) -> __m512i {
        first
    }
}

/// An unpacked super-block of a row.
pub(super) struct Codes {
    /// 64 codes in each register, none of them less than 0.
    pub(super) codes: [__m512i; 4],
    /// A bit per code: whether the code is negated.
    pub(super) negative: [u64; 4],
    /// 16 sub-scales, one per 16 codes.
    pub(super) sub_scales: __m128i,
}

/// Calls `codes` with each block and what was found for it, and returns the results.
#[inline(always)]
fn each_with<B: Copy, E: Copy, const R: usize>(
    blocks: [B; R],
    found: [E; R],
    codes: impl Fn(B, E) -> Codes,
) -> [Codes; R] {
    // The index is below R, the length of both.
    #[allow(clippy::indexing_slicing)]
    core::array::from_fn(|r| codes(blocks[r], found[r]))
}

/// Returns the entries for the 32 indices of each register, in words. Bits above the largest index are ignored.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn entries<const N: usize, const R: usize>(book: &[u16; N], indices: [__m512i; R]) -> [__m512i; R] {
    const { assert!(N == 256 || N == 512 || N == 1024 || N == 2048) };
    let mut found = [[_mm512_setzero_si512(); R]; 8];
    for (found, part) in found.iter_mut().zip(book.as_chunks::<256>().0) {
        *found = of_256(part, &indices);
    }
    let [a, b, c, d, e, f, g, h] = found;
    let of_512 = |a, b| chosen::<256, R>(&indices, a, b);
    let of_1024 = |a, b| chosen::<512, R>(&indices, a, b);
    match N {
        256 => a,
        512 => of_512(a, b),
        1024 => of_1024(of_512(a, b), of_512(c, d)),
        _ => chosen::<1024, R>(&indices, of_1024(of_512(a, b), of_512(c, d)), of_1024(of_512(e, f), of_512(g, h))),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn of_256<const R: usize>(book: &[u16; 256], indices: &[__m512i; R]) -> [__m512i; R] {
    let mut found = [[_mm512_setzero_si512(); R]; 4];
    for (found, [low, high]) in found.iter_mut().zip(book.as_chunks::<32>().0.as_chunks::<2>().0) {
        // SAFETY: both have the 64 bytes that are read.
        let [low, high] = [low, high].map(|half| unsafe { _mm512_loadu_si512(half.as_ptr().cast()) });
        for (found, &indices) in found.iter_mut().zip(indices) {
            *found = _mm512_permutex2var_epi16(low, indices, high);
        }
    }
    let [a, b, c, d] = found;
    chosen::<128, R>(indices, chosen::<64, R>(indices, a, b), chosen::<64, R>(indices, c, d))
}

/// Returns the words of `with` where the index has bit `BIT`, and those of `without` elsewhere.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn chosen<const BIT: i16, const R: usize>(
    indices: &[__m512i; R],
    mut without: [__m512i; R],
    with: [__m512i; R],
) -> [__m512i; R] {
    for ((without, with), &indices) in without.iter_mut().zip(with).zip(indices) {
        let has_bit = _mm512_test_epi16_mask(indices, _mm512_set1_epi16(BIT));
        *without = _mm512_mask_blend_epi16(has_bit, *without, with);
    }
    without
}

/// Returns the codes of 32 entries. An entry has 8 numbers of 2 bits each, none of which is 3.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn eights(entries: __m512i, [zero, one, two]: [u8; 3]) -> [__m512i; 4] {
    // Repeats each byte of two entries four times.
    let bytes = _mm512_set_epi64(
        0x0f0f_0f0f_0e0e_0e0e,
        0x0d0d_0d0d_0c0c_0c0c,
        0x0b0b_0b0b_0a0a_0a0a,
        0x0909_0909_0808_0808,
        0x0707_0707_0606_0606,
        0x0505_0505_0404_0404,
        0x0303_0303_0202_0202,
        0x0101_0101_0000_0000,
    );
    // In every second byte the number stays shifted by 2 bits, so the table has the values at four times the number,
    // too.
    let values = i64::from_le_bytes([zero, one, two, 0, one, 0, 0, 0]);
    let values = _mm512_broadcast_i32x4(_mm_set_epi64x(i64::from(two), values));
    let lanes = [
        _mm512_shuffle_i32x4::<0x00>(entries, entries),
        _mm512_shuffle_i32x4::<0x55>(entries, entries),
        _mm512_shuffle_i32x4::<0xaa>(entries, entries),
        _mm512_shuffle_i32x4::<0xff>(entries, entries),
    ];
    lanes.map(|lane| {
        let shifted = _mm512_srlv_epi16(_mm512_shuffle_epi8(lane, bytes), _mm512_set1_epi32(4 << 16));
        _mm512_shuffle_epi8(values, _mm512_and_si512(shifted, _mm512_set1_epi16(0x0c03)))
    })
}

/// Returns the codes of twice 32 entries. An entry has 4 numbers of 3 bits each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn fours(entries: [__m512i; 2], values: [u8; 8]) -> [__m512i; 4] {
    let values = _mm512_set1_epi64(i64::from_le_bytes(values));
    // Repeats each of 16 entries.
    let twice = _mm512_cvtepu8_epi16(_mm256_set_epi64x(
        0x0f0f_0e0e_0d0d_0c0c,
        0x0b0b_0a0a_0909_0808,
        0x0707_0606_0505_0404,
        0x0303_0202_0101_0000,
    ));
    let [first, second] = [twice, _mm512_add_epi16(twice, _mm512_set1_epi16(16))]
        .map(|order| entries.map(|entries| codes_of_fours(_mm512_permutexvar_epi16(order, entries), values)));
    [first[0], second[0], first[1], second[1]]
}

/// Returns the codes of 16 entries, each of which is in two words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn codes_of_fours(words: __m512i, values: __m512i) -> __m512i {
    let low = _mm512_srlv_epi16(words, _mm512_set1_epi32(6 << 16));
    let high = _mm512_slli_epi16::<5>(low);
    // 0xca: a ? b : c.
    let both = _mm512_ternarylogic_epi32::<0xca>(_mm512_set1_epi16(0xff), low, high);
    _mm512_shuffle_epi8(values, _mm512_and_si512(both, _mm512_set1_epi16(0x0707)))
}

/// Returns the signs of 8 codes each from 7 bits in the words. The eighth sign makes the number of signs even.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn even_signs(words: __m512i) -> [u64; 4] {
    let words = _mm512_and_si512(words, _mm512_set1_epi16(0x7f));
    // The eighth sign follows from the lower bits. The table says which numbers below 16 have an odd number of bits.
    let odd = _mm512_broadcast_i32x4(_mm_set_epi64x(0x0080_8000_8000_0080, 0x8000_0080_0080_8000_u64 as i64));
    let folded = _mm512_and_si512(_mm512_xor_si512(words, _mm512_srli_epi16::<4>(words)), _mm512_set1_epi16(15));
    let signs = _mm512_or_si512(words, _mm512_shuffle_epi8(odd, folded));
    let mut bytes = [0_u64; 4];
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), _mm512_cvtepi16_epi8(signs)) };
    bytes
}

/// Returns bits 0 to 6, 7 to 13, 14 to 20 and 21 to 27 of two dwords of each lane of 128 bits, each in the lower bits
/// of a word. The dwords begin at bytes `first` and `second` of the lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn sevens(dwords: __m512i, [first, second]: [i64; 2]) -> __m512i {
    // The four words have bytes 0 and 1, 0 and 1, 1 and 2, 2 and 3 of a dword.
    let bytes = |at: i64| 0x0302_0201_0100_0100 + at * 0x0101_0101_0101_0101;
    let bytes = _mm512_broadcast_i32x4(_mm_set_epi64x(bytes(second), bytes(first)));
    let shifts = _mm512_set1_epi64(0x0005_0006_0007_0000);
    _mm512_srlv_epi16(_mm512_shuffle_epi8(dwords, bytes), shifts)
}

/// Returns odd sub-scales of 16 codes each from nibbles, or fewer bits, two to a byte. The lower nibble comes first.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn of_nibbles(bytes: __m128i) -> __m128i {
    odd(_mm_and_si128(_mm_unpacklo_epi8(bytes, _mm_srli_epi16::<4>(bytes)), _mm_set1_epi8(15)))
}

/// Returns twice each byte plus 1.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn odd(bytes: __m128i) -> __m128i {
    _mm_add_epi8(_mm_add_epi8(bytes, bytes), _mm_set1_epi8(1))
}

/// Returns sub-scales of 16 codes each from sub-scales of 32 codes each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn twice(eight: __m128i) -> __m128i {
    _mm_unpacklo_epi8(eight, eight)
}

/// Returns `L` bytes from byte `AT` on.
#[inline]
fn bytes<const AT: usize, const L: usize, const N: usize>(block: &[u8; N]) -> &[u8; L] {
    const { assert!(AT + L <= N) };
    // SAFETY: the bytes are within the array, as asserted when this is compiled.
    unsafe { &*block.as_ptr().add(AT).cast() }
}

/// Returns eight bytes from byte `AT` on. The other bytes are 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn eight<const AT: usize, const N: usize>(block: &[u8; N]) -> __m128i {
    _mm_cvtsi64_si128(i64::from_le_bytes(*bytes::<AT, 8, N>(block)))
}
