//! Weights unpacked for several rows of activations: eight rows of weights in the lanes of a register.
//!
//! A group is eight rows, up to [`CHUNK`] columns of them. Per block of 32 it holds: the codes, 4 columns of eight rows
//! to a register; the scales of eight rows, f32; the minima where there are some, or the second scales. Per
//! super-block: the codes; per sub-block its sub-scale twice, as i16; per 32 columns the two numbers that the two sums
//! of 16 activations are multiplied with (sub-minima, or sub-scales times the offset of the codes); the scale; the
//! scale of the minima.

use core::arch::x86_64::*;

use super::blocks_32::Blocks32;
use super::blocks_256::Blocks256;
use super::isa::{Avx2, Isa};
use super::lanes::{halves, transpose, words};
use crate::kernels::x86_64::ahead::Ahead;

/// Columns that are unpacked at a time: two groups stay in the first-level cache.
pub(super) const CHUNK: usize = 1024;
/// Bytes of a group: 4 super-blocks or 32 blocks.
pub(super) const GROUP: usize = 4 * BLOCK_256;

/// Bytes of a block of 32 of eight rows.
pub(super) const BLOCK_32: usize = 256 + 2 * 32;
/// Bytes of a super-block of eight rows, and where its parts begin.
pub(super) const BLOCK_256: usize = SCALES + 2 * 32;
pub(super) const SUB_SCALES: usize = 2048;
pub(super) const PAIRS: usize = SUB_SCALES + 16 * 32;
pub(super) const SCALES: usize = PAIRS + 8 * 32;

const _: () = assert!(CHUNK / 32 * BLOCK_32 <= GROUP && CHUNK / 256 * BLOCK_256 <= GROUP);

/// Unpacks `blocks` blocks of 32, or parts, of eight rows, [`Ahead::UNITS`] units of work each.
///
/// # Safety
/// The rows have so many blocks; `panel` has `blocks * BLOCK_32` bytes.
#[inline(always)]
pub(super) unsafe fn pack_32<I: Isa, F: Blocks32>(
    _: I,
    rows: [*const u8; 8],
    ahead: Ahead,
    blocks: usize,
    panel: *mut u8,
) {
    // SAFETY: the first argument proves the instructions. The caller promises `blocks` blocks of each row and of the
    // panel, and b is below that; a block of the panel has 8 registers of codes, then 8 scales and 8 minima.
    unsafe {
        for b in 0..blocks {
            let block = rows.map(|row| row.add(F::block(b)));
            let panel = panel.add(b * BLOCK_32);
            ahead.fetch(Ahead::UNITS * b, Ahead::UNITS);
            let mut codes = [_mm256_setzero_si256(); 8];
            for (codes, &row) in codes.iter_mut().zip(&rows) {
                *codes = F::codes(row.add(F::part(b)));
                if F::BITS == 8 && I::VNNI {
                    *codes = _mm256_xor_si256(*codes, _mm256_set1_epi8(-128));
                }
            }
            store(panel, &transpose(&codes));
            let bits = words(&block, 0);
            _mm256_storeu_ps(panel.add(256).cast(), F::scales(bits));
            if F::SCALES == 2 {
                _mm256_storeu_ps(panel.add(288).cast(), F::scales(_mm_srli_epi16::<8>(bits)));
            }
            if F::MIN {
                _mm256_storeu_ps(panel.add(288).cast(), halves(&block, 2));
            }
        }
    }
}

/// Unpacks `blocks` super-blocks of eight rows, [`Ahead::UNITS`] units of work each.
///
/// # Safety
/// The rows have so many super-blocks; `panel` has `blocks * BLOCK_256` bytes.
#[inline(always)]
pub(super) unsafe fn pack_256<F: Blocks256>(
    _: Avx2,
    rows: [*const u8; 8],
    ahead: Ahead,
    blocks: usize,
    panel: *mut u8,
) {
    // SAFETY: the first argument proves AVX2 and F16C. The caller promises `blocks` super-blocks of each row and of the
    // panel; b is below that, and all parts lie below BLOCK_256.
    unsafe {
        for b in 0..blocks {
            let block = rows.map(|row| row.add(b * F::BYTES));
            let panel = panel.add(b * BLOCK_256);
            // One by one, so that the shifts are constants.
            pack_codes::<F>(&block, 0, ahead.skip(Ahead::UNITS * b), panel);
            pack_codes::<F>(&block, 1, ahead.skip(Ahead::UNITS * b), panel);
            pack_codes::<F>(&block, 2, ahead.skip(Ahead::UNITS * b), panel);
            pack_codes::<F>(&block, 3, ahead.skip(Ahead::UNITS * b), panel);
            pack_codes::<F>(&block, 4, ahead.skip(Ahead::UNITS * b), panel);
            pack_codes::<F>(&block, 5, ahead.skip(Ahead::UNITS * b), panel);
            pack_codes::<F>(&block, 6, ahead.skip(Ahead::UNITS * b), panel);
            pack_codes::<F>(&block, 7, ahead.skip(Ahead::UNITS * b), panel);
            pack_subs::<F>(&block, panel);
            _mm256_storeu_ps(panel.add(SCALES).cast(), F::scales(&block));
            if let Some(min) = F::MIN {
                _mm256_storeu_ps(panel.add(SCALES + 32).cast(), halves(&block, min));
            }
        }
    }
}

/// Codes 32 j to 32 j + 31 of a super-block of eight rows.
///
/// # Safety
/// The processor has AVX2; the eight blocks and a super-block of the panel are there, and j is below 8.
#[inline(always)]
unsafe fn pack_codes<F: Blocks256>(block: &[*const u8; 8], j: usize, ahead: Ahead, panel: *mut u8) {
    ahead.fetch(j, 1);
    // SAFETY: the caller promises AVX2, the blocks and the super-block of the panel, whose codes are 8 times 256 bytes;
    // j < 8.
    unsafe {
        let mut codes = [_mm256_setzero_si256(); 8];
        for (codes, &block) in codes.iter_mut().zip(block) {
            *codes = F::codes(block, j);
        }
        store(panel.add(j * 256), &transpose(&codes));
    }
}

/// The sub-scales and the pairs of a super-block of eight rows.
///
/// # Safety
/// The processor has AVX2; the eight blocks and a super-block of the panel are there.
#[inline(always)]
unsafe fn pack_subs<F: Blocks256>(block: &[*const u8; 8], panel: *mut u8) {
    // SAFETY: the caller promises AVX2, the blocks and the super-block of the panel, which has 16 registers of
    // sub-scales and 8 of pairs: sub < 8 / per_32 + 4, so sub + 8 / per_32 < 16.
    unsafe {
        let mut low = [_mm256_setzero_si256(); 8];
        let (mut high, mut pairs) = (low, low);
        for (((&block, low), high), pairs) in block.iter().zip(&mut low).zip(&mut high).zip(&mut pairs) {
            let subs = F::subs(block);
            // Twice each: those of columns 0, 32, 64, 96, then 16, 48, 80, 112; `high` the same of the second 128.
            *low = _mm256_unpacklo_epi16(subs.scales, subs.scales);
            *high = _mm256_unpackhi_epi16(subs.scales, subs.scales);
            *pairs = natural(if F::MIN.is_some() {
                subs.mins
            } else {
                // A sub-scale is at least -128: -(-128 * 32) is an i16.
                let shifted = _mm256_sll_epi16(subs.scales, _mm_cvtsi32_si128(F::OFFSET.trailing_zeros() as i32));
                _mm256_sub_epi16(_mm256_setzero_si256(), shifted)
            });
        }
        let (low, high) = (transpose(&low), transpose(&high));
        let per_32 = F::SUB / 16;
        for (i, (low, high)) in low.into_iter().zip(high).enumerate() {
            // Sub-blocks of 32 have the same in both halves.
            if i < 4 || F::SUB == 16 {
                let sub = i % 4 * 2 / per_32 + i / 4;
                _mm256_storeu_si256(panel.add(SUB_SCALES + sub * 32).cast(), low);
                _mm256_storeu_si256(panel.add(SUB_SCALES + (sub + 8 / per_32) * 32).cast(), high);
            }
        }
        if F::MIN.is_some() || F::OFFSET > 0 {
            store(panel.add(PAIRS), &transpose(&pairs));
        }
    }
}

/// What belongs to 16 columns each, in the order of the columns.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn natural(halves: __m256i) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let (even, odd) = (_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves));
        _mm256_set_m128i(_mm_unpackhi_epi16(even, odd), _mm_unpacklo_epi16(even, odd))
    }
}

/// # Safety
/// The processor has AVX2; 8 * 32 bytes can be written at `panel`.
#[inline(always)]
unsafe fn store(panel: *mut u8, registers: &[__m256i; 8]) {
    for (i, &register) in registers.iter().enumerate() {
        // SAFETY: the caller promises AVX2 and 8 * 32 bytes, and i is below 8.
        unsafe { _mm256_storeu_si256(panel.add(i * 32).cast(), register) };
    }
}
