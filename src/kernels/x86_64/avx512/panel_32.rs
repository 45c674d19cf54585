//! Panels of the formats with blocks of 32: codes as unsigned bytes, rows in lanes, with their scales.

use core::arch::x86_64::*;

use super::panel::{Rows, bits, fp4_values, high_f16, low_f16, powers_of_two, values};

/// One block of 32 rows. Index \[g\] is rows 16 g to 16 g + 15.
#[repr(C, align(64))]
pub(in crate::kernels::x86_64) struct Panel32 {
    /// Codes 4 k to 4 k + 3 of every row, plus [`Layout32::OFFSET`].
    pub(in crate::kernels::x86_64) codes: [[__m512i; 2]; 8],
    pub(in crate::kernels::x86_64) scale: [__m512; 2],
    /// Only where the format has minima.
    pub(in crate::kernels::x86_64) min: [__m512; 2],
}

/// A format with blocks of `PARTS` times 32.
pub(in crate::kernels::x86_64) trait Layout32<const PARTS: usize> {
    /// Bytes of a block.
    const BYTES: usize;
    /// What is added to the codes in the panel.
    const OFFSET: i16;
    /// Whether elements have a minimum.
    const MIN: bool;

    /// Unpacks a block of sixteen rows.
    ///
    /// # Safety
    /// [`Self::BYTES`] bytes are readable in all rows, `g` is below 2, and the processor has the instructions.
    unsafe fn unpack(rows: &Rows, g: usize, parts: &mut [Panel32; PARTS]);
}

impl Panel32 {
    /// Stores codes 4 k to 4 k + 3.
    ///
    /// # Safety
    /// `k` is below 8 and `g` below 2.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn set(&mut self, k: usize, g: usize, codes: __m512i) {
        // SAFETY: the caller promises k < 8 and g < 2, the lengths of the arrays.
        unsafe { *self.codes.get_unchecked_mut(k).get_unchecked_mut(g) = codes }
    }

    /// # Safety
    /// `g` is below 2.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn set_scale(&mut self, g: usize, scale: __m512) {
        // SAFETY: the caller promises g < 2, the length of the array.
        unsafe { *self.scale.get_unchecked_mut(g) = scale }
    }

    /// # Safety
    /// `g` is below 2.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn set_min(&mut self, g: usize, min: __m512) {
        // SAFETY: the caller promises g < 2, the length of the array.
        unsafe { *self.min.get_unchecked_mut(g) = min }
    }
}

pub(in crate::kernels::x86_64) struct Q8_0;
pub(in crate::kernels::x86_64) struct Q4_0;
pub(in crate::kernels::x86_64) struct Q4_1;
pub(in crate::kernels::x86_64) struct Q5_0;
pub(in crate::kernels::x86_64) struct Q5_1;
pub(in crate::kernels::x86_64) struct Iq4Nl;
pub(in crate::kernels::x86_64) struct Mxfp4;
pub(in crate::kernels::x86_64) struct Q1_0;
pub(in crate::kernels::x86_64) struct Q2_0;

impl Layout32<1> for Q8_0 {
    const BYTES: usize = 34;
    const OFFSET: i16 = 128;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, [panel]: &mut [Panel32; 1]) {
        let sign = _mm512_set1_epi8(i8::MIN);
        // SAFETY: the caller promises g < 2 and 34 bytes in all rows, which the loads stay within; i < 4, so k < 8.
        unsafe {
            panel.set_scale(g, low_f16(rows.dword(0)));
            for half in 0..2 {
                for (i, codes) in rows.transposed(2 + 16 * half).into_iter().enumerate() {
                    panel.set(4 * half + i, g, _mm512_xor_si512(codes, sign));
                }
            }
        }
    }
}

impl Layout32<1> for Q4_0 {
    const BYTES: usize = 18;
    const OFFSET: i16 = 8;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, [panel]: &mut [Panel32; 1]) {
        // SAFETY: the caller promises g < 2 and 18 bytes in all rows, which the loads stay within; i < 4, so k < 8.
        unsafe {
            panel.set_scale(g, low_f16(rows.dword(0)));
            for (i, codes) in rows.transposed(2).into_iter().enumerate() {
                panel.set(i, g, bits(codes, 0, 15));
                panel.set(4 + i, g, bits(codes, 4, 15));
            }
        }
    }
}

impl Layout32<1> for Q4_1 {
    const BYTES: usize = 20;
    const OFFSET: i16 = 0;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, [panel]: &mut [Panel32; 1]) {
        // SAFETY: the caller promises g < 2 and 20 bytes in all rows, which the loads stay within; i < 4, so k < 8.
        unsafe {
            let header = rows.dword(0);
            panel.set_scale(g, low_f16(header));
            panel.set_min(g, high_f16(header));
            for (i, codes) in rows.transposed(4).into_iter().enumerate() {
                panel.set(i, g, bits(codes, 0, 15));
                panel.set(4 + i, g, bits(codes, 4, 15));
            }
        }
    }
}

impl Layout32<1> for Q5_0 {
    const BYTES: usize = 22;
    const OFFSET: i16 = 16;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, [panel]: &mut [Panel32; 1]) {
        // SAFETY: the caller promises g < 2 and 22 bytes in all rows, which the loads stay within; i < 4, so k < 8.
        unsafe {
            panel.set_scale(g, low_f16(rows.dword(0)));
            let high = rows.dword(2);
            for (i, codes) in rows.transposed(6).into_iter().enumerate() {
                panel.set(i, g, with_fifth_bits(bits(codes, 0, 15), high, i));
                panel.set(4 + i, g, with_fifth_bits(bits(codes, 4, 15), high, 4 + i));
            }
        }
    }
}

impl Layout32<1> for Q5_1 {
    const BYTES: usize = 24;
    const OFFSET: i16 = 0;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, [panel]: &mut [Panel32; 1]) {
        // SAFETY: the caller promises g < 2 and 24 bytes in all rows, which the loads stay within; i < 4, so k < 8.
        unsafe {
            let header = rows.dword(0);
            panel.set_scale(g, low_f16(header));
            panel.set_min(g, high_f16(header));
            let high = rows.dword(4);
            for (i, codes) in rows.transposed(8).into_iter().enumerate() {
                panel.set(i, g, with_fifth_bits(bits(codes, 0, 15), high, i));
                panel.set(4 + i, g, with_fifth_bits(bits(codes, 4, 15), high, 4 + i));
            }
        }
    }
}

impl Layout32<1> for Iq4Nl {
    const BYTES: usize = 18;
    const OFFSET: i16 = 128;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, [panel]: &mut [Panel32; 1]) {
        // SAFETY: the caller promises g < 2 and 18 bytes in all rows, which the loads stay within; i < 4, so k < 8.
        unsafe {
            panel.set_scale(g, low_f16(rows.dword(0)));
            for (i, indices) in rows.transposed(2).into_iter().enumerate() {
                panel.set(i, g, values(bits(indices, 0, 15)));
                panel.set(4 + i, g, values(bits(indices, 4, 15)));
            }
        }
    }
}

impl Layout32<1> for Mxfp4 {
    const BYTES: usize = 17;
    const OFFSET: i16 = 12;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, [panel]: &mut [Panel32; 1]) {
        // SAFETY: the caller promises g < 2 and 17 bytes in all rows, which the loads stay within; i < 4, so k < 8.
        unsafe {
            panel.set_scale(g, powers_of_two(rows.dword(0)));
            for (i, indices) in rows.transposed(1).into_iter().enumerate() {
                panel.set(i, g, fp4_values(bits(indices, 0, 15)));
                panel.set(4 + i, g, fp4_values(bits(indices, 4, 15)));
            }
        }
    }
}

impl Layout32<4> for Q1_0 {
    const BYTES: usize = 18;
    const OFFSET: i16 = 1;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, parts: &mut [Panel32; 4]) {
        // SAFETY: the caller promises g < 2 and 18 bytes in all rows, which the loads stay within; k < 8.
        unsafe {
            let scale = low_f16(rows.dword(0));
            for (panel, bits) in parts.iter_mut().zip(rows.transposed(2)) {
                panel.set_scale(g, scale);
                for k in 0..8 {
                    panel.set(k, g, _mm512_maskz_mov_epi8(four_bits(bits, k), _mm512_set1_epi8(2)));
                }
            }
        }
    }
}

impl Layout32<2> for Q2_0 {
    const BYTES: usize = 18;
    const OFFSET: i16 = 1;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &Rows, g: usize, parts: &mut [Panel32; 2]) {
        // SAFETY: the caller promises g < 2 and 18 bytes in all rows, which the loads stay within; i < 2 and j < 4, so
        // k < 8.
        unsafe {
            let scale = low_f16(rows.dword(0));
            let codes = rows.transposed(2);
            for (panel, codes) in parts.iter_mut().zip(codes.as_chunks::<2>().0) {
                panel.set_scale(g, scale);
                for (i, &codes) in codes.iter().enumerate() {
                    for j in 0..4 {
                        panel.set(4 * i + j, g, four_codes(codes, j));
                    }
                }
            }
        }
    }
}

/// Byte `j` of each lane, in all four bytes of the lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_times(bytes: __m512i, j: usize) -> __m512i {
    let first = _mm512_set4_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0);
    _mm512_shuffle_epi8(bytes, _mm512_or_si512(first, _mm512_set1_epi8(j as i8)))
}

/// Bits 4 k to 4 k + 3 of each lane, one for each of its bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_bits(bits: __m512i, k: usize) -> u64 {
    let one_each = if k.is_multiple_of(2) { 0x0804_0201 } else { 0x8040_2010_u32 as i32 };
    _mm512_test_epi8_mask(four_times(bits, k / 2), _mm512_set1_epi32(one_each))
}

/// The four codes of 2 bits in byte `j` of each lane, one for each of its bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_codes(bytes: __m512i, j: usize) -> __m512i {
    let bytes = four_times(bytes, j);
    // Bits 2 i and 2 i + 1 of byte i: none enters the byte from another that the mask keeps.
    let lanes = |lanes: __m512i, mask: u32| _mm512_and_si512(lanes, _mm512_set1_epi32(mask as i32));
    let (a, b) = (lanes(bytes, 3), lanes(_mm512_srli_epi32::<2>(bytes), 3 << 8));
    let (c, d) = (lanes(_mm512_srli_epi32::<4>(bytes), 3 << 16), lanes(_mm512_srli_epi32::<6>(bytes), 3 << 24));
    _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d))
}

/// Codes 4 k to 4 k + 3 with bits 4 k to 4 k + 3 of `high` as their fifth bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn with_fifth_bits(codes: __m512i, high: __m512i, k: usize) -> __m512i {
    let set = four_bits(high, k);
    _mm512_mask_add_epi8(codes, set, codes, _mm512_set1_epi8(16))
}
