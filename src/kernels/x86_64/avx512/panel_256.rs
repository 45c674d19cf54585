//! Panels of the formats with super-blocks of 256: codes as unsigned bytes with a row per lane, and their scales.

use core::arch::x86_64::*;
use core::marker::PhantomData;

use super::panel::{Sixteen, bits, high_f16, low_f16};

/// One super-block of each of 32 rows. Index \[g\] has rows 16 g to 16 g + 15.
#[repr(C, align(64))]
pub(in crate::kernels::x86_64) struct Panel256 {
    /// Codes 4 k to 4 k + 3 of every row, plus [`Layout256::OFFSET`].
    pub(in crate::kernels::x86_64) codes: [[__m512i; 2]; 64],
    /// 8 or 16 sub-scales: i32 where [`Layout256::GROUP`] is a sub-block, otherwise i16 with a zero above.
    pub(in crate::kernels::x86_64) sub_scales: [[__m512i; 2]; 16],
    /// Sub-minima 2 j and 2 j + 1 as two i16, in formats with minima.
    pub(in crate::kernels::x86_64) sub_mins: [[__m512i; 2]; 8],
    pub(in crate::kernels::x86_64) scale: [__m512; 2],
    /// Scale of the sub-minima, in formats with minima.
    pub(in crate::kernels::x86_64) min: [__m512; 2],
    /// In formats with wide groups: the sums of these groups fit 16 bits if no sum of 16 squares of the activations is
    /// larger than this.
    pub(in crate::kernels::x86_64) limit: u32,
}

/// The square of the largest i16.
const MAX_SQUARED: u32 = 32767 * 32767;

/// A format with super-blocks of 256.
///
/// # Safety
/// `unpack` calls `codes` with k of at most 60, or 56 where [`Layout256::Codes`] has eight registers.
pub(in crate::kernels::x86_64) unsafe trait Layout256 {
    /// Registers that are unpacked together: four, with sixteen codes of each row, or eight, with a sub-block of 32.
    type Codes: AsRef<[[__m512i; 4]]>;
    /// Number of bytes of a super-block.
    const BYTES: usize;
    /// Number of sub-scales of a super-block, 8 or 16.
    const SUBS: usize;
    /// Number that is added to the codes in the panel.
    const OFFSET: i16;
    /// Number of codes that are summed before the sum is multiplied by the sub-scale. It is 8 or 16 where the sum of so
    /// many fits 16 bits (activations are -127 to 127). Otherwise it is 32, which stands for a sub-block, even for one
    /// of 16.
    const GROUP: usize;
    /// As [`Self::GROUP`], for weights and activations whose sums of so many codes fit 16 bits, see
    /// [`Panel256::limit`]. It is 16 or 32 where that is faster, otherwise 0. If it is not 0, no sub-scale is negative,
    /// or `GROUP` is below 32.
    const WIDE: usize;
    /// Whether the format has minima.
    const MIN: bool;

    /// Unpacks a super-block of sixteen rows. Calls `codes` with the header, k, which is at most 60, and the codes of a
    /// sub-block from code 4 k on, plus [`Self::OFFSET`]. A lane of 32 bits belongs to a row. The header has their
    /// sub-scale by then. Where [`Self::Codes`] has eight registers, `codes` fetches 16 bytes of each row, and this
    /// function fetches the rest.
    ///
    /// # Safety
    /// [`Self::BYTES`] bytes are readable in all rows, and the processor has the instructions.
    unsafe fn unpack<H: Header>(rows: &impl Sixteen, header: &mut H, codes: impl FnMut(&H, usize, Self::Codes));
}

/// Takes the scales and minima of a super-block of sixteen rows. A lane of 32 bits belongs to a row.
pub(in crate::kernels::x86_64) trait Header {
    /// Takes sub-scale `j`, an i32.
    ///
    /// # Safety
    /// `j` is below 16, and the processor has the instructions.
    unsafe fn sub_scale(&mut self, j: usize, sub_scale: __m512i);

    /// Takes sub-minima 2 j and 2 j + 1, two i16.
    ///
    /// # Safety
    /// `j` is below 8, and the processor has the instructions.
    unsafe fn sub_mins(&mut self, j: usize, sub_mins: __m512i);

    /// Takes the scale, and the scale of the sub-minima in formats with minima.
    fn scales(&mut self, scale: __m512, min: __m512);
}

impl Panel256 {
    /// Unpacks a super-block of sixteen rows to rows 16 `g` to 16 `g` + 15.
    ///
    /// # Safety
    /// As for [`Layout256::unpack`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) unsafe fn unpack<L: Layout256>(&mut self, rows: &impl Sixteen, g: usize) {
        let Self { codes, sub_scales, sub_mins, scale, min, .. } = self;
        let mut header = Half { sub_scales, sub_mins, scale, min, g, layout: PhantomData::<L> };
        let to_panel = |_: &Half<'_, L>, k: usize, registers: L::Codes| {
            let registers = registers.as_ref().as_flattened();
            if registers.len() == 8 {
                rows.fetch(16);
            }
            for (k, &register) in (k..).zip(registers) {
                // SAFETY: k is at most 60 with four registers and 56 with eight, so k is at most 63 within the loop:
                // the length of the array is 64.
                set(unsafe { codes.get_unchecked_mut(k) }, g, register);
            }
        };
        // SAFETY: the caller promises what the called function asks for.
        unsafe { L::unpack(rows, &mut header, to_panel) };
    }

    /// Sets [`Panel256::limit`] after a super-block of sixteen rows was unpacked. The rows with g = 0 come first.
    ///
    /// # Safety
    /// `g` is below 2, and the processor has the instructions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(in crate::kernels::x86_64) unsafe fn bound<L: Layout256>(&mut self, g: usize) {
        if L::WIDE == 0 {
            return;
        }
        // The square of q - o is q (q - 2 o) + o^2.
        let twice = _mm512_set1_epi8((2 * L::OFFSET) as i8);
        let start = _mm512_set1_epi32(L::WIDE as i32 * i32::from(L::OFFSET) * i32::from(L::OFFSET));
        let mut largest = _mm512_set1_epi32(1);
        for groups in self.codes.chunks_exact(L::WIDE / 4) {
            let mut squares = start;
            for codes in groups {
                // SAFETY: the caller promises g < 2, the length of the array.
                let codes = unsafe { *codes.get_unchecked(g) };
                squares = _mm512_dpbusd_epi32(squares, codes, _mm512_sub_epi8(codes, twice));
            }
            largest = _mm512_max_epu32(largest, squares);
        }
        // By Cauchy and Schwarz, the square of a sum of products is at most the product of the sums of squares.
        let limit = MAX_SQUARED / _mm512_reduce_max_epu32(largest).max(1) / (L::WIDE as u32 / 16);
        self.limit = if g == 0 { limit } else { limit.min(self.limit) };
    }
}

/// The headers of rows 16 `g` to 16 `g` + 15 of a panel.
struct Half<'a, L> {
    sub_scales: &'a mut [[__m512i; 2]; 16],
    sub_mins: &'a mut [[__m512i; 2]; 8],
    scale: &'a mut [__m512; 2],
    min: &'a mut [__m512; 2],
    g: usize,
    layout: PhantomData<L>,
}

impl<L: Layout256> Header for Half<'_, L> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn sub_scale(&mut self, j: usize, sub_scale: __m512i) {
        let low = if L::GROUP < 32 { 0xffff } else { -1 };
        // SAFETY: the caller promises j < 16, the length of the array.
        let places = unsafe { self.sub_scales.get_unchecked_mut(j) };
        set(places, self.g, _mm512_and_si512(sub_scale, _mm512_set1_epi32(low)));
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn sub_mins(&mut self, j: usize, sub_mins: __m512i) {
        // SAFETY: the caller promises j < 8, the length of the array.
        let places = unsafe { self.sub_mins.get_unchecked_mut(j) };
        set(places, self.g, sub_mins);
    }

    #[inline(always)]
    fn scales(&mut self, scale: __m512, min: __m512) {
        set(self.scale, self.g, scale);
        set(self.min, self.g, min);
    }
}

/// Sets register `g` of two.
#[inline(always)]
pub(super) fn set<T>(places: &mut [T; 2], g: usize, register: T) {
    if let Some(place) = places.get_mut(g) {
        *place = register;
    }
}

/// Hands sub-scales 4 j to 4 j + 3, which are signed bytes, to the header.
///
/// # Safety
/// `j` is below 4, and the processor has the instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn set_sub_scales(header: &mut impl Header, j: usize, bytes: __m512i) {
    for b in 0..4 {
        let top = _mm512_sll_epi32(bytes, _mm_cvtsi32_si128(24 - 8 * b as i32));
        // SAFETY: the caller promises j < 4, and b < 4, so 4 j + b < 16.
        unsafe { header.sub_scale(4 * j + b, _mm512_srai_epi32::<24>(top)) };
    }
}

/// Hands sub-minima 4 j to 4 j + 3, which are unsigned bytes, to the header.
///
/// # Safety
/// `j` is below 4, and the processor has the instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn set_sub_mins(header: &mut impl Header, j: usize, bytes: __m512i) {
    let lane = _mm512_set4_epi32(0x000c_000c, 0x0008_0008, 0x0004_0004, 0);
    for (i, picked) in [0x8001_8000_u32, 0x8003_8002].into_iter().enumerate() {
        let picked = _mm512_or_si512(lane, _mm512_set1_epi32(picked as i32));
        // SAFETY: the caller promises j < 4, and i < 2, so 2 j + i < 8.
        unsafe { header.sub_mins(2 * j + i, _mm512_shuffle_epi8(bytes, picked)) };
    }
}

/// Unpacks the 16-byte header of Q4_K and Q5_K.
///
/// # Safety
/// 16 bytes are readable in all rows, and the processor has the instructions.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) unsafe fn set_header(rows: &impl Sixteen, header: &mut impl Header) {
    // SAFETY: the caller promises 16 bytes in all rows; the indices of sub-scales and sub-minima are below 2.
    unsafe {
        let [first, scales, mins, low] = rows.transposed(0);
        header.scales(low_f16(first), high_f16(first));
        set_sub_scales(header, 0, bits(scales, 0, 0x3f));
        set_sub_scales(header, 1, _mm512_or_si512(bits(low, 0, 15), bits(scales, 2, 0x30)));
        set_sub_mins(header, 0, bits(mins, 0, 0x3f));
        set_sub_mins(header, 1, _mm512_or_si512(bits(low, 4, 15), bits(mins, 2, 0x30)));
    }
}
