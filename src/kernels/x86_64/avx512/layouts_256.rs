//! The formats with super-blocks of 256, and how each of them is unpacked to a panel.

use core::arch::x86_64::*;

use super::panel::{Sixteen, bits, high_f16, low_f16, raised, values};
use super::panel_256::{Header, Layout256, set_header, set_sub_mins, set_sub_scales};

pub(in crate::kernels::x86_64) struct Q2K;
pub(in crate::kernels::x86_64) struct Q3K;
pub(in crate::kernels::x86_64) struct Q4K;
pub(in crate::kernels::x86_64) struct Q5K;
pub(in crate::kernels::x86_64) struct Q6K;
pub(in crate::kernels::x86_64) struct Iq4Xs;
pub(in crate::kernels::x86_64) struct Tq2_0;

// SAFETY: p and j are below 4, so k is at most 32 + 4 + 24.
unsafe impl Layout256 for Q2K {
    type Codes = [[__m512i; 4]; 1];
    const BYTES: usize = 84;
    const SUBS: usize = 16;
    const OFFSET: i16 = 0;
    const GROUP: usize = 16;
    const WIDE: usize = 0;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<H: Header>(rows: &impl Sixteen, header: &mut H, mut codes: impl FnMut(&H, usize, Self::Codes)) {
        // SAFETY: the caller promises 84 bytes in all rows, which the loads stay within; k is at most 60, and j below 4.
        unsafe {
            rows.fetch(4);
            let scales = rows.word(80);
            header.scales(low_f16(scales), high_f16(scales));
            for (j, subs) in rows.transposed(0).into_iter().enumerate() {
                set_sub_scales(header, j, bits(subs, 0, 15));
                set_sub_mins(header, j, bits(subs, 4, 15));
            }
            for p in 0..4 {
                let bytes = rows.transposed(16 + 16 * p);
                for j in 0..4 {
                    codes(header, 32 * (p / 2) + 4 * (p % 2) + 8 * j, [bytes.map(|bytes| bits(bytes, 2 * j, 3))]);
                }
            }
        }
    }
}

// SAFETY: half and q are below 2 and j below 4, so k is at most 32 + 24 + 4.
unsafe impl Layout256 for Q3K {
    type Codes = [[__m512i; 4]; 1];
    const BYTES: usize = 110;
    const SUBS: usize = 16;
    const OFFSET: i16 = 4;
    const GROUP: usize = 16;
    const WIDE: usize = 0;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<H: Header>(rows: &impl Sixteen, header: &mut H, mut codes: impl FnMut(&H, usize, Self::Codes)) {
        // SAFETY: the caller promises 110 bytes in all rows, which the loads stay within; k is at most 60, and j below 4.
        unsafe {
            // Bytes 96 to 107, the sub-scales, and the scale, from a load that ends with the block.
            rows.fetch(14);
            let [t0, t1, t2, t3] = rows.header(94);
            let joined = |low, high| _mm512_or_si512(_mm512_srli_epi32::<16>(low), _mm512_slli_epi32::<16>(high));
            let (a, b, high) = (joined(t0, t1), joined(t1, t2), joined(t2, t3));
            header.scales(high_f16(t3), _mm512_setzero_ps());
            for (j, low) in [bits(a, 0, 15), bits(b, 0, 15), bits(a, 4, 15), bits(b, 4, 15)].into_iter().enumerate() {
                let six_bits = _mm512_or_si512(low, raised(bits(high, 2 * j, 3), 4));
                set_sub_scales(header, j, _mm512_sub_epi8(six_bits, _mm512_set1_epi8(32)));
            }
            for q in 0..2 {
                let high = rows.transposed(16 * q);
                for half in 0..2 {
                    let low = rows.transposed(32 + 32 * half + 16 * q);
                    for j in 0..4 {
                        let third = |high| raised(bits(high, 4 * half + j, 1), 2);
                        let both = both(low, high, |low, high| _mm512_or_si512(bits(low, 2 * j, 3), third(high)));
                        codes(header, 32 * half + 8 * j + 4 * q, [both]);
                    }
                }
            }
        }
    }
}

// SAFETY: p is below 4 and j below 2, so k is at most 48 + 8.
unsafe impl Layout256 for Q4K {
    type Codes = [[__m512i; 4]; 2];
    const BYTES: usize = 144;
    const SUBS: usize = 8;
    const OFFSET: i16 = 0;
    const GROUP: usize = 16;
    const WIDE: usize = 32;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<H: Header>(rows: &impl Sixteen, header: &mut H, mut codes: impl FnMut(&H, usize, Self::Codes)) {
        // SAFETY: the caller promises 144 bytes in all rows, which the loads stay within; k is at most 56.
        unsafe {
            set_header(rows, header);
            for p in 0..4 {
                let bytes = rows.two_transposed(16 + 32 * p);
                for j in 0..2 {
                    codes(header, 16 * p + 8 * j, bytes.map(|half| half.map(|bytes| bits(bytes, 4 * j, 15))));
                }
            }
        }
    }
}

// SAFETY: c is below 4 and j below 2, so k is at most 48 + 8.
unsafe impl Layout256 for Q5K {
    type Codes = [[__m512i; 4]; 2];
    const BYTES: usize = 176;
    const SUBS: usize = 8;
    const OFFSET: i16 = 0;
    const GROUP: usize = 32;
    const WIDE: usize = 16;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<H: Header>(rows: &impl Sixteen, header: &mut H, mut codes: impl FnMut(&H, usize, Self::Codes)) {
        // SAFETY: the caller promises 176 bytes in all rows, which the loads stay within; k is at most 56.
        unsafe {
            set_header(rows, header);
            rows.fetch(32);
            let high = rows.two_transposed(16);
            for c in 0..4 {
                let low = rows.two_transposed(48 + 32 * c);
                for j in 0..2 {
                    let fifth = |high| raised(bits(high, 2 * c + j, 1), 4);
                    let join = |low, high| _mm512_or_si512(bits(low, 4 * j, 15), fifth(high));
                    let ([low_0, low_1], [high_0, high_1]) = (low, high);
                    codes(header, 16 * c + 8 * j, [both(low_0, high_0, join), both(low_1, high_1, join)]);
                }
            }
        }
    }
}

// SAFETY: half, q, j and i are below 2, so k is at most 32 + 8 + 4 + 16.
unsafe impl Layout256 for Q6K {
    type Codes = [[__m512i; 4]; 1];
    const BYTES: usize = 210;
    const SUBS: usize = 16;
    const OFFSET: i16 = 32;
    const GROUP: usize = 8;
    const WIDE: usize = 16;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<H: Header>(rows: &impl Sixteen, header: &mut H, mut codes: impl FnMut(&H, usize, Self::Codes)) {
        // SAFETY: the caller promises 210 bytes in all rows, which the loads stay within; k is at most 60, and j below 4.
        unsafe {
            rows.fetch(2);
            let last = rows.word(206);
            header.scales(high_f16(last), _mm512_setzero_ps());
            for (j, sub_scales) in rows.transposed(192).into_iter().enumerate() {
                set_sub_scales(header, j, sub_scales);
            }
            for half in 0..2 {
                for q in 0..2 {
                    let high = rows.transposed(128 + 32 * half + 16 * q);
                    for j in 0..2 {
                        let low = rows.transposed(64 * half + 32 * j + 16 * q);
                        for i in 0..2 {
                            let upper = |high| raised(bits(high, 2 * j + 4 * i, 3), 4);
                            let both = both(low, high, |low, high| _mm512_or_si512(bits(low, 4 * i, 15), upper(high)));
                            codes(header, 32 * half + 8 * j + 4 * q + 16 * i, [both]);
                        }
                    }
                }
            }
        }
    }
}

// SAFETY: j is below 8, so k is at most 56 + 4.
unsafe impl Layout256 for Iq4Xs {
    type Codes = [[__m512i; 4]; 1];
    const BYTES: usize = 136;
    const SUBS: usize = 8;
    const OFFSET: i16 = 128;
    const GROUP: usize = 32;
    const WIDE: usize = 0;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<H: Header>(rows: &impl Sixteen, header: &mut H, mut codes: impl FnMut(&H, usize, Self::Codes)) {
        // SAFETY: the caller promises 136 bytes in all rows, which the loads stay within; j is below 8, so k is at most 60.
        unsafe {
            rows.fetch(8);
            let [first, low, ..] = rows.header(0);
            header.scales(low_f16(first), _mm512_setzero_ps());
            for j in 0..8 {
                let low = bits(low, 4 * j, 15);
                let upper = bits(first, 16 + 2 * j, 3);
                let six_bits = _mm512_and_si512(_mm512_or_si512(low, raised(upper, 4)), _mm512_set1_epi32(0x3f));
                header.sub_scale(j, _mm512_sub_epi32(six_bits, _mm512_set1_epi32(32)));
                let indices = rows.transposed(8 + 16 * j);
                codes(header, 8 * j, [indices.map(|indices| values(bits(indices, 0, 15)))]);
                codes(header, 8 * j + 4, [indices.map(|indices| values(bits(indices, 4, 15)))]);
            }
        }
    }
}

// SAFETY: p and j are below 4, so k is at most 32 + 4 + 24.
unsafe impl Layout256 for Tq2_0 {
    type Codes = [[__m512i; 4]; 1];
    const BYTES: usize = 66;
    const SUBS: usize = 8;
    const OFFSET: i16 = 1;
    const GROUP: usize = 16;
    const WIDE: usize = 0;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<H: Header>(rows: &impl Sixteen, header: &mut H, mut codes: impl FnMut(&H, usize, Self::Codes)) {
        // SAFETY: the caller promises 66 bytes in all rows, which the loads stay within; k is at most 60, and j below 4.
        unsafe {
            rows.fetch(2);
            let last = rows.word(62);
            header.scales(high_f16(last), _mm512_setzero_ps());
            for j in 0..2 {
                set_sub_scales(header, j, _mm512_set1_epi8(1));
            }
            for p in 0..4 {
                let bytes = rows.transposed(16 * p);
                for j in 0..4 {
                    codes(header, 32 * (p / 2) + 4 * (p % 2) + 8 * j, [bytes.map(|bytes| bits(bytes, 2 * j, 3))]);
                }
            }
        }
    }
}

/// Joins the registers of two arrays in pairs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn both(low: [__m512i; 4], high: [__m512i; 4], join: impl Fn(__m512i, __m512i) -> __m512i) -> [__m512i; 4] {
    let ([a, b, c, d], [e, f, g, h]) = (low, high);
    [join(a, e), join(b, f), join(c, g), join(d, h)]
}
