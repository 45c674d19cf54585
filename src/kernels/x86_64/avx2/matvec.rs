//! Weights times one to four rows of activations, straight on the blocks of the file.
//!
//! Eight rows of weights at a time: per row the products of a (super-)block are summed into 8 lanes, then these eight
//! registers are transposed and added, so that lane r is the integer of row r, and one addition continues the ordered
//! chains of eight outputs. Codes are unpacked once for all rows of activations. Meanwhile as much of the next eight
//! rows is fetched.
//!
//! The integers are exact. Pairs of products in 16 bits: codes without sign have at most 6 bits, 2 * 63 * 127 =
//! 16,002; a code with sign is multiplied as |code| times the activation with its sign, 2 * 128 * 127 =
//! 32,512 < 2^15 (-(-127) fits to a byte, and an activation is never -128).

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::blocks_32::Blocks32;
use super::blocks_256::Blocks256;
use super::by_row::{Eight, Plain, Unpack};
use super::isa::{Avx2, Isa};
use super::lanes::{halves, sums, sums_of_halves};
use super::row::Row;
use crate::kernels::x86_64::ahead::NextRows;

/// Blocks whose scales are copied at a time.
const COPIED: usize = 32;

/// The first two bytes of eight rows' blocks, their f16 scales as a rule, then their minima. They are copied well
/// before they are loaded as registers, because inserting them one by one would compete with the other shuffles.
type BlockScales = [[u16; 8]; 2];
type Scales = [BlockScales; COPIED];

/// Eight outputs for each of `N` rows of activations: `rows` are eight rows of `blocks` blocks of 32.
///
/// # Safety
/// The rows have `blocks` blocks, and so has each of `x`; each of `out` has eight elements.
#[inline(always)]
pub(super) unsafe fn eight_32<I: Isa, F: Blocks32, const N: usize>(
    isa: I,
    rows: [*const u8; 8],
    next: NextRows,
    blocks: usize,
    x: [Row; N],
    out: [*mut f32; N],
) {
    const { assert!(F::SCALES == 1 || F::SCALES == 2 && !I::VNNI && !F::TWO && !F::MIN && F::OFFSET == 0) };
    // SAFETY: `isa` proves the instructions. The caller promises `blocks` blocks in every row and in each of x, and b
    // is below that; `scales` has COPIED places, of which b - first is one that `copy_scales` has just filled. r is the
    // number of one of eight rows.
    unsafe {
        let mut accs = [_mm256_setzero_ps(); N];
        let places = next.places::<8>();
        let mut scales = MaybeUninit::<Scales>::uninit();
        let scales = scales.as_mut_ptr().cast::<BlockScales>();
        for first in (0..blocks).step_by(COPIED) {
            let end = blocks.min(first + COPIED);
            copy_scales::<F>(&rows, first, end, scales);
            let mut b = first;
            while F::TWO && b + 2 <= end {
                let halves = x.map(|x| halves_of_two(x.codes.add(b * 32)));
                let mut dots = [[_mm256_setzero_si256(); 8]; N];
                for (r, (row, place)) in rows.into_iter().zip(places).enumerate() {
                    if b.is_multiple_of(F::PARTS) {
                        next.fetch(place, b, 1);
                    }
                    let codes = F::two(F::part(row, b));
                    for (dots, halves) in dots.iter_mut().zip(halves) {
                        *dots.get_unchecked_mut(r) = dot_two::<I, F>(isa, codes, halves);
                    }
                }
                for ((acc, dots), x) in accs.iter_mut().zip(&dots).zip(x) {
                    let [isum_0, isum_1] = sums_of_halves(dots);
                    *acc = add_32::<I, F>(isa, *acc, isum_0, x, b, scales.add(b - first));
                    *acc = add_32::<I, F>(isa, *acc, isum_1, x, b + 1, scales.add(b + 1 - first));
                }
                b += 2;
            }
            while b < end {
                let mut dots = [[_mm256_setzero_si256(); 8]; N];
                for (r, (row, place)) in rows.into_iter().zip(places).enumerate() {
                    next.fetch(place, b, 1);
                    let codes = F::codes(F::part(row, b));
                    for (dots, x) in dots.iter_mut().zip(x) {
                        let x = load(x.codes.add(b * 32));
                        *dots.get_unchecked_mut(r) = dot_codes::<I, F>(isa, _mm256_setzero_si256(), codes, x);
                    }
                }
                for ((acc, dots), x) in accs.iter_mut().zip(&dots).zip(x) {
                    if F::SCALES == 2 {
                        *acc = add_halves::<F>(*acc, sums_of_halves(dots), x, b, scales.add(b - first));
                    } else {
                        *acc = add_32::<I, F>(isa, *acc, sums(dots), x, b, scales.add(b - first));
                    }
                }
                b += 1;
            }
        }
        for (out, acc) in out.into_iter().zip(accs) {
            _mm256_storeu_ps(out, acc);
        }
    }
}

/// 64 activations in the order of [`Blocks32::two`].
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

/// Copies the scales of blocks `first` to `end`.
///
/// # Safety
/// The rows have these blocks; at `scales` there is room for the scales of `end - first` blocks.
#[inline(always)]
unsafe fn copy_scales<F: Blocks32>(rows: &[*const u8; 8], first: usize, end: usize, scales: *mut BlockScales) {
    for b in first..end {
        for (r, row) in rows.iter().enumerate() {
            // SAFETY: the caller promises these blocks, which begin with these numbers, and room for the scales of so
            // many of them; r < 8.
            unsafe {
                let (block, scales) = (F::block(*row, b).cast::<u16>(), scales.add(b - first).cast::<u16>());
                scales.add(r).write(block.read_unaligned());
                if F::MIN {
                    scales.add(8 + r).write(block.add(1).read_unaligned());
                }
            }
        }
    }
}

/// Continues the chains of eight outputs by block `b`, whose codes' products are `isum`.
///
/// # Safety
/// `x` has block `b`; `scales` can be read, the minima only where the format has some.
#[inline(always)]
unsafe fn add_32<I: Isa, F: Blocks32>(
    isa: I,
    acc: __m256,
    isum: __m256i,
    x: Row,
    b: usize,
    scales: *const [[u16; 8]; 2],
) -> __m256 {
    // SAFETY: `isa` proves the instructions; the caller promises block b of x, which has a scale and two sums, and the
    // scales of eight rows, with their minima where the format has some.
    unsafe {
        let pair = _mm256_set1_epi32(x.sums.add(b * 2).cast::<i32>().read_unaligned());
        let dx = _mm256_set1_ps(*x.scales.add(b));
        let offset = offset_32::<I, F>();
        let isum = if offset == 0 { isum } else { isa.dot_i16(isum, pair, _mm256_set1_epi16(-offset)) };
        let scale = _mm256_mul_ps(F::scales(_mm_loadu_si128(scales.cast())), dx);
        let acc = _mm256_add_ps(acc, _mm256_mul_ps(_mm256_cvtepi32_ps(isum), scale));
        if !F::MIN {
            return acc;
        }
        let msum = _mm256_madd_epi16(pair, _mm256_set1_epi16(1));
        let min = _mm256_mul_ps(_mm256_cvtph_ps(_mm_loadu_si128(scales.cast::<__m128i>().add(1))), dx);
        _mm256_add_ps(acc, _mm256_mul_ps(_mm256_cvtepi32_ps(msum), min))
    }
}

/// Continues the chains of eight outputs by block `b`, whose halves have a scale each; `isums` are the products of the
/// halves.
///
/// # Safety
/// The processor has AVX2 and F16C; `x` has block `b`; `scales` can be read.
#[inline(always)]
unsafe fn add_halves<F: Blocks32>(
    acc: __m256,
    isums: [__m256i; 2],
    x: Row,
    b: usize,
    scales: *const BlockScales,
) -> __m256 {
    // SAFETY: the caller promises the instructions, block b of x, which has a scale, and the scales of eight rows.
    unsafe {
        let (dx, bits) = (_mm256_set1_ps(*x.scales.add(b)), _mm_loadu_si128(scales.cast()));
        let mut acc = acc;
        for (isum, bits) in isums.into_iter().zip([bits, _mm_srli_epi16::<8>(bits)]) {
            let scale = _mm256_mul_ps(F::scales(bits), dx);
            acc = _mm256_add_ps(acc, _mm256_mul_ps(_mm256_cvtepi32_ps(isum), scale));
        }
        acc
    }
}

/// What is taken off the codes of a level as u8: with `vpdpbusd` codes with sign become u8 by adding 128.
pub(super) const fn offset_32<I: Isa, F: Blocks32>() -> i16 {
    if F::BITS == 8 && I::VNNI { 128 } else { F::OFFSET }
}

/// The products of two blocks: of the first in the lower 4 lanes, of the second in the upper ones. The codes and the
/// activations are in the order of [`Blocks32::two`].
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
        // Four products of 5 bits: 4 * 31 * 127 < 2^15.
        let pairs = _mm256_add_epi16(_mm256_maddubs_epi16(codes_low, low), _mm256_maddubs_epi16(codes_high, high));
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    }
}

/// `acc` plus the products of 32 codes, in 8 lanes.
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

/// As [`eight_32`], with super-blocks.
///
/// # Safety
/// As [`eight_32`].
#[inline(always)]
pub(super) unsafe fn eight_256<F: Blocks256, const N: usize>(
    isa: Avx2,
    rows: [*const u8; 8],
    next: NextRows,
    blocks: usize,
    x: [Row; N],
    out: [*mut f32; N],
) {
    // SAFETY: `isa` proves the instructions. The caller promises `blocks` super-blocks in every row and in each of x,
    // and b is below that; each of `out` has eight elements.
    unsafe {
        let mut accs = [_mm256_setzero_ps(); N];
        let places = next.places::<8>();
        for b in 0..blocks {
            let block = rows.map(|row| row.add(b * F::BYTES));
            let mut places = places.into_iter();
            let fetch = || places.next().map_or((), |place| next.fetch(place, b, F::BYTES.div_ceil(64)));
            add_256::<F, N>(isa, block, x, b, &mut accs, fetch);
        }
        for (out, acc) in out.into_iter().zip(accs) {
            _mm256_storeu_ps(out, acc);
        }
    }
}

/// As [`eight_256`], with a format that is unpacked row by row, of which a super-block has so many bytes.
///
/// # Safety
/// As [`eight_32`]; `unpack` is that of the format.
#[inline(always)]
pub(super) unsafe fn eight_by_row<const N: usize>(
    isa: Avx2,
    (unpack, bytes): (Unpack, usize),
    rows: [*const u8; 8],
    next: NextRows,
    blocks: usize,
    x: [Row; N],
    out: [*mut f32; N],
) {
    // SAFETY: as in `eight_256`; what was unpacked are super-blocks of eight rows.
    unsafe {
        let mut accs = [_mm256_setzero_ps(); N];
        let (places, mut plain) = (next.places::<8>(), Eight::new());
        for b in 0..blocks {
            let block = rows.map(|row| row.add(b * bytes));
            let block = plain.unpack(unpack, block, |r| next.fetch(*places.get_unchecked(r), b, 2));
            add_256::<Plain, N>(isa, block, x, b, &mut accs, || ());
        }
        for (out, acc) in out.into_iter().zip(accs) {
            _mm256_storeu_ps(out, acc);
        }
    }
}

/// Continues the chains of eight outputs for each of `N` rows by their super-block b; `fetch` is called before each of
/// eight rows.
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
    // SAFETY: `isa` proves the instructions. The caller promises the super-blocks of the rows and of each of x. n is
    // the number of one of N rows.
    unsafe {
        let codes = x.map(|x| x.codes.add(b * 256));
        let x_sums = x.map(|x| in_halves(x.sums.add(b * 16)));
        let (mut dots, mut mins) = ([[_mm256_setzero_si256(); N]; 8], [[_mm256_setzero_si256(); N]; 8]);
        for ((dots, mins), &block) in dots.iter_mut().zip(&mut mins).zip(&block) {
            fetch();
            (*dots, *mins) = dot_256::<F, N>(isa, block, codes, x_sums);
        }
        for (n, (acc, x)) in accs.iter_mut().zip(x).enumerate() {
            let dx = _mm256_set1_ps(*x.scales.add(b));
            let scale = _mm256_mul_ps(F::scales(&block), dx);
            let isum = sums(&dots.map(|dots| *dots.get_unchecked(n)));
            *acc = _mm256_add_ps(*acc, _mm256_mul_ps(_mm256_cvtepi32_ps(isum), scale));
            if let Some(min) = F::MIN {
                let min = _mm256_mul_ps(halves(&block, min), dx);
                let msum = sums(&mins.map(|mins| *mins.get_unchecked(n)));
                *acc = _mm256_sub_ps(*acc, _mm256_mul_ps(_mm256_cvtepi32_ps(msum), min));
            }
        }
    }
}

/// For each of `N` rows of activations: the products of one super-block times its sub-scales, and the sums times its
/// sub-minima, in 8 lanes.
///
/// # Safety
/// `block` points to a super-block, and each of `x` to 256 activations.
#[inline(always)]
unsafe fn dot_256<F: Blocks256, const N: usize>(
    isa: Avx2,
    block: *const u8,
    x: [*const i8; N],
    x_sums: [__m256i; N],
) -> ([__m256i; N], [__m256i; N]) {
    // SAFETY: `isa` proves the instructions; the caller promises the super-block and 256 activations, and j < 8.
    unsafe {
        let subs = F::subs(block);
        let mut dots = [_mm256_setzero_si256(); N];
        for j in 0..8 {
            let codes = F::codes(block, j);
            // Lane j of each half, to all lanes of the half.
            let scale = _mm256_shuffle_epi8(subs.scales, _mm256_set1_epi16(j as i16 * 0x202 + 0x100));
            for (dot, x) in dots.iter_mut().zip(x) {
                let x = _mm256_loadu_si256(x.add(32 * j).cast());
                let pairs = if F::BITS < 8 {
                    _mm256_maddubs_epi16(codes, x)
                } else {
                    _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(x, codes))
                };
                *dot = isa.dot_i16(*dot, pairs, scale);
            }
        }
        if F::OFFSET > 0 {
            let shift = _mm_cvtsi32_si128(F::OFFSET.trailing_zeros() as i32);
            for (dot, x_sums) in dots.iter_mut().zip(x_sums) {
                *dot = _mm256_sub_epi32(*dot, _mm256_sll_epi32(_mm256_madd_epi16(subs.scales, x_sums), shift));
            }
        }
        (dots, x_sums.map(|x_sums| _mm256_madd_epi16(subs.mins, x_sums)))
    }
}

/// Sixteen sums, the even ones in the lower half and the odd ones in the upper half.
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
