//! IQ2_XXS, IQ2_XS, IQ2_S: entries of 8 magnitudes, 8, 25 or 43. The layouts are described in `src/quant`.

use core::arch::x86_64::*;

use super::super::matvec::tile::{load_32, load_64};
use super::{ByRow, Codes, bytes, each_with, eight, eights, entries, even_signs, odd, of_nibbles, sevens, twice};
use crate::quant::{IQ2_S, IQ2_XS, IQ2_XXS};

/// Magnitudes for the numbers 0, 1 and 2 in the entries.
const VALUES: [u8; 3] = [8, 25, 43];

pub(in crate::kernels::x86_64::avx512) struct Iq2Xxs;
pub(in crate::kernels::x86_64::avx512) struct Iq2Xs;
pub(in crate::kernels::x86_64::avx512) struct Iq2S;

impl ByRow for Iq2Xxs {
    type Block = [u8; 66];
    const FACTOR: f32 = 0.125;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<const R: usize>(blocks: [&[u8; 66]; R]) -> [Codes; R] {
        // Each 8 bytes are four indices, then signs and a sub-scale.
        let subs = blocks.map(|block| load_64::<2, _, _>(block));
        let order = _mm_set_epi64x(0x800b_800a_8009_8008_u64 as i64, 0x8003_8002_8001_8000_u64 as i64);
        let indices = subs.map(|subs| _mm512_shuffle_epi8(subs, _mm512_broadcast_i32x4(order)));
        each_with(subs, entries(&IQ2_XXS, indices), |subs, entries| Codes {
            codes: eights(entries, VALUES),
            negative: even_signs(sevens(subs, [4, 12])),
            sub_scales: twice(odd(_mm512_cvtepi64_epi8(_mm512_srli_epi64::<60>(subs)))),
        })
    }
}

impl ByRow for Iq2Xs {
    type Block = [u8; 74];
    const FACTOR: f32 = 0.125;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<const R: usize>(blocks: [&[u8; 74]; R]) -> [Codes; R] {
        let words = blocks.map(|block| load_64::<2, _, _>(block));
        each_with(blocks, entries(&IQ2_XS, words), |block, entries| Codes {
            codes: eights(entries, VALUES),
            negative: even_signs(_mm512_srli_epi16::<9>(load_64::<2, _, _>(block))),
            sub_scales: of_nibbles(eight::<66, _>(block)),
        })
    }
}

impl ByRow for Iq2S {
    type Block = [u8; 82];
    const FACTOR: f32 = 0.125;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<const R: usize>(blocks: [&[u8; 82]; R]) -> [Codes; R] {
        // Each byte goes to the upper halves of four words. Shifts by 0, 2, 4 and 6 bits then make a different pair of
        // its bits the lowest ones of each half.
        let order = _mm512_set_epi64(
            0x0780_0780_0780_0780,
            0x0680_0680_0680_0680,
            0x0580_0580_0580_0580,
            0x0480_0480_0480_0480,
            0x0380_0380_0380_0380,
            0x0280_0280_0280_0280,
            0x0180_0180_0180_0180,
            0x0080_0080_0080_0080,
        );
        let indices = blocks.map(|block| {
            let low = _mm512_cvtepu8_epi16(load_32::<2, _, _>(block));
            let high = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(eight::<66, _>(block)), order);
            let high = _mm512_srlv_epi16(high, _mm512_set1_epi64(0x0006_0004_0002_0000));
            // 0xf8: a | b & c.
            _mm512_ternarylogic_epi32::<0xf8>(low, high, _mm512_set1_epi16(0x300))
        });
        each_with(blocks, entries(&IQ2_S, indices), |block, entries| Codes {
            codes: eights(entries, VALUES),
            negative: bytemuck::must_cast(*bytes::<34, 32, _>(block)),
            sub_scales: of_nibbles(eight::<74, _>(block)),
        })
    }
}
