//! Super-blocks of eight rows of weights, with a row in each lane of 32 bits: the parts that codes are made of, the
//! sub-scales, and the factors of the sums of activations.

use core::arch::x86_64::*;

use super::blocks_256::{Blocks256, Parts, six_bits};
use super::isa::{Avx2, Isa};
use super::lanes::{fours, transpose};

/// Returns part `k` of eight rows: register i has bytes 4 i to 4 i + 3 of each row.
///
/// # Safety
/// The processor has AVX2; the pointers lead to eight super-blocks, and part `k` exists.
#[inline(always)]
pub(super) unsafe fn transposed_part<F: Blocks256>(block: &[*const u8; 8], k: usize) -> [__m256i; 8] {
    // SAFETY: the caller promises AVX2, the super-blocks and the part.
    unsafe {
        let mut rows = [_mm256_setzero_si256(); 8];
        for (row, &block) in rows.iter_mut().zip(block) {
            *row = F::part(block, k);
        }
        transpose(&rows)
    }
}

/// Register `i`, below 8, of each of the transposed parts.
pub(super) struct Register<'a> {
    pub(super) parts: &'a [[__m256i; 8]],
    pub(super) i: usize,
}

impl Parts for Register<'_> {
    #[inline(always)]
    unsafe fn part(&self, k: usize) -> __m256i {
        // SAFETY: the caller promises part k, and who makes a `Register` gives all parts and an index below 8.
        unsafe { *self.parts.get_unchecked(k).get_unchecked(self.i) }
    }
}

/// The sub-scales and sub-minima of eight rows. A register has four sub-blocks, a byte each.
pub(super) struct SubsOfLanes {
    scales: [__m256i; 4],
    mins: [__m256i; 4],
}

impl SubsOfLanes {
    /// # Safety
    /// The processor has AVX2; each pointer leads to a super-block.
    #[inline(always)]
    pub(super) unsafe fn new<F: Blocks256>(block: &[*const u8; 8]) -> Self {
        // SAFETY: the caller promises AVX2 and the super-blocks.
        unsafe {
            if F::SIX_BITS {
                let zero = _mm256_setzero_si256();
                let [scales, mins] = six_bits(block).map(|[first, second]| [first, second, zero, zero]);
                return Self { scales, mins };
            }
            let (mut scales, mut mins) = ([_mm_setzero_si128(); 8], [_mm_setzero_si128(); 8]);
            for ((scales, mins), &block) in scales.iter_mut().zip(&mut mins).zip(block) {
                let subs = F::subs(block);
                (*scales, *mins) = (subs.scales, subs.mins);
            }
            let (scales, mins) = (fours(&scales), fours(&mins));
            Self { scales, mins }
        }
    }

    /// Returns the sub-scale of sub-block `sub` twice in each lane, as i16.
    ///
    /// # Safety
    /// The processor has AVX2, and the sub-block exists.
    #[inline(always)]
    pub(super) unsafe fn twice(&self, sub: usize) -> __m256i {
        // SAFETY: the caller promises AVX2 and one of at most 16 sub-blocks, four to a register.
        unsafe { spread(*self.scales.get_unchecked(sub / 4), [sub % 4; 2], 0) }
    }

    /// Returns the factors of the sums of the activations of sub-blocks 2 j and 2 j + 1, as i16: their sub-minima, or
    /// minus their sub-scales times the offset of the codes.
    ///
    /// # Safety
    /// As [`SubsOfLanes::twice`].
    #[inline(always)]
    pub(super) unsafe fn pair<F: Blocks256>(&self, j: usize) -> __m256i {
        let (four, both) = (j / 2, [2 * j % 4, 2 * j % 4 + 1]);
        // SAFETY: the caller promises AVX2 and two of at most 16 sub-blocks, four to a register.
        unsafe {
            if F::MIN.is_some() {
                return spread(*self.mins.get_unchecked(four), both, 0);
            }
            // A sub-scale is at least -128, so -(-128 * 32) fits an i16.
            let shifted = spread(*self.scales.get_unchecked(four), both, F::OFFSET.trailing_zeros());
            _mm256_sub_epi16(_mm256_setzero_si256(), shifted)
        }
    }
}

/// Returns the number of [pairs](SubsOfLanes::pair).
pub(super) const fn pairs<F: Blocks256>() -> usize {
    if F::MIN.is_none() && F::OFFSET == 0 { 0 } else { 128 / F::SUB }
}

/// Returns two of the four bytes of each lane of 32 bits, as i16, times 2^`left`, which is at most 2^8.
///
/// # Safety
/// The processor has AVX2; the indices of the bytes are below 4.
#[inline(always)]
unsafe fn spread(lanes: __m256i, [first, second]: [usize; 2], left: u32) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        // A byte moves to the upper half of 16 bits, and the lower half becomes 0.
        let first_bytes = _mm_setr_epi8(-128, 0, -128, 0, -128, 4, -128, 4, -128, 8, -128, 8, -128, 12, -128, 12);
        let order = _mm256_broadcastsi128_si256(first_bytes);
        let order = _mm256_add_epi8(order, _mm256_set1_epi32((first << 8 | second << 24) as i32));
        _mm256_sra_epi16(_mm256_shuffle_epi8(lanes, order), _mm_cvtsi32_si128(8 - left as i32))
    }
}

/// Adds the [pairs](SubsOfLanes::pair) times the sums of their activations to `integers`, for `N` rows of activations
/// with 16 sums of 16 activations each.
///
/// # Safety
/// Each of `of_16` has 16 elements.
#[inline(always)]
pub(super) unsafe fn add_pairs<F: Blocks256, const N: usize>(
    isa: Avx2,
    subs: &SubsOfLanes,
    of_16: [*const i16; N],
    integers: &mut [__m256i; N],
) {
    // SAFETY: `isa` proves the instructions; the caller promises the sums, of which each pair has two.
    unsafe {
        let (mut of_32, mut sums) = ([[0; 8]; N], of_16);
        for (sums, of_32) in sums.iter_mut().zip(&mut of_32) {
            *sums = sums_of_pairs::<F>(*sums, of_32);
        }
        for j in 0..pairs::<F>() {
            let pair = subs.pair::<F>(j);
            for (integer, sums) in integers.iter_mut().zip(sums) {
                let sums = _mm256_set1_epi32(sums.add(2 * j).cast::<i32>().read_unaligned());
                *integer = isa.dot_i16(*integer, pair, sums);
            }
        }
    }
}

/// Returns the sums of activations that belong to [pairs](SubsOfLanes::pair), two for each, from sums of 16
/// activations. With sub-blocks of 32 they are stored in `of_32`.
///
/// # Safety
/// The processor has AVX2, and `of_16` has 16 elements.
#[inline(always)]
pub(super) unsafe fn sums_of_pairs<F: Blocks256>(of_16: *const i16, of_32: &mut [i16; 8]) -> *const i16 {
    if F::SUB == 16 {
        return of_16;
    }
    // SAFETY: the caller promises AVX2 and 16 elements; the array has the 16 bytes that are written.
    unsafe {
        let sums = _mm256_madd_epi16(_mm256_loadu_si256(of_16.cast()), _mm256_set1_epi16(1));
        let sums = _mm_packs_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
        _mm_storeu_si128(of_32.as_mut_ptr().cast(), sums);
    }
    of_32.as_ptr()
}
