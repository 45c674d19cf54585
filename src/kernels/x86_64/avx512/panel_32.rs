//! Panels of the formats with blocks of 32: codes as unsigned bytes with a row per lane, and their scales.

use core::arch::x86_64::*;

use super::panel::{Sixteen, bits, fp4_values, half_e4m3, high_f16, low_f16, powers_of_two, values};
use super::panel_256::set;

/// One block of each of 32 rows. Index \[g\] has rows 16 g to 16 g + 15.
#[repr(C, align(64))]
pub(in crate::kernels::x86_64) struct Panel32 {
    /// Codes 4 k to 4 k + 3 of every row, plus [`Layout32::OFFSET`].
    pub(in crate::kernels::x86_64) codes: [[__m512i; 2]; 8],
    pub(in crate::kernels::x86_64) scale: [__m512; 2],
    /// Minima of the formats that have them. For formats with a scale per 16 codes, the scale of the second 16.
    pub(in crate::kernels::x86_64) min: [__m512; 2],
}

/// A format with blocks of `PARTS` parts of 32 codes.
///
/// # Safety
/// `unpack` calls `codes` with k of at most 8 `PARTS` - 4.
pub(in crate::kernels::x86_64) unsafe trait Layout32<const PARTS: usize> {
    /// Number of bytes of a block.
    const BYTES: usize;
    /// Number that is added to the codes in the panel.
    const OFFSET: i16;
    /// Whether blocks have a minimum.
    const MIN: bool;
    /// Number of scales of a part: 1, or 2 in formats without minima.
    const SCALES: usize = 1;

    /// Unpacks a block of sixteen rows. Calls `codes` with k, which is at most 8 `PARTS` - 4, and codes 4 k to 4 k +
    /// 15, plus [`Self::OFFSET`]. A lane of 32 bits belongs to a row. Returns the scale of each part, with the minimum
    /// or the second scale where the format has it.
    ///
    /// # Safety
    /// [`Self::BYTES`] bytes are readable in all rows, and the processor has the instructions.
    unsafe fn unpack(rows: &impl Sixteen, codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; PARTS];
}

/// Unpacks a block of sixteen rows to rows 16 `g` to 16 `g` + 15 of a panel.
///
/// # Safety
/// As for [`Layout32::unpack`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn unpack<L: Layout32<PARTS>, const PARTS: usize>(
    rows: &impl Sixteen,
    g: usize,
    parts: &mut [Panel32; PARTS],
) {
    let to_panel = |k: usize, codes: [__m512i; 4]| {
        let Some(panel) = parts.get_mut(k / 8) else { return };
        panel.codes.iter_mut().skip(k % 8).zip(codes).for_each(|(places, codes)| set(places, g, codes));
    };
    // SAFETY: the caller promises what the called function asks for.
    let scales = unsafe { L::unpack(rows, to_panel) };
    for (panel, [scale, min]) in parts.iter_mut().zip(scales) {
        set(&mut panel.scale, g, scale);
        set(&mut panel.min, g, min);
    }
}

pub(in crate::kernels::x86_64) struct Q8_0;
pub(in crate::kernels::x86_64) struct Q4_0;
pub(in crate::kernels::x86_64) struct Q4_1;
pub(in crate::kernels::x86_64) struct Q5_0;
pub(in crate::kernels::x86_64) struct Q5_1;
pub(in crate::kernels::x86_64) struct Iq4Nl;
pub(in crate::kernels::x86_64) struct Mxfp4;
pub(in crate::kernels::x86_64) struct Nvfp4;
pub(in crate::kernels::x86_64) struct Q1_0;
pub(in crate::kernels::x86_64) struct Q2_0;

// SAFETY: the only values of k are 0 and 4, and 8 - 4 is the most.
unsafe impl Layout32<1> for Q8_0 {
    const BYTES: usize = 34;
    const OFFSET: i16 = 128;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, mut codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 1] {
        let sign = _mm512_set1_epi8(i8::MIN);
        // SAFETY: the caller promises 34 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(2);
            for half in 0..2 {
                codes(4 * half, rows.transposed(2 + 16 * half).map(|codes| _mm512_xor_si512(codes, sign)));
            }
            let header = rows.word(0);
            [[low_f16(header), _mm512_setzero_ps()]]
        }
    }
}

// SAFETY: the only values of k are 0 and 4, and 8 - 4 is the most.
unsafe impl Layout32<1> for Q4_0 {
    const BYTES: usize = 18;
    const OFFSET: i16 = 8;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 1] {
        // SAFETY: the caller promises 18 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(2);
            nibbles(rows, 2, |code| code, codes);
            let header = rows.word(0);
            [[low_f16(header), _mm512_setzero_ps()]]
        }
    }
}

// SAFETY: the only values of k are 0 and 4, and 8 - 4 is the most.
unsafe impl Layout32<1> for Q4_1 {
    const BYTES: usize = 20;
    const OFFSET: i16 = 0;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 1] {
        // SAFETY: the caller promises 20 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(4);
            nibbles(rows, 4, |code| code, codes);
            let header = rows.word(0);
            [[low_f16(header), high_f16(header)]]
        }
    }
}

// SAFETY: the only values of k are 0 and 4, and 8 - 4 is the most.
unsafe impl Layout32<1> for Q5_0 {
    const BYTES: usize = 22;
    const OFFSET: i16 = 16;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, mut codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 1] {
        // SAFETY: the caller promises 22 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(6);
            let [first, second, ..] = rows.header(0);
            let scale = low_f16(first);
            let high = _mm512_or_si512(_mm512_srli_epi32::<16>(first), _mm512_slli_epi32::<16>(second));
            let bytes = rows.transposed(6);
            codes(0, with_fifth_bits(bytes.map(|bytes| bits(bytes, 0, 15)), high, 0));
            codes(4, with_fifth_bits(bytes.map(|bytes| bits(bytes, 4, 15)), high, 4));
            [[scale, _mm512_setzero_ps()]]
        }
    }
}

// SAFETY: the only values of k are 0 and 4, and 8 - 4 is the most.
unsafe impl Layout32<1> for Q5_1 {
    const BYTES: usize = 24;
    const OFFSET: i16 = 0;
    const MIN: bool = true;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, mut codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 1] {
        // SAFETY: the caller promises 24 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(8);
            let [header, high, ..] = rows.header(0);
            let bytes = rows.transposed(8);
            codes(0, with_fifth_bits(bytes.map(|bytes| bits(bytes, 0, 15)), high, 0));
            codes(4, with_fifth_bits(bytes.map(|bytes| bits(bytes, 4, 15)), high, 4));
            [[low_f16(header), high_f16(header)]]
        }
    }
}

// SAFETY: the only values of k are 0 and 4, and 8 - 4 is the most.
unsafe impl Layout32<1> for Iq4Nl {
    const BYTES: usize = 18;
    const OFFSET: i16 = 128;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 1] {
        // SAFETY: the caller promises 18 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(2);
            nibbles(rows, 2, |indices| values(indices), codes);
            let header = rows.word(0);
            [[low_f16(header), _mm512_setzero_ps()]]
        }
    }
}

// SAFETY: the only values of k are 0 and 4, and 8 - 4 is the most.
unsafe impl Layout32<1> for Mxfp4 {
    const BYTES: usize = 17;
    const OFFSET: i16 = 12;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 1] {
        // SAFETY: the caller promises 17 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(1);
            nibbles(rows, 1, |indices| fp4_values(indices), codes);
            let header = rows.word(0);
            [[powers_of_two(header), _mm512_setzero_ps()]]
        }
    }
}

// SAFETY: `half` is 0 or 1, so k is at most 12, which is 8 * 2 - 4.
unsafe impl Layout32<2> for Nvfp4 {
    const BYTES: usize = 36;
    const OFFSET: i16 = 12;
    const MIN: bool = false;
    const SCALES: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, mut codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 2] {
        // SAFETY: the caller promises 36 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(4);
            for half in 0..2 {
                // 8 bytes have 16 codes: first the lower nibbles, then the upper ones.
                let [a, b, c, d] = rows.transposed(4 + 16 * half);
                for (k, bytes) in [[a, b], [c, d]].into_iter().enumerate() {
                    let [e, f] = bytes.map(|bytes| fp4_values(bits(bytes, 0, 15)));
                    let [g, h] = bytes.map(|bytes| fp4_values(bits(bytes, 4, 15)));
                    codes(8 * half + 4 * k, [e, f, g, h]);
                }
            }
            let header = rows.word(0);
            [[0, 8], [16, 24]].map(|shifts| shifts.map(|shift| half_e4m3(bits(header, shift, 0xff))))
        }
    }
}

// SAFETY: there are four parts, so k is at most 24 + 4.
unsafe impl Layout32<4> for Q1_0 {
    const BYTES: usize = 18;
    const OFFSET: i16 = 1;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, mut codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 4] {
        // SAFETY: the caller promises 18 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(2);
            for (part, bits) in rows.transposed(2).into_iter().enumerate() {
                let code = |k| _mm512_maskz_mov_epi8(four_bits(bits, k), _mm512_set1_epi8(2));
                codes(8 * part, [0, 1, 2, 3].map(code));
                codes(8 * part + 4, [4, 5, 6, 7].map(code));
            }
            let header = rows.word(0);
            [[low_f16(header), _mm512_setzero_ps()]; 4]
        }
    }
}

// SAFETY: there are four registers, so k is at most 12.
unsafe impl Layout32<2> for Q2_0 {
    const BYTES: usize = 18;
    const OFFSET: i16 = 1;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack(rows: &impl Sixteen, mut codes: impl FnMut(usize, [__m512i; 4])) -> [[__m512; 2]; 2] {
        // SAFETY: the caller promises 18 bytes in all rows, which the loads stay within.
        unsafe {
            rows.fetch(2);
            for (i, bytes) in rows.transposed(2).into_iter().enumerate() {
                codes(4 * i, [0, 1, 2, 3].map(|j| four_codes(bytes, j)));
            }
            let header = rows.word(0);
            [[low_f16(header), _mm512_setzero_ps()]; 2]
        }
    }
}

/// Calls `codes` with `code` of 32 nibbles from byte `at` on: first the lower ones, then the upper ones.
///
/// # Safety
/// 16 bytes from `at` on are readable in all rows.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn nibbles(
    rows: &impl Sixteen,
    at: usize,
    code: impl Fn(__m512i) -> __m512i,
    mut codes: impl FnMut(usize, [__m512i; 4]),
) {
    // SAFETY: the caller promises these bytes.
    let bytes = unsafe { rows.transposed(at) };
    codes(0, bytes.map(|bytes| code(bits(bytes, 0, 15))));
    codes(4, bytes.map(|bytes| code(bits(bytes, 4, 15))));
}

/// Returns byte `j` of each lane, in all four bytes of the lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_times(bytes: __m512i, j: usize) -> __m512i {
    let first = _mm512_set4_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0);
    _mm512_shuffle_epi8(bytes, _mm512_or_si512(first, _mm512_set1_epi8(j as i8)))
}

/// Returns bits 4 k to 4 k + 3 of each lane as a mask: one bit for each byte of the lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_bits(bits: __m512i, k: usize) -> u64 {
    let one_each = if k.is_multiple_of(2) { 0x0804_0201 } else { 0x8040_2010_u32 as i32 };
    _mm512_test_epi8_mask(four_times(bits, k / 2), _mm512_set1_epi32(one_each))
}

/// Returns the four codes of 2 bits in byte `j` of each lane, each in its own byte of the lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn four_codes(bytes: __m512i, j: usize) -> __m512i {
    let bytes = four_times(bytes, j);
    // Byte i keeps bits 2 i and 2 i + 1. The mask drops the bits that the shifts bring from another byte.
    let lanes = |lanes: __m512i, mask: u32| _mm512_and_si512(lanes, _mm512_set1_epi32(mask as i32));
    let (a, b) = (lanes(bytes, 3), lanes(_mm512_srli_epi32::<2>(bytes), 3 << 8));
    let (c, d) = (lanes(_mm512_srli_epi32::<4>(bytes), 3 << 16), lanes(_mm512_srli_epi32::<6>(bytes), 3 << 24));
    _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d))
}

/// Returns codes 4 k to 4 k + 15, with bits 4 k to 4 k + 15 of `high` as their fifth bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn with_fifth_bits(mut codes: [__m512i; 4], high: __m512i, k: usize) -> [__m512i; 4] {
    for (k, codes) in (k..).zip(&mut codes) {
        let set = four_bits(high, k);
        *codes = _mm512_mask_add_epi8(*codes, set, *codes, _mm512_set1_epi8(16));
    }
    codes
}
