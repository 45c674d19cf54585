//! Products of super-blocks of eight rows of weights and a few rows of activations, straight from the file.
//!
//! The bytes of eight rows are transposed, so that each lane belongs to a row. Four activations are broadcast to all
//! lanes, as in `sweep`. The codes are made of the transposed bytes, and never written to memory.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::blocks_256::Blocks256;
use super::isa::{Avx2, Isa};
use super::matvec::add_integers;
use super::row::Row;
use super::sweep::sums_of;
use super::transposed::{Register, SubsOfLanes, transposed_part};

/// Continues the chains of eight outputs for each of `N` rows of activations by super-block b. Calls `fetch` eight
/// times.
///
/// # Safety
/// Each of `block` points to a super-block of codes without sign, and each of `x` has super-block b.
#[inline(always)]
pub(super) unsafe fn add_transposed<F: Blocks256, const N: usize>(
    isa: Avx2,
    block: [*const u8; 8],
    x: [Row; N],
    b: usize,
    accs: &mut [__m256; N],
    mut fetch: impl FnMut(),
) {
    // SAFETY: `isa` proves the instructions. The caller promises the super-blocks of the rows and of each of x.
    unsafe {
        let mut work = Work::<F, N>::new(&block, x.map(|x| x.codes.add(b * 256)));
        // One by one, so that the shifts are constants.
        work.add_codes(isa, 0, &mut fetch);
        work.add_codes(isa, 1, &mut fetch);
        work.add_codes(isa, 2, &mut fetch);
        work.add_codes(isa, 3, &mut fetch);
        work.add_codes(isa, 4, &mut fetch);
        work.add_codes(isa, 5, &mut fetch);
        work.add_codes(isa, 6, &mut fetch);
        work.add_codes(isa, 7, &mut fetch);
        add_integers::<F, N>(isa, &block, &work.subs, x, b, work.isums, accs);
    }
}

/// The products of a super-block of eight rows of weights with `N` rows of activations, in progress.
struct Work<'a, F, const N: usize> {
    block: &'a [*const u8; 8],
    x: [*const i8; N],
    /// Transposed parts of the super-block.
    parts: [[__m256i; 8]; 8],
    subs: SubsOfLanes,
    /// Sums of the products so far.
    isums: [__m256i; N],
    format: PhantomData<F>,
}

impl<'a, F: Blocks256, const N: usize> Work<'a, F, N> {
    /// # Safety
    /// The processor has AVX2; each of `block` points to a super-block, and each of `x` to 256 activations.
    #[inline(always)]
    unsafe fn new(block: &'a [*const u8; 8], x: [*const i8; N]) -> Self {
        // SAFETY: the caller promises AVX2 and the super-blocks, which have `F::PARTS` parts, at most 8.
        unsafe {
            let zero = _mm256_setzero_si256();
            let mut parts = [[zero; 8]; 8];
            // Other formats have a part transposed right before it is used.
            if !F::IN_TURNS {
                for (k, part) in parts.iter_mut().take(F::PARTS).enumerate() {
                    *part = transposed_part::<F>(block, k);
                }
            }
            let subs = SubsOfLanes::new::<F>(block);
            Self { block, x, parts, subs, isums: [zero; N], format: PhantomData }
        }
    }

    /// Adds the products of codes 32 j to 32 j + 31.
    ///
    /// # Safety
    /// As [`Work::new`]; j is below 8, and the codes of all smaller j were added.
    #[inline(always)]
    unsafe fn add_codes(&mut self, isa: Avx2, j: usize, fetch: &mut impl FnMut()) {
        fetch();
        // As many registers of products as fit 16 bits, of one sub-block.
        let step = sums_of(F::BITS).clamp(1, F::SUB / 4);
        // SAFETY: `isa` proves the instructions; `new` was promised the super-blocks and the activations. i and j are
        // below 8, so the part, the sub-block and the activations are there.
        unsafe {
            if F::IN_TURNS && j.is_multiple_of(8 / F::PARTS) {
                let k = j * F::PARTS / 8;
                *self.parts.get_unchecked_mut(k) = transposed_part::<F>(self.block, k);
            }
            for first in (0..8).step_by(step) {
                let mut products = [_mm256_setzero_si256(); N];
                for i in first..first + step {
                    let codes = F::codes_of(Register { parts: &self.parts, i }, j);
                    for (products, x) in products.iter_mut().zip(self.x) {
                        let x = _mm256_set1_epi32(x.add(32 * j + 4 * i).cast::<i32>().read_unaligned());
                        let product = _mm256_maddubs_epi16(codes, x);
                        *products = if i == first { product } else { _mm256_add_epi16(*products, product) };
                    }
                }
                let scale = self.subs.twice((32 * j + 4 * first) / F::SUB);
                for (isum, products) in self.isums.iter_mut().zip(products) {
                    *isum = isa.dot_i16(*isum, products, scale);
                }
            }
        }
    }
}
