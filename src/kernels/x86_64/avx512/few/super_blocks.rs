//! Kernels for few rows of activations and formats with super-blocks of 256.

use core::arch::asm;
use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::{Few, Neighbours, add_dots, store};
use crate::kernels::x86_64::avx512::matmul::{Input, Sums, SuperBlocks};
use crate::kernels::x86_64::avx512::matmul_256::{self, add_scaled, group};
use crate::kernels::x86_64::avx512::panel::Sixteen;
use crate::kernels::x86_64::avx512::panel_256::{Header, Layout256};

impl<L: Layout256> Few for SuperBlocks<L> {
    const LEAD: usize = 2048;

    #[inline(never)] // so that the code of the caller before it exists once
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn multiply<const N: usize>(
        mut rows: Neighbours,
        blocks: usize,
        inputs: &[Input; N],
        sums: &mut Sums,
        out: *mut f32,
    ) {
        rows.far = N <= 4;
        const { assert!(L::OFFSET == 0 || size_of::<L::Codes>() == size_of::<[__m512i; 4]>()) };
        let mut acc = [_mm512_setzero_ps(); N];
        let mut header = Registers::<L>::new();
        for b in 0..blocks {
            // SAFETY: the caller promises super-block b in all rows and inputs, codes, scales and sums of which are
            // read; the codes that are unpacked together, from code 4 k on, are among 256, so they have a sub-scale,
            // and sixteen of them a start.
            unsafe {
                prepare_256::<L>(inputs, b, sums);
                let mut isums = [_mm512_setzero_si512(); N];
                L::unpack(&rows, &mut header, |header, k, codes| {
                    let mut parts = [_mm512_setzero_si512(); N];
                    if L::OFFSET != 0 {
                        for (part, starts) in parts.iter_mut().zip(&sums.starts) {
                            *part = _mm512_set1_epi32(*starts.get_unchecked(k / 4));
                        }
                    }
                    let at = 256 * b + 4 * k;
                    if let [first, second] = codes.as_ref() {
                        // Fetches in two parts where the lines of the first can leave before those of the second.
                        let (now, later) = const { if N > 2 { (8, 8) } else { (16, 0) } };
                        rows.fetch(now);
                        add_chains(&mut parts, inputs, at, *first);
                        rows.fetch(later);
                        add_chains(&mut parts, inputs, at + 16, *second);
                    } else {
                        for (i, &codes) in codes.as_ref().iter().enumerate() {
                            add_dots(&mut parts, inputs, at + 16 * i, codes);
                        }
                    }
                    let sub_scale = *header.sub_scales.get_unchecked(k / (64 / L::SUBS));
                    for (isum, part) in isums.iter_mut().zip(parts) {
                        *isum = _mm512_add_epi32(*isum, _mm512_mullo_epi32(part, sub_scale));
                    }
                });
                for ((acc, isum), (input, pairs)) in acc.iter_mut().zip(isums).zip(inputs.iter().zip(&sums.pairs)) {
                    let dx = _mm512_set1_ps(*input.scales.add(b));
                    let product = _mm512_mul_ps(_mm512_cvtepi32_ps(isum), _mm512_mul_ps(header.scale, dx));
                    *acc = _mm512_add_ps(*acc, product);
                    if L::MIN {
                        let mut msum = _mm512_setzero_si512();
                        for (sub_mins, pair) in header.sub_mins.iter().zip(pairs).take(L::SUBS / 2) {
                            msum = add_scaled(msum, *sub_mins, _mm512_set1_epi32(*pair));
                        }
                        let product = _mm512_mul_ps(_mm512_cvtepi32_ps(msum), _mm512_mul_ps(header.min, dx));
                        *acc = _mm512_sub_ps(*acc, product);
                    }
                }
            }
            rows.block = rows.block.wrapping_add(L::BYTES);
        }
        // SAFETY: the caller promises room for the inputs.
        unsafe { store(acc, out) };
    }
}

/// As [`add_dots`], in the order that is written. Where 32 codes have one sum, the compiler would load the activations
/// first, and keep them in memory.
///
/// # Safety
/// As for [`add_dots`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn add_chains<const N: usize>(sums: &mut [__m512i; N], inputs: &[Input; N], at: usize, codes: [__m512i; 4]) {
    let [a, b, c, d] = codes;
    for (sum, input) in sums.iter_mut().zip(inputs) {
        // SAFETY: the caller promises the codes from `at` to `at + 15`, which are all that is read; this function has
        // the feature AVX-512 VNNI.
        unsafe {
            asm!(
                "vpdpbusd {sum}, {a}, dword ptr [{x} + {at}]{{1to16}}",
                "vpdpbusd {sum}, {b}, dword ptr [{x} + {at} + 4]{{1to16}}",
                "vpdpbusd {sum}, {c}, dword ptr [{x} + {at} + 8]{{1to16}}",
                "vpdpbusd {sum}, {d}, dword ptr [{x} + {at} + 12]{{1to16}}",
                sum = inout(zmm_reg) *sum,
                a = in(zmm_reg) a,
                b = in(zmm_reg) b,
                c = in(zmm_reg) c,
                d = in(zmm_reg) d,
                x = in(reg) input.codes,
                at = in(reg) at,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
    }
}

/// Computes the sums of the activations of super-block b that the kernels need: the starts of sums of sixteen codes,
/// and pairs for the minima.
///
/// # Safety
/// Every input has the super-block, and there are at most 8 inputs.
#[inline(never)] // once for all numbers of rows
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn prepare_256<L: Layout256>(inputs: &[Input], b: usize, sums: &mut Sums) {
    const { assert!(L::OFFSET == 0 || group::<L>(true) == 16 || group::<L>(false) == 16) };
    // SAFETY: the caller promises what the called functions ask for.
    unsafe {
        if group::<L>(true) == 16 {
            matmul_256::prepare::<L, true>(inputs, b, sums);
        } else {
            matmul_256::prepare::<L, false>(inputs, b, sums);
        }
    }
}

/// Scales and minima of a super-block of sixteen rows, in registers.
struct Registers<L> {
    sub_scales: [__m512i; 16],
    sub_mins: [__m512i; 8],
    scale: __m512,
    min: __m512,
    layout: PhantomData<L>,
}

impl<L> Registers<L> {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    fn new() -> Self {
        Self {
            sub_scales: [_mm512_setzero_si512(); 16],
            sub_mins: [_mm512_setzero_si512(); 8],
            scale: _mm512_setzero_ps(),
            min: _mm512_setzero_ps(),
            layout: PhantomData,
        }
    }
}

impl<L: Layout256> Header for Registers<L> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn sub_scale(&mut self, j: usize, sub_scale: __m512i) {
        // SAFETY: the caller promises j < 16, the length of the array.
        unsafe { *self.sub_scales.get_unchecked_mut(j) = sub_scale };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn sub_mins(&mut self, j: usize, sub_mins: __m512i) {
        // SAFETY: the caller promises j < 8, the length of the array.
        unsafe { *self.sub_mins.get_unchecked_mut(j) = sub_mins };
    }

    #[inline(always)]
    fn scales(&mut self, scale: __m512, min: __m512) {
        (self.scale, self.min) = (scale, min);
    }
}
