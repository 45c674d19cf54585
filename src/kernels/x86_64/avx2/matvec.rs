//! Products of weights and one to four rows of activations, straight from the blocks of the file.
//!
//! Eight rows of weights are multiplied at a time. The products of a (super-)block of a row are summed into 8 lanes.
//! Then the eight registers of the rows are transposed and added, so that lane r is the integer of row r, and one
//! addition continues the ordered chains of eight outputs. Codes are unpacked once for all rows of activations.
//! Meanwhile as many bytes of the next eight rows are fetched.
//!
//! The integers are exact, as pairs of products fit 16 bits. Codes without sign have at most 6 bits: 2 * 63 * 127 =
//! 16,002. A code with sign is multiplied as |code| times the activation with the code's sign: 2 * 128 * 127 = 32,512 <
//! 2^15 (-(-127) fits a byte, and an activation is never -128).

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::blocks_32::Blocks32;
use super::blocks_256::{Blocks256, Subs};
use super::by_row::{Plain, Unpacking};
use super::few_256::add_transposed;
use super::isa::{Avx2, Isa};
use super::lanes::{sums, sums_of_halves, words};
use super::row::{EightRows, Row};
use super::transposed::{SubsOfLanes, add_pairs};
use crate::kernels::x86_64::ahead::NextRows;

/// Computes eight outputs for each of `N` rows of activations. `rows` are eight rows of `blocks` blocks of 32.
///
/// # Safety
/// The rows have `blocks` blocks, and so has each of `x`; each of `out` has eight elements.
#[inline(always)]
pub(super) unsafe fn eight_32<I: Isa, F: Blocks32, const N: usize>(
    isa: I,
    rows: EightRows,
    next: NextRows,
    blocks: usize,
    x: [Row; N],
    out: [*mut f32; N],
) {
    const { assert!(F::SCALES == 1 || F::SCALES == 2 && !I::VNNI && !F::TWO && !F::MIN && F::OFFSET == 0) };
    // SAFETY: `isa` proves the instructions. The caller promises `blocks` blocks in every row and in each of x, and b
    // is below that. r is the index of one of eight rows.
    unsafe {
        let mut accs = [_mm256_setzero_ps(); N];
        let mut b = 0;
        while F::TWO && b + 2 <= blocks {
            let halves = x.map(|x| halves_of_two(x.codes.add(b * 32)));
            let mut dots = [[_mm256_setzero_si256(); 8]; N];
            let mut place = next.place(b);
            for (r, part) in rows.at(F::part(b)).into_iter().enumerate() {
                if b.is_multiple_of(F::PARTS) {
                    next.fetch(&mut place, 1);
                }
                let codes = F::two(part);
                for (dots, halves) in dots.iter_mut().zip(halves) {
                    *dots.get_unchecked_mut(r) = dot_two::<I, F>(isa, codes, halves);
                }
            }
            let headers = [headers::<F>(&rows.at(F::block(b))), headers::<F>(&rows.at(F::block(b + 1)))];
            for ((acc, dots), x) in accs.iter_mut().zip(&dots).zip(x) {
                let [isum_0, isum_1] = sums_of_halves(dots);
                *acc = add_32::<I, F>(isa, *acc, isum_0, x, b, headers[0]);
                *acc = add_32::<I, F>(isa, *acc, isum_1, x, b + 1, headers[1]);
            }
            b += 2;
        }
        while b < blocks {
            let mut dots = [[_mm256_setzero_si256(); 8]; N];
            let mut place = next.place(b);
            for (r, part) in rows.at(F::part(b)).into_iter().enumerate() {
                next.fetch(&mut place, 1);
                let codes = F::codes(part);
                for (dots, x) in dots.iter_mut().zip(x) {
                    let x = load(x.codes.add(b * 32));
                    *dots.get_unchecked_mut(r) = dot_codes::<I, F>(isa, _mm256_setzero_si256(), codes, x);
                }
            }
            let headers = headers::<F>(&rows.at(F::block(b)));
            for ((acc, dots), x) in accs.iter_mut().zip(&dots).zip(x) {
                if F::SCALES == 2 {
                    *acc = add_halves::<F>(*acc, sums_of_halves(dots), x, b, headers[0]);
                } else {
                    *acc = add_32::<I, F>(isa, *acc, sums(dots), x, b, headers);
                }
            }
            b += 1;
        }
        for (out, acc) in out.into_iter().zip(accs) {
            _mm256_storeu_ps(out, acc);
        }
    }
}

/// Returns 64 activations in the order of [`Blocks32::two`].
///
/// # Safety
/// The processor has AVX2; 64 activations can be read.
#[inline(always)]
unsafe fn halves_of_two(x: *const i8) -> [__m256i; 2] {
    // SAFETY: the caller promises AVX2 and 64 activations.
    unsafe {
        let (first, second) = (load(x), load(x.add(32)));
        [_mm256_permute2x128_si256::<0x20>(first, second), _mm256_permute2x128_si256::<0x31>(first, second)]
    }
}

/// Returns the first two bytes of eight blocks, mostly their f16 scales, and the next two bytes, which are the minima
/// if the format has them.
///
/// # Safety
/// The processor has AVX2; each of `blocks` points to a block.
#[inline(always)]
unsafe fn headers<F: Blocks32>(blocks: &[*const u8; 8]) -> [__m128i; 2] {
    // SAFETY: the caller promises AVX2 and the blocks, which begin with these numbers.
    unsafe { [words(blocks, 0), if F::MIN { words(blocks, 2) } else { _mm_setzero_si128() }] }
}

/// Continues the chains of eight outputs by block `b`. `isum` has the sums of the products of its codes.
///
/// # Safety
/// `x` has block `b`.
#[inline(always)]
unsafe fn add_32<I: Isa, F: Blocks32>(
    isa: I,
    acc: __m256,
    isum: __m256i,
    x: Row,
    b: usize,
    [scales, mins]: [__m128i; 2],
) -> __m256 {
    // SAFETY: `isa` proves the instructions; the caller promises block b of x, which has a scale and two sums.
    unsafe {
        let pair = _mm256_set1_epi32(x.sums.add(b * 2).cast::<i32>().read_unaligned());
        let dx = _mm256_set1_ps(*x.scales.add(b));
        let offset = offset_32::<I, F>();
        let isum = if offset == 0 { isum } else { isa.dot_i16(isum, pair, _mm256_set1_epi16(-offset)) };
        let scale = _mm256_mul_ps(F::scales(scales), dx);
        let acc = _mm256_add_ps(acc, _mm256_mul_ps(_mm256_cvtepi32_ps(isum), scale));
        if !F::MIN {
            return acc;
        }
        let msum = _mm256_madd_epi16(pair, _mm256_set1_epi16(1));
        let min = _mm256_mul_ps(_mm256_cvtph_ps(mins), dx);
        _mm256_add_ps(acc, _mm256_mul_ps(_mm256_cvtepi32_ps(msum), min))
    }
}

/// Continues the chains of eight outputs by block `b`, whose halves have a scale each. `isums` has the sums of the
/// products of the two halves.
///
/// # Safety
/// The processor has AVX2 and F16C; `x` has block `b`.
#[inline(always)]
unsafe fn add_halves<F: Blocks32>(acc: __m256, isums: [__m256i; 2], x: Row, b: usize, scales: __m128i) -> __m256 {
    // SAFETY: the caller promises the instructions, and block b of x, which has a scale.
    unsafe {
        let dx = _mm256_set1_ps(*x.scales.add(b));
        let mut acc = acc;
        for (isum, scales) in isums.into_iter().zip([scales, _mm_srli_epi16::<8>(scales)]) {
            let scale = _mm256_mul_ps(F::scales(scales), dx);
            acc = _mm256_add_ps(acc, _mm256_mul_ps(_mm256_cvtepi32_ps(isum), scale));
        }
        acc
    }
}

/// Returns the number that is subtracted from codes as u8. For `vpdpbusd`, codes with sign become u8 by adding 128.
pub(super) const fn offset_32<I: Isa, F: Blocks32>() -> i16 {
    if F::BITS == 8 && I::VNNI { 128 } else { F::OFFSET }
}

/// Returns the sums of the products of two blocks: the first block in the lower 4 lanes, the second in the upper ones.
/// The codes and the activations are in the order of [`Blocks32::two`].
#[inline(always)]
fn dot_two<I: Isa, F: Blocks32>(isa: I, [codes_low, codes_high]: [__m256i; 2], [low, high]: [__m256i; 2]) -> __m256i {
    // SAFETY: `isa` proves AVX2 at least, see `Isa`.
    unsafe {
        if F::BITS == 8 || I::VNNI {
            return dot_codes::<I, F>(
                isa,
                dot_codes::<I, F>(isa, _mm256_setzero_si256(), codes_low, low),
                codes_high,
                high,
            );
        }
        // Four products of codes of 5 bits: 4 * 31 * 127 < 2^15.
        let pairs = _mm256_add_epi16(_mm256_maddubs_epi16(codes_low, low), _mm256_maddubs_epi16(codes_high, high));
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    }
}

/// Returns `acc` plus the products of 32 codes, in 8 lanes.
#[inline(always)]
fn dot_codes<I: Isa, F: Blocks32>(isa: I, acc: __m256i, codes: __m256i, x: __m256i) -> __m256i {
    // SAFETY: `isa` proves AVX2 at least, see `Isa`.
    unsafe {
        if F::BITS < 8 {
            isa.dot_u8(acc, codes, x)
        } else if I::VNNI {
            isa.dot_u8(acc, _mm256_xor_si256(codes, _mm256_set1_epi8(-128)), x)
        } else {
            isa.dot_u8(acc, _mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes))
        }
    }
}

/// As [`eight_32`], for super-blocks.
///
/// # Safety
/// As [`eight_32`].
#[inline(always)]
pub(super) unsafe fn eight_256<F: Blocks256, const N: usize>(
    isa: Avx2,
    rows: EightRows,
    next: NextRows,
    blocks: usize,
    x: [Row; N],
    out: [*mut f32; N],
) {
    // SAFETY: `isa` proves the instructions. The caller promises `blocks` super-blocks in every row and in each of x,
    // and b is below that; each of `out` has eight elements.
    unsafe {
        let mut accs = [_mm256_setzero_ps(); N];
        for b in 0..blocks {
            let mut place = next.place(b);
            let fetch = || next.fetch(&mut place, F::BYTES.div_ceil(64));
            add_256::<F, N>(isa, rows.at(b * F::BYTES), x, b, &mut accs, fetch);
        }
        for (out, acc) in out.into_iter().zip(accs) {
            _mm256_storeu_ps(out, acc);
        }
    }
}

/// As [`eight_256`], for a format that is unpacked row by row.
///
/// # Safety
/// As [`eight_32`]; `how` is for the format.
#[inline(always)]
pub(super) unsafe fn eight_by_row<const N: usize>(
    isa: Avx2,
    how: &mut Unpacking,
    rows: EightRows,
    next: NextRows,
    blocks: usize,
    x: [Row; N],
    out: [*mut f32; N],
) {
    // SAFETY: as in `eight_256`; `how.unpack` returns super-blocks of eight rows.
    unsafe {
        let mut accs = [_mm256_setzero_ps(); N];
        for b in 0..blocks {
            let mut place = next.place(b);
            for _ in 0..8 {
                next.fetch(&mut place, 2);
            }
            let block = how.unpack(rows.at(b * how.bytes));
            add_256::<Plain, N>(isa, block, x, b, &mut accs, || ());
        }
        for (out, acc) in out.into_iter().zip(accs) {
            _mm256_storeu_ps(out, acc);
        }
    }
}

/// Continues the chains of eight outputs for each of `N` rows of activations by super-block b. Calls `fetch` eight
/// times.
///
/// # Safety
/// Each of `block` points to a super-block, and each of `x` has super-block b.
#[inline(always)]
unsafe fn add_256<F: Blocks256, const N: usize>(
    isa: Avx2,
    block: [*const u8; 8],
    x: [Row; N],
    b: usize,
    accs: &mut [__m256; N],
    mut fetch: impl FnMut(),
) {
    // SAFETY: `isa` proves the instructions. The caller promises the super-blocks of the rows and of each of x. r and n
    // are indices of one of eight and of N rows. All elements of the array are written before they are read.
    unsafe {
        const { assert!(F::BITS < 8 || F::TRANSPOSED > F::FEW) };
        const { assert!(F::SUB == 32 || F::MIN.is_none() || F::TRANSPOSED == 1) };
        if N >= F::TRANSPOSED {
            return add_transposed::<F, N>(isa, block, x, b, accs, fetch);
        }
        if F::SUB == 32 {
            return add_by_lanes::<F, N>(isa, block, x, b, accs, fetch);
        }
        let codes = x.map(|x| x.codes.add(b * 256));
        let x_sums = x.map(|x| in_halves(x.sums.add(b * 16)));
        let mut all = MaybeUninit::<[[__m256i; N]; 8]>::uninit();
        for (r, &block) in block.iter().enumerate() {
            fetch();
            let dots = dot_256::<F, N>(isa, block, by_halves(F::subs(block)), codes, x_sums);
            all.as_mut_ptr().cast::<[__m256i; N]>().add(r).write(dots);
        }
        let (all, scales) = (all.assume_init_ref(), F::scales(&block));
        for (n, (acc, x)) in accs.iter_mut().zip(x).enumerate() {
            let isum = sums(&all.map(|dots| *dots.get_unchecked(n)));
            *acc = add_terms::<F>(*acc, [isum, _mm256_setzero_si256()], scales, *x.scales.add(b));
        }
    }
}

/// As [`add_256`], for sub-blocks of 32. The sub-scales of eight rows are written to memory. A load copies one of them to
/// all lanes, and does not need the units that compute.
///
/// # Safety
/// As [`add_256`].
#[inline(always)]
unsafe fn add_by_lanes<F: Blocks256, const N: usize>(
    isa: Avx2,
    block: [*const u8; 8],
    x: [Row; N],
    b: usize,
    accs: &mut [__m256; N],
    mut fetch: impl FnMut(),
) {
    // SAFETY: `isa` proves the instructions. The caller promises the super-blocks of the rows and of each of x. j is
    // below 8, and r and n are indices of one of eight and of N rows. All elements of the two arrays are written before
    // they are read.
    unsafe {
        let codes = x.map(|x| x.codes.add(b * 256));
        let subs = SubsOfLanes::new::<F>(&block);
        let mut sub_scales = MaybeUninit::<[__m256i; 8]>::uninit();
        for j in 0..8 {
            sub_scales.as_mut_ptr().cast::<__m256i>().add(j).write(subs.twice(j));
        }
        let sub_scales = sub_scales.as_ptr().cast::<i32>();
        let mut all = MaybeUninit::<[[__m256i; N]; 8]>::uninit();
        for (r, &block) in block.iter().enumerate() {
            fetch();
            let mut dots = [_mm256_setzero_si256(); N];
            for j in 0..8 {
                let (codes_of_row, scale) = (F::codes(block, j), _mm256_set1_epi32(*sub_scales.add(8 * j + r)));
                for (dot, x) in dots.iter_mut().zip(codes) {
                    *dot = isa.dot_i16(*dot, pairs::<F>(codes_of_row, x.add(32 * j)), scale);
                }
            }
            all.as_mut_ptr().cast::<[__m256i; N]>().add(r).write(dots);
        }
        let all = all.assume_init_ref();
        let mut isums = [_mm256_setzero_si256(); N];
        for (n, isum) in isums.iter_mut().enumerate() {
            *isum = sums(&all.map(|dots| *dots.get_unchecked(n)));
        }
        add_integers::<F, N>(isa, &block, &subs, x, b, isums, accs);
    }
}

/// Continues the chains of eight outputs for each of `N` rows of activations by super-block b. `isums` are the sums of the
/// products of its codes, times the sub-scales.
///
/// # Safety
/// Each of `block` points to a super-block, of which `subs` are, and each of `x` has super-block b.
#[inline(always)]
pub(super) unsafe fn add_integers<F: Blocks256, const N: usize>(
    isa: Avx2,
    block: &[*const u8; 8],
    subs: &SubsOfLanes,
    x: [Row; N],
    b: usize,
    mut isums: [__m256i; N],
    accs: &mut [__m256; N],
) {
    // SAFETY: `isa` proves the instructions. The caller promises the super-blocks of the rows and of each of x.
    unsafe {
        let mut msums = [_mm256_setzero_si256(); N];
        let integers = if F::MIN.is_some() { &mut msums } else { &mut isums };
        add_pairs::<F, N>(isa, subs, x.map(|x| x.sums.add(b * 16)), integers);
        let scales = F::scales(block);
        for ((acc, x), (isum, msum)) in accs.iter_mut().zip(x).zip(isums.into_iter().zip(msums)) {
            *acc = add_terms::<F>(*acc, [isum, msum], scales, *x.scales.add(b));
        }
    }
}

/// Continues the chains of eight outputs by a super-block: by its products, and by the products of its minima if the
/// format has them, times the scales of weights and activations.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn add_terms<F: Blocks256>(
    acc: __m256,
    [isum, msum]: [__m256i; 2],
    [scales, min_scales]: [__m256; 2],
    dx: f32,
) -> __m256 {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let dx = _mm256_set1_ps(dx);
        let acc = _mm256_add_ps(acc, _mm256_mul_ps(_mm256_cvtepi32_ps(isum), _mm256_mul_ps(scales, dx)));
        if F::MIN.is_none() {
            return acc;
        }
        _mm256_sub_ps(acc, _mm256_mul_ps(_mm256_cvtepi32_ps(msum), _mm256_mul_ps(min_scales, dx)))
    }
}

/// Returns for each of `N` rows of activations the products of one super-block times its sub-scales, in 8 lanes. The
/// sub-blocks have 16 elements. `x_sums` are [`in_halves`].
///
/// # Safety
/// `block` points to a super-block, and each of `x` to 256 activations.
#[inline(always)]
unsafe fn dot_256<F: Blocks256, const N: usize>(
    isa: Avx2,
    block: *const u8,
    sub_scales: __m256i,
    x: [*const i8; N],
    x_sums: [__m256i; N],
) -> [__m256i; N] {
    // SAFETY: `isa` proves the instructions; the caller promises the super-block and 256 activations, and j < 8.
    unsafe {
        let together = const { together(F::BITS, N) };
        let mut dots = [_mm256_setzero_si256(); N];
        // Words that alternate between two sub-blocks (`twos`), four (`fours`) or eight.
        let mut fours = [[_mm256_setzero_si256(); N]; 2];
        for (four, fours) in fours.iter_mut().enumerate() {
            let mut twos = [[_mm256_setzero_si256(); N]; 2];
            for (two, twos) in twos.iter_mut().enumerate() {
                let j = 4 * four + 2 * two;
                if together == 1 {
                    for j in [j, j + 1] {
                        let (codes, scale) = (F::codes(block, j), scales_of(sub_scales, j, 1));
                        for (dot, x) in dots.iter_mut().zip(x) {
                            *dot = isa.dot_i16(*dot, pairs::<F>(codes, x.add(32 * j)), scale);
                        }
                    }
                    continue;
                }
                let codes = [F::codes(block, j), F::codes(block, j + 1)];
                for ((dot, sums), x) in dots.iter_mut().zip(twos).zip(x) {
                    let [a, b] = [pairs::<F>(codes[0], x.add(32 * j)), pairs::<F>(codes[1], x.add(32 * j + 32))];
                    *sums = _mm256_add_epi16(_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b));
                    if together == 2 {
                        *dot = isa.dot_i16(*dot, *sums, scales_of(sub_scales, j, 2));
                    }
                }
            }
            let [a, b] = twos;
            for ((sums, a), b) in fours.iter_mut().zip(a).zip(b) {
                *sums = _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
            }
        }
        if together == 8 {
            let [a, b] = fours;
            for ((dot, a), b) in dots.iter_mut().zip(a).zip(b) {
                let sums = _mm256_add_epi16(_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b));
                *dot = _mm256_madd_epi16(sums, sub_scales);
            }
        }
        if F::OFFSET > 0 {
            let shift = _mm_cvtsi32_si128(F::OFFSET.trailing_zeros() as i32);
            for (dot, x_sums) in dots.iter_mut().zip(x_sums) {
                *dot = _mm256_sub_epi32(*dot, _mm256_sll_epi32(_mm256_madd_epi16(sub_scales, x_sums), shift));
            }
        }
        dots
    }
}

/// Returns the number of registers of codes whose sums in 16 bits are put into one register, before they are multiplied
/// by their sub-scales. Two products are at most 2 * 15 * 127 = 3,810 for codes of 4 bits, and 16,002 for 6 bits, so 8
/// and 2 of these sums fit 16 bits. This takes fewer shuffles than a register with each sub-scale in all lanes. Three
/// rows of activations share a register with a sub-scale in all lanes, so nothing is put together for them.
const fn together(bits: u32, rows: usize) -> usize {
    match bits {
        _ if rows > 2 => 1,
        0..=4 => 8,
        5..=6 => 2,
        _ => 1,
    }
}

/// Returns the sums of two products of codes and activations each, in 16 bits.
///
/// # Safety
/// The processor has AVX2; 32 activations can be read.
#[inline(always)]
unsafe fn pairs<F: Blocks256>(codes: __m256i, x: *const i8) -> __m256i {
    // SAFETY: the caller promises AVX2 and 32 activations.
    unsafe {
        let x = load(x);
        if F::BITS < 8 {
            _mm256_maddubs_epi16(codes, x)
        } else {
            _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes))
        }
    }
}

/// Returns lanes `first` to `first + count - 1` of each half, repeated over the half. `count` is 1 or 2.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn scales_of(scales: __m256i, first: usize, count: usize) -> __m256i {
    let mut order = [0; 16];
    for (byte, order) in order.iter_mut().enumerate() {
        *order = (2 * first + byte % (2 * count)) as i8;
    }
    // SAFETY: the caller promises AVX2, and these only compute on registers; 16 bytes can be read from the array.
    unsafe { _mm256_shuffle_epi8(scales, _mm256_broadcastsi128_si256(_mm_loadu_si128(order.as_ptr().cast()))) }
}

/// Returns the sub-scales of a row as i16, in the order of [`in_halves`].
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn by_halves(subs: Subs) -> __m256i {
    // SAFETY: the caller promises AVX2, and these only compute on registers.
    unsafe {
        let order = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
        _mm256_cvtepi8_epi16(_mm_shuffle_epi8(subs.scales, order))
    }
}

/// Returns sixteen sums: those with even indices in the lower half, those with odd indices in the upper half.
///
/// # Safety
/// The processor has AVX2; `sums` has 16 elements.
#[inline(always)]
unsafe fn in_halves(sums: *const i16) -> __m256i {
    // SAFETY: the caller promises AVX2 and 16 elements; no alignment is needed.
    unsafe {
        let order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
        let sums = _mm256_loadu_si256(sums.cast());
        let sums = _mm256_shuffle_epi8(sums, _mm256_broadcastsi128_si256(order));
        _mm256_permute4x64_epi64::<0b11_01_10_00>(sums)
    }
}

/// # Safety
/// The processor has AVX; 32 bytes can be read.
#[inline(always)]
unsafe fn load(from: *const i8) -> __m256i {
    // SAFETY: the caller promises AVX and 32 bytes to read; no alignment is needed.
    unsafe { _mm256_loadu_si256(from.cast()) }
}
