//! TQ1_0: ternary digits, five to a byte. The layout is described in `src/quant`.

use core::arch::x86_64::*;

use super::super::matvec::tile::{load_16, load_32, load_u32};
use super::{ByRow, Codes};

pub(in crate::kernels::x86_64::avx512) struct Tq1_0;

impl ByRow for Tq1_0 {
    type Block = [u8; 54];
    const OFFSET: u8 = 1;
    const SCALE: [usize; 2] = [50, 50];
    const FACTOR: f32 = 1.0;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<const R: usize>(blocks: [&[u8; 54]; R]) -> [Codes; R] {
        blocks.map(|block| {
            // The block has 32 bytes, 16 and 4 of digits. The codes of each part are all first digits, then all second
            // digits, and so on.
            let first = _mm512_broadcast_i64x4(load_32::<0, _, _>(block));
            let second = _mm512_broadcast_i32x4(load_16::<32, _, _>(block));
            let third = _mm_set1_epi32(load_u32::<48, _>(block) as i32);
            let codes = [
                digits(first, [1, 1, 3, 3]),
                digits(first, [9, 9, 27, 27]),
                digits(_mm512_mask_blend_epi64(0xf0, first, second), [81, 81, 1, 3]),
                digits(_mm512_inserti32x4::<3>(second, third), [9, 27, 81, 0]),
            ];
            Codes { codes, negative: [0; 4], sub_scales: _mm_set1_epi8(1) }
        })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn scale_bits(first: __m512i, _: __m512i) -> __m512i {
        _mm512_srli_epi32::<16>(first)
    }
}

/// Returns the first digit of each byte times a power of three, which makes a later digit the first one. Each power
/// belongs to 16 bytes. 0 stands for the four powers 1, 3, 9 and 27, each for 4 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn digits(bytes: __m512i, powers: [i16; 4]) -> __m512i {
    let each = |power: i16| if power == 0 { _mm_setr_epi16(1, 1, 3, 3, 9, 9, 27, 27) } else { _mm_set1_epi16(power) };
    let [a, b, c, d] = powers.map(each);
    let powers = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(a), b);
    let powers = _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(powers, c), d);
    // Only the lowest 8 bits of a product count. First come the products of the lower bytes of the words, then those of
    // the upper bytes.
    let lower = _mm512_mullo_epi16(bytes, powers);
    let upper = _mm512_mullo_epi16(_mm512_andnot_si512(_mm512_set1_epi16(0xff), bytes), powers);
    // 0xca: a ? b : c.
    let products = _mm512_ternarylogic_epi32::<0xca>(_mm512_set1_epi16(0xff), lower, upper);
    // The digit is 3 b / 256, rounded down: 1 from b = 86 on, and 2 from b = 171 on.
    let least = |number: u8| _mm512_cmpge_epu8_mask(products, _mm512_set1_epi8(number.cast_signed()));
    let ones = _mm512_maskz_mov_epi8(least(86), _mm512_set1_epi8(1));
    _mm512_mask_mov_epi8(ones, least(171), _mm512_set1_epi8(2))
}
