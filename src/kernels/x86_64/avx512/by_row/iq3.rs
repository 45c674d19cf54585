//! IQ3_XXS, IQ3_S: entries of 4 magnitudes. The layouts are described in `src/quant`.

use core::arch::x86_64::*;

use super::super::matvec::tile::{load_32, load_64, load_u32};
use super::{ByRow, Codes, bytes, entries, even_signs, fours, odd, of_nibbles, sevens, twice};
use crate::quant::{IQ3_S_VALUES, IQ3_XXS_VALUES, PACKED_IQ3_S, PACKED_IQ3_XXS};

pub(in crate::kernels::x86_64::avx512) struct Iq3Xxs;
pub(in crate::kernels::x86_64::avx512) struct Iq3S;

impl ByRow for Iq3Xxs {
    type Block = [u8; 98];
    const FACTOR: f32 = 0.25;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<const R: usize>(blocks: [&[u8; 98]; R]) -> [Codes; R] {
        // Each lane of 128 bits gets two dwords, which have the signs of 64 codes.
        let order = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
        blocks.map(|block| {
            let subs = load_32::<66, _, _>(block);
            let two = _mm512_permutexvar_epi64(order, _mm512_castsi256_si512(subs));
            Codes {
                codes: fours(entries(&PACKED_IQ3_XXS, words(load_64::<2, _, _>(block))), IQ3_XXS_VALUES),
                negative: even_signs(sevens(two, [0, 4])),
                sub_scales: twice(odd(_mm256_cvtepi32_epi8(_mm256_srli_epi32::<28>(subs)))),
            }
        })
    }
}

impl ByRow for Iq3S {
    type Block = [u8; 110];
    const FACTOR: f32 = 1.0;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<const R: usize>(blocks: [&[u8; 110]; R]) -> [Codes; R] {
        blocks.map(|block| {
            let [first, second] = words(load_64::<2, _, _>(block));
            let [low, high]: [u32; 2] = bytemuck::must_cast(*bytes::<66, 8, _>(block));
            let with = |words, high| _mm512_mask_add_epi16(words, high, words, _mm512_set1_epi16(256));
            Codes {
                codes: fours(entries(&PACKED_IQ3_S, [with(first, low), with(second, high)]), IQ3_S_VALUES),
                negative: bytemuck::must_cast(*bytes::<74, 32, _>(block)),
                sub_scales: twice(of_nibbles(_mm_cvtsi32_si128(load_u32::<106, _>(block) as i32))),
            }
        })
    }
}

/// Returns 64 bytes as words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn words(bytes: __m512i) -> [__m512i; 2] {
    let (low, high) = (_mm512_castsi512_si256(bytes), _mm512_extracti64x4_epi64::<1>(bytes));
    [_mm512_cvtepu8_epi16(low), _mm512_cvtepu8_epi16(high)]
}
