//! Products of a panel of unpacked weights and some rows of activations.
//!
//! Sixteen rows of weights (two groups) are multiplied with `T` rows of activations. Four activations are broadcast to
//! all lanes, and each lane multiplies them with four codes of its row. Products are summed in 16 bits as long as they
//! fit, then in 32 bits, times the sub-scale where there is one. The integers of a (super-)block then continue the
//! ordered chains.
//!
//! This many sums of two products fit 16 bits, with |x| <= 127: 8 for codes of 4 bits (8 * 2 * 15 * 127 = 30,480), 4
//! for 5 bits (31,496), 2 for 6 bits (32,004), and 1 for codes with sign, as |code| times the activation with the
//! code's sign (32,512).

use core::arch::x86_64::*;

use super::blocks_32::Blocks32;
use super::blocks_256::Blocks256;
use super::isa::{Avx2, Isa};
use super::lanes::hidden;
use super::matvec::offset_32;
use super::panel::{BLOCK_32, BLOCK_256, GROUP, PAIRS, SCALES, SUB_SCALES};
use super::row::{Row, Tile};
use super::transposed::{pairs, sums_of_pairs};
use crate::kernels::generic::OUTPUTS;
use crate::kernels::x86_64::ahead::Ahead;

/// Integer sums in lanes of 32 bits: `[rows of activations][groups]`.
type Integers<const T: usize> = [[__m256i; 2]; T];

/// Adds the products of `blocks` blocks of 32 to 16 outputs for each of `T` rows. A unit of work of `ahead` is 32
/// columns.
///
/// # Safety
/// `panel` has two groups of `blocks` blocks, and each of the `T` rows has as many, and 16 outputs.
#[inline(always)]
pub(super) unsafe fn sweep_32<I: Isa, F: Blocks32, const T: usize>(
    isa: I,
    panel: *const u8,
    ahead: Ahead,
    blocks: usize,
    tile: Tile,
) {
    // SAFETY: `isa` proves the instructions. b is below `blocks`, and the caller promises `blocks` blocks in both
    // groups and in every row, and 16 outputs of each row, of which group g has 8.
    unsafe {
        let rows: [Row; T] = tile.rows();
        let offset = offset_32::<I, F>();
        for b in 0..blocks {
            if !ahead.is_none() {
                ahead.fetch(b, 1);
            }
            let panel = panel.add(b * BLOCK_32);
            let codes = rows.map(|x| x.codes.add(b * 32));
            for part in 0..F::SCALES {
                let mut isums = [[_mm256_setzero_si256(); 2]; T];
                if I::VNNI {
                    if offset != 0 {
                        for (isums, x) in isums.iter_mut().zip(rows) {
                            *isums = [_mm256_madd_epi16(pair(x, b), _mm256_set1_epi16(-offset)); 2];
                        }
                    }
                    products_u8::<I, T>(isa, panel, &codes, &mut isums);
                } else {
                    let (ones, registers) = ([_mm256_set1_epi16(1); 2], 8 / F::SCALES);
                    let (codes, panel) = (codes.map(|x| x.add(4 * registers * part)), panel.add(32 * registers * part));
                    let (fit, in_order) = (sums_of(F::BITS), matches!((sums_of(F::BITS), registers), (0 | 8, 8)));
                    products::<I, T>(isa, panel, &codes, registers, fit, in_order, &ones, &mut isums);
                }
                continue_chains::<I, F, T>(panel, b, part, &isums, tile);
            }
        }
    }
}

/// Continues the chains of 16 outputs of `T` rows with the integers of part `part` of block `b`.
///
/// # Safety
/// The processor has AVX2; `panel` is block `b` of two groups, and each of the `T` rows has this block, and 16 outputs.
#[inline(always)]
unsafe fn continue_chains<I: Isa, F: Blocks32, const T: usize>(
    panel: *const u8,
    b: usize,
    part: usize,
    isums: &Integers<T>,
    tile: Tile,
) {
    let offset = if I::VNNI { 0 } else { offset_32::<I, F>() };
    let tile = tile.hidden();
    // SAFETY: the caller promises AVX2, block b in both groups and in every row, and 16 outputs of each row, of which
    // group g has 8.
    unsafe {
        for (t, (isums, x)) in isums.iter().zip(tile.rows::<T>()).enumerate() {
            let dx = _mm256_set1_ps(*x.scales.add(b));
            let sums = pair(x, b);
            let msum = _mm256_cvtepi32_ps(_mm256_madd_epi16(sums, _mm256_set1_epi16(1)));
            for (g, &isum) in isums.iter().enumerate() {
                let scales = panel.add(g * GROUP + 256).cast::<f32>();
                let scale = _mm256_mul_ps(_mm256_loadu_ps(scales.add(8 * part)), dx);
                let isum = if offset == 0 {
                    isum
                } else {
                    _mm256_add_epi32(isum, _mm256_madd_epi16(sums, _mm256_set1_epi16(-offset)))
                };
                let out = tile.out.add(t * OUTPUTS + g * 8);
                let mut acc = _mm256_add_ps(_mm256_loadu_ps(out), _mm256_mul_ps(_mm256_cvtepi32_ps(isum), scale));
                if F::MIN {
                    let min = _mm256_mul_ps(_mm256_loadu_ps(scales.add(8)), dx);
                    acc = _mm256_add_ps(acc, _mm256_mul_ps(msum, min));
                }
                _mm256_storeu_ps(out, acc);
            }
        }
    }
}

/// Adds the products of `blocks` super-blocks to 16 outputs for each of `T` rows.
///
/// # Safety
/// As [`sweep_32`].
#[inline(always)]
pub(super) unsafe fn sweep_256<F: Blocks256, const T: usize>(
    isa: Avx2,
    panel: *const u8,
    ahead: Ahead,
    blocks: usize,
    tile: Tile,
) {
    // SAFETY: `isa` proves the instructions. b is below `blocks`, and the caller promises `blocks` blocks in both
    // groups and in every row, and 16 outputs of each row, of which group g has 8.
    unsafe {
        let x: [Row; T] = tile.rows();
        for b in 0..blocks {
            let panel = panel.add(b * BLOCK_256);
            let mut isums = [[_mm256_setzero_si256(); 2]; T];
            for sub in 0..256 / F::SUB {
                if (sub * F::SUB).is_multiple_of(32) && !ahead.is_none() {
                    ahead.fetch(8 * b + sub * F::SUB / 32, 1);
                }
                let codes = x.map(|x| x.codes.add(b * 256 + sub * F::SUB));
                let scales = panel.add(SUB_SCALES + sub * 32);
                let scales = [load(scales), load(scales.add(GROUP))];
                let panel = panel.add(sub * F::SUB * 8);
                let (fit, registers) = (sums_of(F::BITS), F::SUB / 4);
                let in_order = matches!((fit, registers), (0 | 8, 8));
                products::<Avx2, T>(isa, panel, &codes, registers, fit, in_order, &scales, &mut isums);
            }
            let mut sums = x.map(|x| x.sums.add(b * 16));
            let mut of_32 = [[0; 8]; T];
            for (sums, of_32) in sums.iter_mut().zip(&mut of_32) {
                *sums = sums_of_pairs::<F>(*sums, of_32);
            }
            if F::OFFSET > 0 {
                add_pairs::<F, T>(isa, panel, &sums, &mut isums);
            }
            let tile = tile.hidden();
            let x: [Row; T] = tile.rows();
            for (t, (isums, x)) in isums.into_iter().zip(x).enumerate() {
                let dx = _mm256_set1_ps(*x.scales.add(b));
                for (g, isum) in isums.into_iter().enumerate() {
                    let scale = _mm256_mul_ps(_mm256_loadu_ps(panel.add(g * GROUP + SCALES).cast()), dx);
                    let out = tile.out.add(t * OUTPUTS + g * 8);
                    let term = _mm256_mul_ps(_mm256_cvtepi32_ps(isum), scale);
                    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_loadu_ps(out), term));
                }
            }
            if F::MIN.is_some() {
                let mut msums = [[_mm256_setzero_si256(); 2]; T];
                add_pairs::<F, T>(isa, panel, &sums, &mut msums);
                for (t, (msums, x)) in msums.into_iter().zip(x).enumerate() {
                    let dx = _mm256_set1_ps(*x.scales.add(b));
                    for (g, msum) in msums.into_iter().enumerate() {
                        let min = _mm256_mul_ps(_mm256_loadu_ps(panel.add(g * GROUP + SCALES + 32).cast()), dx);
                        let out = tile.out.add(t * OUTPUTS + g * 8);
                        let term = _mm256_mul_ps(_mm256_cvtepi32_ps(msum), min);
                        _mm256_storeu_ps(out, _mm256_sub_ps(_mm256_loadu_ps(out), term));
                    }
                }
            }
        }
    }
}

/// Returns the two sums of 16 activations of block `b`, in every lane.
///
/// # Safety
/// The processor has AVX2, and the row has block `b`.
#[inline(always)]
unsafe fn pair(x: Row, b: usize) -> __m256i {
    // SAFETY: the caller promises AVX2 and block b, which has two sums.
    unsafe { _mm256_set1_epi32(x.sums.add(b * 2).cast::<i32>().read_unaligned()) }
}

/// Returns the number of registers of pairs of products whose sum fits 16 bits, or 0 for codes with sign.
pub(super) const fn sums_of(bits: u32) -> usize {
    match bits {
        0..=4 => 8,
        5 => 4,
        6 => 2,
        7 => 1,
        _ => 0,
    }
}

/// Adds `scales` times the products of `registers` registers of codes per group to `isums`. The products of `fit`
/// registers can be summed in 16 bits.
///
/// Left alone, the compiler adds the products in a tree, for which it keeps most sums in memory. Callers set `in_order`
/// where additions in the order of the source were measured to be faster.
///
/// # Safety
/// Both groups have `registers` registers of codes at `panel`, and each of `x` has four activations for each register.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // Most arguments are constants, and the function is inlined into its callers.
unsafe fn products<I: Isa, const T: usize>(
    isa: I,
    panel: *const u8,
    x: &[*const i8; T],
    registers: usize,
    fit: usize,
    in_order: bool,
    scales: &[__m256i; 2],
    isums: &mut Integers<T>,
) {
    // SAFETY: `isa` proves the instructions; the caller promises `registers` registers of codes per group and four
    // activations for each, and i is below `registers`, a multiple of the step.
    unsafe {
        let step = fit.min(registers).max(1);
        for first in (0..registers).step_by(step) {
            let mut pairs = [[_mm256_setzero_si256(); 2]; T];
            for i in first..first + step {
                let codes = [load(panel.add(i * 32)), load(panel.add(GROUP + i * 32))];
                for (pairs, &x) in pairs.iter_mut().zip(x) {
                    let x = _mm256_set1_epi32(x.add(i * 4).cast::<i32>().read_unaligned());
                    for (pairs, codes) in pairs.iter_mut().zip(codes) {
                        let product = if fit > 0 {
                            _mm256_maddubs_epi16(codes, x)
                        } else {
                            _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes))
                        };
                        *pairs = if i == first { product } else { _mm256_add_epi16(*pairs, product) };
                        if in_order && fit > 0 {
                            *pairs = hidden(*pairs);
                        }
                    }
                }
            }
            for (isums, pairs) in isums.iter_mut().zip(pairs) {
                for ((isum, pairs), &scale) in isums.iter_mut().zip(pairs).zip(scales) {
                    *isum = isa.dot_i16(*isum, pairs, scale);
                    if in_order && fit == 0 {
                        *isum = hidden(*isum);
                    }
                }
            }
        }
    }
}

/// Adds the products of a block of 32 with codes without sign to `isums`.
///
/// # Safety
/// `panel` is a block of 32 of two groups, and each of `x` has 32 activations.
#[inline(always)]
unsafe fn products_u8<I: Isa, const T: usize>(isa: I, panel: *const u8, x: &[*const i8; T], isums: &mut Integers<T>) {
    // SAFETY: `isa` proves the instructions; the caller promises 8 registers of codes per group and 32 activations, and
    // i is below 8.
    unsafe {
        for i in 0..8 {
            let codes = [load(panel.add(i * 32)), load(panel.add(GROUP + i * 32))];
            for (isums, &x) in isums.iter_mut().zip(x) {
                let x = _mm256_set1_epi32(x.add(i * 4).cast::<i32>().read_unaligned());
                for (isum, codes) in isums.iter_mut().zip(codes) {
                    *isum = isa.dot_u8(*isum, codes, x);
                }
            }
        }
    }
}

/// Adds the pairs of a super-block times `sums` to `integers`.
///
/// # Safety
/// `panel` is a super-block of two groups, and each of `sums` has two elements for each pair.
#[inline(always)]
unsafe fn add_pairs<F: Blocks256, const T: usize>(
    isa: Avx2,
    panel: *const u8,
    sums: &[*const i16; T],
    integers: &mut Integers<T>,
) {
    // SAFETY: `isa` proves the instructions; the caller promises a super-block with its pairs, and two sums for each
    // pair.
    unsafe {
        for j in 0..pairs::<F>() {
            let pairs = [load(panel.add(PAIRS + j * 32)), load(panel.add(GROUP + PAIRS + j * 32))];
            for (integers, &sums) in integers.iter_mut().zip(sums) {
                let sums = _mm256_set1_epi32(sums.add(2 * j).cast::<i32>().read_unaligned());
                for (integer, pairs) in integers.iter_mut().zip(pairs) {
                    *integer = isa.dot_i16(*integer, pairs, sums);
                }
            }
        }
    }
}

/// # Safety
/// The processor has AVX; 32 bytes can be read.
#[inline(always)]
unsafe fn load(from: *const u8) -> __m256i {
    // SAFETY: the caller promises AVX and 32 bytes to read; no alignment is needed.
    unsafe { _mm256_loadu_si256(from.cast()) }
}
