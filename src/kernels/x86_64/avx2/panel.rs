//! Weights that are unpacked for several rows of activations: a lane of a register belongs to one of eight rows of
//! weights.
//!
//! A group is up to [`CHUNK`] columns of eight rows. Per block of 32 it holds the codes, 4 columns of eight rows to a
//! register; the scales of eight rows, f32; the minima or the second scales, where the format has them. Per super-block
//! it holds the codes; per sub-block its sub-scale twice, as i16; per two sub-blocks the two factors of the sums of
//! their activations (sub-minima, or sub-scales times the offset of the codes); the scale; the scale of the minima.

use core::arch::x86_64::*;

use super::blocks_32::Blocks32;
use super::blocks_256::Blocks256;
use super::codes::{both, low_and_high};
use super::isa::{Avx2, Isa};
use super::lanes::{halves, transpose, words};
use super::transposed::{Register, SubsOfLanes, pairs, transposed_part};
use crate::kernels::x86_64::ahead::Ahead;

/// Number of columns that are unpacked at a time: two groups stay in the first-level cache.
pub(super) const CHUNK: usize = 1024;
/// Number of bytes of a group: 4 super-blocks or 32 blocks.
pub(super) const GROUP: usize = 4 * BLOCK_256;

/// Number of bytes of a block of 32 of eight rows.
pub(super) const BLOCK_32: usize = 256 + 2 * 32;
/// Number of bytes of a super-block of eight rows. The byte offsets of its sub-scales, pairs and scales follow.
pub(super) const BLOCK_256: usize = SCALES + 2 * 32;
pub(super) const SUB_SCALES: usize = 2048;
pub(super) const PAIRS: usize = SUB_SCALES + 16 * 32;
pub(super) const SCALES: usize = PAIRS + 8 * 32;

const _: () = assert!(CHUNK / 32 * BLOCK_32 <= GROUP && CHUNK / 256 * BLOCK_256 <= GROUP);

/// Unpacks `blocks` blocks of 32, or parts, of eight rows. Each takes [`Ahead::UNITS`] units of work.
///
/// # Safety
/// The rows have `blocks` blocks; `panel` has `blocks * BLOCK_32` bytes.
#[inline(always)]
pub(super) unsafe fn pack_32<I: Isa, F: Blocks32>(
    _: I,
    rows: [*const u8; 8],
    ahead: Ahead,
    blocks: usize,
    panel: *mut u8,
) {
    // SAFETY: the first argument proves the instructions. The caller promises `blocks` blocks of each row and of the
    // panel, and b is below that.
    unsafe {
        let mut b = 0;
        while let Some(at) = F::NIBBLES.filter(|_| b + 2 <= blocks) {
            let block = rows.map(|row| row.add(F::block(b)));
            let panel = panel.add(b * BLOCK_32);
            ahead.fetch(Ahead::UNITS * b, 2 * Ahead::UNITS);
            pack_two::<I, F>(&block, at, panel);
            pack_scales::<F>(&block, panel);
            pack_scales::<F>(&rows.map(|row| row.add(F::block(b + 1))), panel.add(BLOCK_32));
            b += 2;
        }
        while b < blocks {
            let panel = panel.add(b * BLOCK_32);
            ahead.fetch(Ahead::UNITS * b, Ahead::UNITS);
            let mut codes = [_mm256_setzero_si256(); 8];
            for (codes, &row) in codes.iter_mut().zip(&rows) {
                *codes = for_level::<I, F>(F::codes(row.add(F::part(b))));
            }
            store(panel, &transpose(&codes));
            pack_scales::<F>(&rows.map(|row| row.add(F::block(b))), panel);
            b += 1;
        }
    }
}

/// Unpacks the codes of two blocks of 32 of eight rows, from the nibbles `at` bytes after the start of each block. The
/// bytes are transposed and not the codes, as they are half as many.
///
/// # Safety
/// The processor has AVX2; two blocks of eight rows and two blocks of the panel exist.
#[inline(always)]
unsafe fn pack_two<I: Isa, F: Blocks32>(block: &[*const u8; 8], at: usize, panel: *mut u8) {
    // SAFETY: the caller promises AVX2, 16 bytes of nibbles in both blocks of each row, and two blocks of the panel, of
    // 8 registers of codes each. i is below 8: registers below 4 belong to the first block.
    unsafe {
        let mut bytes = [_mm256_setzero_si256(); 8];
        for (bytes, &block) in bytes.iter_mut().zip(block) {
            *bytes = both(block.add(at), F::BYTES);
        }
        for (i, bytes) in transpose(&bytes).into_iter().enumerate() {
            let panel = panel.add(i / 4 * BLOCK_32 + i % 4 * 32);
            let [low, high] = low_and_high(bytes).map(|nibbles| for_level::<I, F>(F::of_nibbles(nibbles)));
            _mm256_storeu_si256(panel.cast(), low);
            _mm256_storeu_si256(panel.add(4 * 32).cast(), high);
        }
    }
}

/// Returns codes in the form that the instruction of the level takes.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn for_level<I: Isa, F: Blocks32>(codes: __m256i) -> __m256i {
    if F::BITS == 8 && I::VNNI {
        // SAFETY: the caller promises AVX2, and this only computes on registers.
        return unsafe { _mm256_xor_si256(codes, _mm256_set1_epi8(-128)) };
    }
    codes
}

/// Unpacks the scales of a block of eight rows, and their minima or second scales.
///
/// # Safety
/// The processor has AVX2 and F16C; the eight blocks and a block of the panel exist.
#[inline(always)]
unsafe fn pack_scales<F: Blocks32>(block: &[*const u8; 8], panel: *mut u8) {
    // SAFETY: the caller promises the instructions, the blocks and the block of the panel, which has 8 scales and 8
    // minima behind 8 registers of codes.
    unsafe {
        let bits = words(block, 0);
        _mm256_storeu_ps(panel.add(256).cast(), F::scales(bits));
        if F::SCALES == 2 {
            _mm256_storeu_ps(panel.add(288).cast(), F::scales(_mm_srli_epi16::<8>(bits)));
        }
        if F::MIN {
            _mm256_storeu_ps(panel.add(288).cast(), halves(block, 2));
        }
    }
}

/// Unpacks `blocks` super-blocks of eight rows. Each takes [`Ahead::UNITS`] units of work.
///
/// # Safety
/// The rows have `blocks` super-blocks; `panel` has `blocks * BLOCK_256` bytes.
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
            pack_codes::<F>(&block, ahead.skip(Ahead::UNITS * b), panel);
            pack_subs::<F>(&block, panel);
            let [scales, mins] = F::scales(&block);
            _mm256_storeu_ps(panel.add(SCALES).cast(), scales);
            if F::MIN.is_some() {
                _mm256_storeu_ps(panel.add(SCALES + 32).cast(), mins);
            }
        }
    }
}

/// Unpacks the codes of a super-block of eight rows: 8 registers per 32 columns, of which register i has columns 4 i to
/// 4 i + 3. Their parts are transposed, or the codes themselves where the format has many parts.
///
/// # Safety
/// The processor has AVX2; the eight blocks and a super-block of the panel exist.
#[inline(always)]
unsafe fn pack_codes<F: Blocks256>(block: &[*const u8; 8], ahead: Ahead, panel: *mut u8) {
    // SAFETY: the caller promises AVX2, the blocks and the super-block of the panel. k is the index of a part.
    unsafe {
        let mut parts = [[_mm256_setzero_si256(); 8]; FEW_PARTS];
        if F::PARTS <= FEW_PARTS {
            for (k, part) in parts.iter_mut().take(F::PARTS).enumerate() {
                *part = transposed_part::<F>(block, k);
            }
        }
        // One by one, so that the shifts are constants.
        pack_32_codes::<F>(block, &parts, 0, ahead, panel);
        pack_32_codes::<F>(block, &parts, 1, ahead, panel);
        pack_32_codes::<F>(block, &parts, 2, ahead, panel);
        pack_32_codes::<F>(block, &parts, 3, ahead, panel);
        pack_32_codes::<F>(block, &parts, 4, ahead, panel);
        pack_32_codes::<F>(block, &parts, 5, ahead, panel);
        pack_32_codes::<F>(block, &parts, 6, ahead, panel);
        pack_32_codes::<F>(block, &parts, 7, ahead, panel);
    }
}

/// Largest number of parts that it pays to keep in memory for all codes: with the six parts of Q6_K nothing is gained.
const FEW_PARTS: usize = 4;

/// Unpacks codes 32 j to 32 j + 31 of a super-block of eight rows, from their transposed parts where the parts are few.
///
/// # Safety
/// As [`pack_codes`]; j is below 8.
#[inline(always)]
unsafe fn pack_32_codes<F: Blocks256>(
    block: &[*const u8; 8],
    parts: &[[__m256i; 8]; FEW_PARTS],
    j: usize,
    ahead: Ahead,
    panel: *mut u8,
) {
    ahead.fetch(j, 1);
    // SAFETY: the caller promises AVX2, the blocks and the super-block of the panel, whose codes are 8 times 256 bytes. j
    // and i are below 8.
    unsafe {
        let mut codes = [_mm256_setzero_si256(); 8];
        if F::PARTS <= FEW_PARTS {
            for (i, codes) in codes.iter_mut().enumerate() {
                *codes = F::codes_of(Register { parts, i }, j);
            }
        } else {
            for (codes, &block) in codes.iter_mut().zip(block) {
                *codes = F::codes(block, j);
            }
            codes = transpose(&codes);
        }
        store(panel.add(j * 256), &codes);
    }
}

/// Unpacks the sub-scales and the pairs of a super-block of eight rows.
///
/// # Safety
/// The processor has AVX2; the eight blocks and a super-block of the panel exist.
#[inline(always)]
unsafe fn pack_subs<F: Blocks256>(block: &[*const u8; 8], panel: *mut u8) {
    // SAFETY: the caller promises AVX2, the blocks and the super-block of the panel, which has room for 16 sub-scales and
    // 8 pairs.
    unsafe {
        let subs = SubsOfLanes::new::<F>(block);
        for sub in 0..256 / F::SUB {
            _mm256_storeu_si256(panel.add(SUB_SCALES + sub * 32).cast(), subs.twice(sub));
        }
        for j in 0..pairs::<F>() {
            _mm256_storeu_si256(panel.add(PAIRS + j * 32).cast(), subs.pair::<F>(j));
        }
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
