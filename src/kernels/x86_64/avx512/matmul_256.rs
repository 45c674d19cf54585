//! Products of panels with super-blocks of 256 and rows of activations.
//!
//! The codes of a super-block are summed in groups: a dot product of bytes per four codes, then one multiplication by
//! the sub-scale of the group, all in exact integers. Where the sum of a group fits 16 bits, this multiplication and
//! the addition are one instruction. Groups of 8 or 16 fit for any codes. Wider groups are faster, and mostly fit the
//! actual codes. A bound from the sums of squares of weights and activations tells. Otherwise a group is a whole
//! sub-block, and 32-bit integers are multiplied.

use core::arch::asm;
use core::arch::x86_64::*;

use super::matmul::{Input, Sums};
use super::panel_256::{Layout256, Panel256};
use crate::kernels::x86_64::ahead::Ahead;

/// Adds the products of a panel with `ROWS` rows of activations to `out`, 32 elements per row.
///
/// # Safety
/// There are at most four super-blocks and 8 rows. Every input has 256 codes, one scale and 16 sums per
/// super-block of the panel, and `out` has room for all rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn add_products<L: Layout256, const ROWS: usize>(
    panel: &[Panel256],
    inputs: &[Input; ROWS],
    sums: &mut Sums,
    ahead: Ahead,
    out: *mut f32,
) {
    // SAFETY: the caller promises at most four super-blocks, so b is below 4, at most 8 inputs with the super-blocks of
    // the panel, which have a sum of squares each, and room for their outputs.
    unsafe {
        for (b, block) in panel.iter().enumerate() {
            let ahead = ahead.skip(Ahead::UNITS * b);
            let wide = L::WIDE != 0 && inputs.iter().all(|input| *input.squares.add(b) <= block.limit);
            if wide {
                prepare::<L, true>(inputs, b, sums);
                rows_of_block::<L, true>(block, b, inputs, sums, ahead, out);
            } else {
                prepare::<L, false>(inputs, b, sums);
                rows_of_block::<L, false>(block, b, inputs, sums, ahead, out);
            }
        }
    }
}

/// Returns the number of codes that are summed before the sum is multiplied by the sub-scale.
pub(super) const fn group<L: Layout256>(wide: bool) -> usize {
    if wide && L::WIDE != 0 { L::WIDE } else { L::GROUP }
}

/// Computes the sums of the activations of super-block b that [`add_products`] needs: the starts of groups, and pairs
/// for the minima.
///
/// # Safety
/// As for [`add_products`]; `b` is below 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn prepare<L: Layout256, const WIDE: bool>(inputs: &[Input], b: usize, sums: &mut Sums) {
    for (input, (starts, pairs)) in inputs.iter().zip(sums.starts.iter_mut().zip(&mut sums.pairs)) {
        // SAFETY: the caller promises 16 sums and 256 codes of super-block b for each input; i is below 4, `starts` has
        // 256 elements and `pairs` 32.
        unsafe {
            let of_16 = _mm256_loadu_si256(input.sums.add(16 * b).cast());
            if L::OFFSET != 0 {
                let offset = i32::from(L::OFFSET);
                let starts = starts.as_mut_ptr();
                match group::<L>(WIDE) {
                    8 => {
                        // Each start twice: in both halves of a 64-bit lane.
                        for i in 0..4 {
                            let codes = _mm512_loadu_si512(input.codes.add(256 * b + 64 * i).cast());
                            let of_4 =
                                _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_set1_epi8(offset as i8), codes);
                            let negated = _mm512_sub_epi32(_mm512_setzero_si512(), of_4);
                            let of_8 = _mm512_sub_epi32(negated, _mm512_rol_epi64::<32>(of_4));
                            _mm512_storeu_si512(starts.add(16 * i).cast(), of_8);
                        }
                    }
                    length if length == 16 || L::SUBS == 16 => {
                        let of_16 =
                            _mm512_madd_epi16(_mm512_cvtepi16_epi32(of_16), _mm512_set1_epi32(-offset & 0xffff));
                        _mm512_storeu_si512(starts.cast(), of_16);
                    }
                    _ => {
                        let of_32 = _mm256_madd_epi16(of_16, _mm256_set1_epi16(-L::OFFSET));
                        _mm256_storeu_si256(starts.cast(), of_32);
                    }
                }
            }
            if L::MIN {
                let pairs = pairs.as_mut_ptr();
                if L::SUBS == 16 {
                    _mm256_storeu_si256(pairs.cast(), of_16);
                } else {
                    let of_32 = _mm256_madd_epi16(of_16, _mm256_set1_epi16(1));
                    _mm_storeu_si128(pairs.cast(), _mm256_cvtepi32_epi16(of_32));
                }
            }
        }
    }
}

/// Adds the products of super-block b to `out`.
///
/// # Safety
/// As for [`add_products`], after [`prepare`]; `b` is below 4.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn rows_of_block<L: Layout256, const WIDE: bool>(
    block: &Panel256,
    b: usize,
    inputs: &[Input],
    sums: &Sums,
    ahead: Ahead,
    out: *mut f32,
) {
    let (fours, rest) = inputs.as_chunks::<4>();
    // The units of work of a super-block, one part with each tile.
    let units = Ahead::UNITS / inputs.len().div_ceil(4).max(1);
    let ahead = |tile: usize| (ahead.skip(tile * units), units);
    // SAFETY: the caller promises super-block b of every input and `out` for all of them; the rows are `row` and those
    // that follow it, at most 8 together.
    unsafe {
        for (i, inputs) in fours.iter().enumerate() {
            tile::<L, 4, WIDE>(block, b, inputs, sums, 4 * i, ahead(i), out);
        }
        let row = 4 * fours.len();
        match rest {
            [first, second] => tile::<L, 2, WIDE>(block, b, &[*first, *second], sums, row, ahead(fours.len()), out),
            [one] => tile::<L, 1, WIDE>(block, b, &[*one], sums, row, ahead(fours.len()), out),
            _ => {}
        }
    }
}

/// Adds the products of super-block b with a few inputs, the rows from `row` on, to `out`. With four inputs, their
/// sums, the sums of their groups, the weights and the sub-scales are in registers. A function of its own keeps them
/// there.
///
/// # Safety
/// As for [`add_products`], after [`prepare`]; `b` is below 4.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn tile<L: Layout256, const ROWS: usize, const WIDE: bool>(
    block: &Panel256,
    b: usize,
    inputs: &[Input; ROWS],
    sums: &Sums,
    row: usize,
    ahead: (Ahead, usize),
    out: *mut f32,
) {
    // SAFETY: the caller promises super-block b of every input, its sums and starts, which are prepared for `WIDE`, and
    // `out` for the rows.
    unsafe {
        let isums = match group::<L>(WIDE) {
            8 | 16 => by_groups::<L, ROWS, WIDE>(block, b, inputs, sums, row, ahead),
            _ if WIDE => by_groups::<L, ROWS, WIDE>(block, b, inputs, sums, row, ahead),
            _ => by_sub_blocks::<L, ROWS>(block, b, inputs, sums, row, ahead),
        };
        finish::<L, ROWS>(block, b, inputs, sums, &isums, row, out);
    }
}

/// Returns the integers of super-block b, by groups whose sums fit 16 bits. Two groups are summed at a time. One group
/// has at most eight sums, and each addition waits so long for the one before that eight do not keep the processor
/// busy.
///
/// # Safety
/// As for [`tile`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn by_groups<L: Layout256, const ROWS: usize, const WIDE: bool>(
    block: &Panel256,
    b: usize,
    inputs: &[Input; ROWS],
    sums: &Sums,
    row: usize,
    (ahead, units): (Ahead, usize),
) -> [[__m512i; 2]; ROWS] {
    let length = const { group::<L>(WIDE) };
    let mut isums = [[_mm512_setzero_si512(); 2]; ROWS];
    // SAFETY: a group is below 256 / length, so indices of codes are below 64 and sub-scales below SUBS <= 16; the
    // caller promises 256 codes of super-block b, and `starts` has 8 rows of 256, of which `row + ROWS` is at most the
    // number.
    unsafe {
        let starts = sums.starts.as_ptr().add(row);
        for first in (0..256 / length).step_by(2) {
            let unit = |group: usize| units * group * length / 256;
            ahead.fetch(unit(first), unit(first + 2) - unit(first));
            let mut parts = [[[_mm512_setzero_si512(); 2]; ROWS]; 2];
            if L::OFFSET != 0 {
                for (group, parts) in (first..).zip(&mut parts) {
                    let i = if length == 8 { 2 * group } else { group };
                    for (row, part) in parts.iter_mut().enumerate() {
                        *part = [_mm512_set1_epi32(*starts.add(row).cast::<i32>().add(i)); 2];
                    }
                }
            }
            for i in 0..length / 4 {
                for (group, parts) in (first..).zip(&mut parts) {
                    let i = group * (length / 4) + i;
                    let [w0, w1] = *block.codes.get_unchecked(i);
                    for (part, input) in parts.iter_mut().zip(inputs) {
                        let x = input.codes.add(256 * b + 4 * i).cast::<i32>().read_unaligned();
                        let x = _mm512_set1_epi32(x);
                        part[0] = _mm512_dpbusd_epi32(part[0], w0, x);
                        part[1] = _mm512_dpbusd_epi32(part[1], w1, x);
                    }
                }
            }
            for (group, parts) in (first..).zip(parts) {
                let [s0, s1] = *block.sub_scales.get_unchecked(group * length / (256 / L::SUBS));
                for (isum, part) in isums.iter_mut().zip(parts) {
                    isum[0] = add_scaled(isum[0], part[0], s0);
                    isum[1] = add_scaled(isum[1], part[1], s1);
                }
            }
        }
    }
    isums
}

/// `_mm512_dpwssd_epi32` in assembly. The compiler would make two instructions of it where that shortens a chain, but
/// here the number of instructions counts.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn add_scaled(mut sum: __m512i, part: __m512i, scale: __m512i) -> __m512i {
    // SAFETY: only registers are involved, and this function has the feature AVX-512 VNNI.
    unsafe {
        asm!(
            "vpdpwssd {sum}, {part}, {scale}",
            sum = inout(zmm_reg) sum,
            part = in(zmm_reg) part,
            scale = in(zmm_reg) scale,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sum
}

/// Returns the integers of super-block b, by sub-blocks.
///
/// # Safety
/// As for [`tile`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn by_sub_blocks<L: Layout256, const ROWS: usize>(
    block: &Panel256,
    b: usize,
    inputs: &[Input; ROWS],
    sums: &Sums,
    row: usize,
    (ahead, units): (Ahead, usize),
) -> [[__m512i; 2]; ROWS] {
    let mut isums = [[_mm512_setzero_si512(); 2]; ROWS];
    let registers = const { 64 / L::SUBS };
    for j in 0..L::SUBS {
        ahead.fetch(units * j / L::SUBS, units * (j + 1) / L::SUBS - units * j / L::SUBS);
        let mut parts = [[_mm512_setzero_si512(); 2]; ROWS];
        if L::OFFSET != 0 {
            for (part, starts) in parts.iter_mut().zip(sums.starts.iter().skip(row)) {
                // SAFETY: j is below 16, and a row of `starts` has 256 elements.
                *part = [_mm512_set1_epi32(unsafe { *starts.get_unchecked(j) }); 2];
            }
        }
        for i in registers * j..registers * (j + 1) {
            // SAFETY: i is below 64, the number of registers of codes.
            let [w0, w1] = unsafe { *block.codes.get_unchecked(i) };
            for (part, input) in parts.iter_mut().zip(inputs) {
                // SAFETY: the caller promises 256 codes of super-block b: these are 4 i to 4 i + 3.
                let x = unsafe { input.codes.add(256 * b + 4 * i).cast::<i32>().read_unaligned() };
                let x = _mm512_set1_epi32(x);
                part[0] = _mm512_dpbusd_epi32(part[0], w0, x);
                part[1] = _mm512_dpbusd_epi32(part[1], w1, x);
            }
        }
        // SAFETY: j is below SUBS, at most 16, and there are 16 sub-scales.
        let [s0, s1] = unsafe { *block.sub_scales.get_unchecked(j) };
        for (isum, [part0, part1]) in isums.iter_mut().zip(parts) {
            isum[0] = _mm512_add_epi32(isum[0], _mm512_mullo_epi32(part0, s0));
            isum[1] = _mm512_add_epi32(isum[1], _mm512_mullo_epi32(part1, s1));
        }
    }
    isums
}

/// Adds the products of super-block b to the accumulators in `out`.
///
/// # Safety
/// As for [`tile`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn finish<L: Layout256, const ROWS: usize>(
    block: &Panel256,
    b: usize,
    inputs: &[Input; ROWS],
    sums: &Sums,
    isums: &[[__m512i; 2]; ROWS],
    row: usize,
    out: *mut f32,
) {
    for (row, ((isum, input), pairs)) in (row..).zip(isums.iter().zip(inputs).zip(sums.pairs.iter().skip(row))) {
        for (g, ((&isum, &scale), &min)) in isum.iter().zip(&block.scale).zip(&block.min).enumerate() {
            // SAFETY: the caller promises the scale of super-block b and 32 elements of `out` per row; j is below SUBS
            // / 2 <= 8, of 32 pairs and 8 registers of sub-minima, and g < 2.
            unsafe {
                let dx = _mm512_set1_ps(*input.scales.add(b));
                let out = out.add(32 * row + 16 * g);
                let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(scale, dx));
                let mut acc = _mm512_add_ps(_mm512_loadu_ps(out), product);
                if L::MIN {
                    let mut msum = _mm512_setzero_si512();
                    for j in 0..L::SUBS / 2 {
                        let pair = _mm512_set1_epi32(*pairs.get_unchecked(j));
                        msum = _mm512_dpwssd_epi32(msum, *block.sub_mins.get_unchecked(j).get_unchecked(g), pair);
                    }
                    let product = _mm512_mul_ps(_mm512_cvtepi32_ps(msum), _mm512_mul_ps(min, dx));
                    acc = _mm512_sub_ps(acc, product);
                }
                _mm512_storeu_ps(out, acc);
            }
        }
    }
}
