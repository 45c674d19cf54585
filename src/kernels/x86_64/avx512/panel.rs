//! Sixteen rows of weights at once. Their bytes are transposed, so that a lane of 32 bits belongs to a row.

use core::arch::x86_64::*;
use core::cell::Cell;

use crate::kernels::x86_64::ahead::Ahead;
use crate::quant::mxfp4::LEAST_EXPONENT;

/// One block of each of sixteen rows of weights, all with the same index.
///
/// # Safety
/// [`Sixteen::places`] returns addresses in the blocks. Callers of the methods that read promise that the bytes exist.
pub(in crate::kernels::x86_64) unsafe trait Sixteen {
    /// Returns the address of byte `at` of the block of each row.
    fn places(&self, at: usize) -> [*const u8; 16];

    /// Fetches as many bytes of the next rows as `len` bytes of each of these rows, in the order of memory.
    fn fetch(&self, len: usize);

    /// Returns bytes `at..at + 16` of the blocks: four registers, each with four bytes of each row. Meanwhile fetches
    /// as many bytes of the next rows.
    ///
    /// # Safety
    /// These bytes are readable in all rows, and the processor has the instructions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn transposed(&self, at: usize) -> [__m512i; 4] {
        self.fetch(16);
        // SAFETY: the caller promises what the called function asks for.
        unsafe { self.header(at) }
    }

    /// As [`Sixteen::transposed`] without fetching, for bytes of which some are read again.
    ///
    /// # Safety
    /// As for [`Sixteen::transposed`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn header(&self, at: usize) -> [__m512i; 4] {
        let lanes = |[a, b, c, d]: [*const u8; 4]| {
            // SAFETY: the caller promises these bytes of every row.
            let [a, b, c, d] = [a, b, c, d].map(|place| unsafe { _mm_loadu_si128(place.cast()) });
            let lanes = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
            _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(lanes, c), d)
        };
        let [p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15] = self.places(at);
        // Transposes 4 by 4 words of 32 bits in each lane of 128 bits.
        by_fours([
            lanes([p0, p4, p8, p12]),
            lanes([p1, p5, p9, p13]),
            lanes([p2, p6, p10, p14]),
            lanes([p3, p7, p11, p15]),
        ])
    }

    /// Returns [`Sixteen::transposed`] of the first half of bytes `at..at + 32`, and of the second half, with half as
    /// many loads. Fetches nothing.
    ///
    /// # Safety
    /// As for [`Sixteen::transposed`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn two_transposed(&self, at: usize) -> [[__m512i; 4]; 2] {
        let pair = |a: *const u8, b: *const u8| {
            // SAFETY: the caller promises these bytes of every row.
            let [a, b] = [a, b].map(|place| unsafe { _mm256_loadu_si256(place.cast()) });
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(a), b)
        };
        let [p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15] = self.places(at);
        // Transposes 4 by 4 words of 32 bits in each lane of 128 bits. `low` has rows 0 to 3 of both halves, then rows
        // 4 to 7.
        let low = by_fours([pair(p0, p4), pair(p1, p5), pair(p2, p6), pair(p3, p7)]);
        let high = by_fours([pair(p8, p12), pair(p9, p13), pair(p10, p14), pair(p11, p15)]);
        let ([a, b, c, d], [e, f, g, h]) = (low, high);
        let first = |low, high| _mm512_shuffle_i32x4::<0b10_00_10_00>(low, high);
        let second = |low, high| _mm512_shuffle_i32x4::<0b11_01_11_01>(low, high);
        [[first(a, e), first(b, f), first(c, g), first(d, h)], [second(a, e), second(b, f), second(c, g), second(d, h)]]
    }

    /// Returns bytes `at..at + 4` of the blocks: a register with four bytes of each row. Fetches nothing.
    ///
    /// # Safety
    /// As for [`Sixteen::transposed`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn word(&self, at: usize) -> __m512i {
        // SAFETY: the caller promises these bytes of every row.
        let word = |place: *const u8| unsafe { place.cast::<i32>().read_unaligned() };
        let four = |[a, b, c, d]: [*const u8; 4]| _mm_setr_epi32(word(a), word(b), word(c), word(d));
        let [p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15] = self.places(at);
        let words = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(four([p0, p1, p2, p3])), four([p4, p5, p6, p7]));
        let words = _mm512_inserti32x4::<2>(words, four([p8, p9, p10, p11]));
        _mm512_inserti32x4::<3>(words, four([p12, p13, p14, p15]))
    }
}

/// One block of each of sixteen rows of weights, which lie at any distance from each other.
pub(in crate::kernels::x86_64) struct Rows {
    /// Address of the block of row 0.
    pub(in crate::kernels::x86_64) block: *const u8,
    /// Bytes from `block` to the block of each row.
    pub(in crate::kernels::x86_64) offsets: [u32; 16],
    /// The bytes that are fetched meanwhile. A unit of work is a byte of each row.
    pub(in crate::kernels::x86_64) ahead: Ahead,
    /// Number of units whose bytes were fetched.
    pub(in crate::kernels::x86_64) fetched: Cell<usize>,
}

// SAFETY: an address is `block`, plus the offset of the row's block, plus `at` bytes in it.
unsafe impl Sixteen for Rows {
    #[inline(always)]
    fn places(&self, at: usize) -> [*const u8; 16] {
        self.offsets.map(|offset| self.block.wrapping_add(offset as usize + at))
    }

    #[inline(always)]
    fn fetch(&self, len: usize) {
        self.ahead.fetch(self.fetched.get(), len);
        self.fetched.set(self.fetched.get() + len);
    }
}

/// Returns the transposed four by four words of 32 bits in each lane of 128 bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn by_fours([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    let (ab0, ab1) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd0, cd1) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab0, cd0),
        _mm512_unpackhi_epi64(ab0, cd0),
        _mm512_unpacklo_epi64(ab1, cd1),
        _mm512_unpackhi_epi64(ab1, cd1),
    ]
}

/// Returns the f16 numbers in the lower halves of the lanes as f32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn low_f16(v: __m512i) -> __m512 {
    _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v))
}

/// Returns the f16 numbers in the upper halves of the lanes as f32.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn high_f16(v: __m512i) -> __m512 {
    low_f16(_mm512_srli_epi32::<16>(v))
}

/// Shifts every byte to the right by `shift` bits, and returns its bits in `mask`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn bits(v: __m512i, shift: usize, mask: u8) -> __m512i {
    let shifted = _mm512_srl_epi32(v, _mm_cvtsi32_si128(shift as i32));
    _mm512_and_si512(shifted, _mm512_set1_epi8(mask as i8))
}

/// Returns every byte times 2^`shift`. The bits that leave a byte must be 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn raised(v: __m512i, shift: usize) -> __m512i {
    _mm512_sll_epi32(v, _mm_cvtsi32_si128(shift as i32))
}

/// Returns the codes of IQ4_NL and IQ4_XS, plus 128, for the indices in the bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn values(indices: __m512i) -> __m512i {
    // The table of docs/arithmetic.md plus 128: -127, -104, -83, -65 and so on, from the lowest byte.
    const TABLE: [i32; 4] = [0x3f2d_1801, 0x766a_5d4f, 0xa699_8d81_u32 as i32, 0xf1d9_c5b5_u32 as i32];
    let [a, b, c, d] = TABLE;
    _mm512_shuffle_epi8(_mm512_set4_epi32(d, c, b, a), indices)
}

/// Returns the codes of MXFP4, plus 12, for the indices in the bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn fp4_values(indices: __m512i) -> __m512i {
    // The table of docs/arithmetic.md plus 12: 12, 13, 14, 15 and so on, from the lowest byte.
    const TABLE: [i32; 4] = [0x0f0e_0d0c, 0x1814_1210, 0x090a_0b0c, 0x0004_0608];
    let [a, b, c, d] = TABLE;
    _mm512_shuffle_epi8(_mm512_set4_epi32(d, c, b, a), indices)
}

/// Returns 2^(e - 128) for the lowest byte e of each lane, and 0 for e below [`LEAST_EXPONENT`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn powers_of_two(exponents: __m512i) -> __m512 {
    let exponents = _mm512_and_si512(exponents, _mm512_set1_epi32(0xff));
    let least = _mm512_set1_epi32(LEAST_EXPONENT.into());
    let powers = _mm512_slli_epi32::<23>(_mm512_sub_epi32(exponents, _mm512_set1_epi32(1)));
    _mm512_castsi512_ps(_mm512_maskz_mov_epi32(_mm512_cmpge_epu32_mask(exponents, least), powers))
}

/// Returns half the E4M3 number in the lowest byte of each lane, without its sign. A NaN without sign gives 0.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn half_e4m3(lanes: __m512i) -> __m512 {
    let bytes = _mm512_and_si512(lanes, _mm512_set1_epi32(0xff));
    let numbers = _mm512_and_si512(bytes, _mm512_set1_epi32(0x7f));
    // (1 + m / 8) * 2^(e - 8), and m * 2^-10 where the exponent is 0.
    let normal = _mm512_add_epi32(_mm512_slli_epi32::<20>(numbers), _mm512_set1_epi32(119 << 23));
    let small = _mm512_mul_ps(_mm512_cvtepi32_ps(numbers), _mm512_set1_ps(f32::from_bits(117 << 23)));
    let halves =
        _mm512_mask_mov_ps(_mm512_castsi512_ps(normal), _mm512_cmplt_epu32_mask(numbers, _mm512_set1_epi32(8)), small);
    _mm512_maskz_mov_ps(_mm512_cmpneq_epu32_mask(bytes, _mm512_set1_epi32(0x7f)), halves)
}
