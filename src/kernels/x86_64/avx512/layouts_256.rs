//! The formats with super-blocks of 256, and how each is unpacked to a panel.

use core::arch::x86_64::*;

use super::panel::{Rows, bits, high_f16, low_f16, raised, values};
use super::panel_256::{Layout256, Panel256};

pub(in crate::kernels::x86_64) struct Q2K;
pub(in crate::kernels::x86_64) struct Q3K;
pub(in crate::kernels::x86_64) struct Q4K;
pub(in crate::kernels::x86_64) struct Q5K;
pub(in crate::kernels::x86_64) struct Q6K;
pub(in crate::kernels::x86_64) struct Iq4Xs;
pub(in crate::kernels::x86_64) struct Tq2_0;

impl Layout256 for Q2K {
    type Products = Self;
    const BYTES: usize = 84;
    const SUBS: usize = 16;
    const OFFSET: i16 = 0;
    const GROUP: usize = 16;
    const WIDE: usize = 0;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, panel: &mut Panel256) {
        // SAFETY: the caller promises g < 2 and 84 bytes in all rows, which the loads stay within; i < 4, so k < 64.
        unsafe {
            let scales = rows.dword(80);
            panel.set_scale(g, low_f16(scales));
            panel.set_min(g, high_f16(scales));
            for (j, subs) in rows.transposed(0).into_iter().enumerate() {
                panel.set_sub_scales::<Self>(j, g, bits(subs, 0, 15));
                panel.set_sub_mins(j, g, bits(subs, 4, 15));
            }
            for p in 0..4 {
                let first = 32 * (p / 2) + 4 * (p % 2);
                for (i, codes) in rows.transposed(16 + 16 * p).into_iter().enumerate() {
                    for j in 0..4 {
                        panel.set(first + 8 * j + i, g, bits(codes, 2 * j, 3));
                    }
                }
            }
        }
    }
}

impl Layout256 for Q3K {
    type Products = Self;
    const BYTES: usize = 110;
    const SUBS: usize = 16;
    const OFFSET: i16 = 4;
    const GROUP: usize = 16;
    const WIDE: usize = 0;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, panel: &mut Panel256) {
        // SAFETY: the caller promises g < 2 and 110 bytes in all rows, which the loads stay within; i < 4, so k < 64.
        unsafe {
            // Bytes 96 to 108 and the scale, of a load that ends with the block.
            let [t0, t1, t2, t3] = rows.transposed(94);
            let joined = |low, high| _mm512_or_si512(_mm512_srli_epi32::<16>(low), _mm512_slli_epi32::<16>(high));
            let (a, b, high) = (joined(t0, t1), joined(t1, t2), joined(t2, t3));
            panel.set_scale(g, high_f16(t3));
            for (j, low) in [bits(a, 0, 15), bits(b, 0, 15), bits(a, 4, 15), bits(b, 4, 15)].into_iter().enumerate() {
                let six_bits = _mm512_or_si512(low, raised(bits(high, 2 * j, 3), 4));
                panel.set_sub_scales::<Self>(j, g, _mm512_sub_epi8(six_bits, _mm512_set1_epi8(32)));
            }
            for q in 0..2 {
                let high = rows.transposed(16 * q);
                for half in 0..2 {
                    let low = rows.transposed(32 + 32 * half + 16 * q);
                    for (i, (low, high)) in low.into_iter().zip(high).enumerate() {
                        for j in 0..4 {
                            let high = raised(bits(high, 4 * half + j, 1), 2);
                            let codes = _mm512_or_si512(bits(low, 2 * j, 3), high);
                            panel.set(32 * half + 8 * j + 4 * q + i, g, codes);
                        }
                    }
                }
            }
        }
    }
}

impl Layout256 for Q4K {
    type Products = Self;
    const BYTES: usize = 144;
    const SUBS: usize = 8;
    const OFFSET: i16 = 0;
    const GROUP: usize = 16;
    const WIDE: usize = 32;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, panel: &mut Panel256) {
        // SAFETY: the caller promises g < 2 and 144 bytes in all rows, which the loads stay within; i < 4, so k < 64.
        unsafe {
            panel.set_header::<Self>(rows, g);
            for p in 0..8 {
                let first = 16 * (p / 2) + 4 * (p % 2);
                for (i, codes) in rows.transposed(16 + 16 * p).into_iter().enumerate() {
                    panel.set(first + i, g, bits(codes, 0, 15));
                    panel.set(first + 8 + i, g, bits(codes, 4, 15));
                }
            }
        }
    }
}

impl Layout256 for Q5K {
    type Products = Self;
    const BYTES: usize = 176;
    const SUBS: usize = 8;
    const OFFSET: i16 = 0;
    const GROUP: usize = 32;
    const WIDE: usize = 16;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, panel: &mut Panel256) {
        // SAFETY: the caller promises g < 2 and 176 bytes in all rows, which the loads stay within; i < 4, so k < 64.
        unsafe {
            panel.set_header::<Self>(rows, g);
            for q in 0..2 {
                let high = rows.transposed(16 + 16 * q);
                for c in 0..4 {
                    let low = rows.transposed(48 + 32 * c + 16 * q);
                    for (i, (low, high)) in low.into_iter().zip(high).enumerate() {
                        let k = 16 * c + 4 * q + i;
                        let fifth = |bit| raised(bits(high, bit, 1), 4);
                        panel.set(k, g, _mm512_or_si512(bits(low, 0, 15), fifth(2 * c)));
                        panel.set(k + 8, g, _mm512_or_si512(bits(low, 4, 15), fifth(2 * c + 1)));
                    }
                }
            }
        }
    }
}

impl Layout256 for Q6K {
    type Products = Self;
    const BYTES: usize = 210;
    const SUBS: usize = 16;
    const OFFSET: i16 = 32;
    const GROUP: usize = 8;
    const WIDE: usize = 16;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, panel: &mut Panel256) {
        // SAFETY: the caller promises g < 2 and 210 bytes in all rows, which the loads stay within; i < 4, so k < 64.
        unsafe {
            let [.., last] = rows.transposed(194);
            panel.set_scale(g, high_f16(last));
            for (j, sub_scales) in rows.transposed(192).into_iter().enumerate() {
                panel.set_sub_scales::<Self>(j, g, sub_scales);
            }
            for half in 0..2 {
                for q in 0..2 {
                    let high = rows.transposed(128 + 32 * half + 16 * q);
                    for j in 0..2 {
                        let low = rows.transposed(64 * half + 32 * j + 16 * q);
                        for (i, (low, high)) in low.into_iter().zip(high).enumerate() {
                            let k = 32 * half + 8 * j + 4 * q + i;
                            let upper = |shift| raised(bits(high, shift, 3), 4);
                            panel.set(k, g, _mm512_or_si512(bits(low, 0, 15), upper(2 * j)));
                            panel.set(k + 16, g, _mm512_or_si512(bits(low, 4, 15), upper(2 * j + 4)));
                        }
                    }
                }
            }
        }
    }
}

impl Layout256 for Iq4Xs {
    type Products = Self;
    const BYTES: usize = 136;
    const SUBS: usize = 8;
    const OFFSET: i16 = 128;
    const GROUP: usize = 32;
    const WIDE: usize = 0;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, panel: &mut Panel256) {
        // SAFETY: the caller promises g < 2 and 136 bytes in all rows, which the loads stay within; i < 4 and j < 8, so
        // k < 64, and there are 16 sub-scales.
        unsafe {
            let (header, low) = (rows.dword(0), rows.dword(4));
            panel.set_scale(g, low_f16(header));
            for j in 0..8 {
                let low = bits(low, 4 * j, 15);
                let upper = bits(header, 16 + 2 * j, 3);
                let six_bits = _mm512_and_si512(_mm512_or_si512(low, raised(upper, 4)), _mm512_set1_epi32(0x3f));
                let sub_scale = _mm512_sub_epi32(six_bits, _mm512_set1_epi32(32));
                *panel.sub_scales.get_unchecked_mut(j).get_unchecked_mut(g) = sub_scale;
                for (i, indices) in rows.transposed(8 + 16 * j).into_iter().enumerate() {
                    panel.set(8 * j + i, g, values(bits(indices, 0, 15)));
                    panel.set(8 * j + 4 + i, g, values(bits(indices, 4, 15)));
                }
            }
        }
    }
}

impl Layout256 for Tq2_0 {
    type Products = Self;
    const BYTES: usize = 66;
    const SUBS: usize = 8;
    const OFFSET: i16 = 1;
    const GROUP: usize = 16;
    const WIDE: usize = 0;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, panel: &mut Panel256) {
        // SAFETY: the caller promises g < 2 and 66 bytes in all rows, which the loads stay within; i < 4, so k < 64.
        unsafe {
            panel.set_scale(g, high_f16(rows.dword(62)));
            for j in 0..2 {
                panel.set_sub_scales::<Self>(j, g, _mm512_set1_epi8(1));
            }
            for p in 0..4 {
                let first = 32 * (p / 2) + 4 * (p % 2);
                for (i, codes) in rows.transposed(16 * p).into_iter().enumerate() {
                    for j in 0..4 {
                        panel.set(first + 8 * j + i, g, bits(codes, 2 * j, 3));
                    }
                }
            }
        }
    }
}
