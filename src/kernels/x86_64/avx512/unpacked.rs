//! Products of several rows of activations and super-blocks that are unpacked row by row. After unpacking, all formats
//! with the same number of sub-scales and the same largest code share the code.

use core::arch::x86_64::*;
use core::cell::Cell;

use super::by_row::{ByRow, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Tq1_0};
use super::few_unpacked;
use super::matmul::{Format, Input, Sums, SuperBlocks, by_panels};
use super::panel::{Rows, Sixteen, low_f16};
use super::panel_256::{Header, Layout256, Panel256, set_sub_scales};
use crate::kernels::generic::{Inputs, Refused};
use crate::kernels::x86_64::ahead::Ahead;
use crate::quant::by_dtype;
use crate::tensor::TensorView;

/// See [`Level::products`](crate::kernels::Level::products).
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
pub(super) fn products(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Result<(), Refused> {
    let done = by_dtype!(weights.dtype(), {
        IQ2_XXS => of::<Iq2Xxs, 8, 62>(weights, inputs, out, scratch),
        IQ2_XS => of::<Iq2Xs, 16, 62>(weights, inputs, out, scratch),
        IQ2_S => of::<Iq2S, 16, 62>(weights, inputs, out, scratch),
        IQ3_XXS => of::<Iq3Xxs, 8, 62>(weights, inputs, out, scratch),
        IQ3_S => of::<Iq3S, 8, 15>(weights, inputs, out, scratch),
        IQ1_S => of::<Iq1S, 8, 15>(weights, inputs, out, scratch),
        // With a larger bound of the codes than necessary, so that it shares the code of IQ2.
        IQ1_M => of::<Iq1M, 16, 62>(weights, inputs, out, scratch),
        TQ1_0 => of::<Tq1_0, 8, 15>(weights, inputs, out, scratch),
        _ => return Err(Refused::NoKernel),
    });
    done.ok_or(Refused::Sizes)
}

/// Computes the products for format `B`, with `SUBS` sub-scales and codes of at most `LARGEST`.
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512vl,avx512vnni")]
fn of<B: ByRow, const SUBS: usize, const LARGEST: i16>(
    weights: TensorView<'_>,
    inputs: &Inputs<'_>,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    let how = (unpack::<B, LARGEST> as UnpackRows, size_of::<B::Block>());
    if inputs.rows() <= few_unpacked::MOST {
        return few_unpacked::products(how, LARGEST as u8, weights, inputs, out);
    }
    by_panels::<Unpacked<SUBS, LARGEST>>(how, weights, inputs, out, scratch)
}

/// The formats with `SUBS` sub-scales, without minima, and with codes of at most `LARGEST`.
pub(super) struct Unpacked<const SUBS: usize, const LARGEST: i16>;

/// The function that unpacks a super-block of sixteen rows, and the number of bytes of a super-block.
///
/// # Safety
/// The function may be called where this number of bytes is readable at all places, and the processor has the
/// instructions.
pub(super) type Unpack = (UnpackRows, usize);
type UnpackRows = unsafe fn(&[*const u8; 16], &mut [Row; 16]);

/// An unpacked super-block of a row.
#[repr(C, align(64))]
pub(super) struct Row {
    /// 256 codes, each plus the largest code of the format.
    pub(super) codes: [__m512i; 4],
    /// 16 sub-scales, one per 16 codes.
    pub(super) sub_scales: __m128i,
    pub(super) scale: f32,
}

impl Row {
    /// Returns sixteen rows of zeros.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) fn sixteen() -> [Self; 16] {
        let (codes, sub_scales) = ([_mm512_setzero_si512(); 4], _mm_setzero_si128());
        core::array::from_fn(|_| Self { codes, sub_scales, scale: 0.0 })
    }
}

// SAFETY: the type of the panel is that of all super-blocks.
unsafe impl<const SUBS: usize, const LARGEST: i16> Format for Unpacked<SUBS, LARGEST> {
    type Panel = Panel256;
    const COLS: usize = 256;
    const SCALED: usize = 256;
    type How = Unpack;

    #[inline(always)]
    fn bytes((_, bytes): Unpack) -> usize {
        bytes
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack((unpack, bytes): Unpack, rows: &Rows, g: usize, panel: &mut Panel256, many: bool) {
        rows.fetch(bytes);
        let mut plain = Row::sixteen();
        // SAFETY: the caller promises `bytes` bytes in all rows; this function has the features.
        unsafe { unpack(&rows.places(0), &mut plain) };
        let rows = Rows {
            block: plain.as_ptr().cast(),
            offsets: core::array::from_fn(|row| (row * size_of::<Row>()) as u32),
            ahead: Ahead::none(),
            fetched: Cell::new(0),
        };
        // SAFETY: these are sixteen rows, and the format is the one below.
        unsafe { SuperBlocks::<Self>::unpack((), &rows, g, panel, many) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn add_products<const ROWS: usize>(
        panel: &[Panel256],
        inputs: &[Input; ROWS],
        sums: &mut Sums,
        ahead: Ahead,
        out: *mut f32,
    ) {
        // SAFETY: the caller promises what the called function asks for.
        unsafe { SuperBlocks::<Self>::add_products(panel, inputs, sums, ahead, out) }
    }
}

// SAFETY: p is below 16, so k is at most 60.
unsafe impl<const SUBS: usize, const LARGEST: i16> Layout256 for Unpacked<SUBS, LARGEST> {
    type Codes = [[__m512i; 4]; 1];
    const BYTES: usize = size_of::<Row>();
    const SUBS: usize = SUBS;
    const OFFSET: i16 = LARGEST;
    // 16 * 15 * 127 fits 16 bits.
    const GROUP: usize = if LARGEST <= 15 { 16 } else { 32 };
    const WIDE: usize = 0;
    const MIN: bool = false;

    /// Unpacks sixteen values of [`Row`].
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<H: Header>(
        rows: &impl Sixteen,
        header: &mut H,
        mut codes: impl FnMut(&H, usize, [[__m512i; 4]; 1]),
    ) {
        // SAFETY: the caller promises sixteen values of `Row`, which has 256 codes, 16 bytes of sub-scales and a scale;
        // p < 16, so 4 p is at most 60, and j < SUBS / 4 <= 4.
        unsafe {
            header.scales(_mm512_castsi512_ps(rows.word(272)), _mm512_setzero_ps());
            let sub_scales = rows.transposed(256);
            let all = if SUBS == 16 { sub_scales } else { every_second(sub_scales) };
            for (j, sub_scales) in all.into_iter().enumerate().take(SUBS / 4) {
                set_sub_scales(header, j, sub_scales);
            }
            for p in 0..16 {
                codes(header, 4 * p, [rows.transposed(16 * p)]);
            }
        }
    }
}

/// Unpacks a super-block of sixteen rows in format `B`.
///
/// # Safety
/// There is a super-block at each of the places, and the processor has the instructions.
#[inline(never)] // a function of its own for each format
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn unpack<B: ByRow, const LARGEST: i16>(places: &[*const u8; 16], rows: &mut [Row; 16]) {
    const { assert!(B::SCALE[0] + 4 <= size_of::<B::Block>() && B::SCALE[1] + 4 <= size_of::<B::Block>()) };
    let raised = _mm512_set1_epi8((LARGEST - B::OFFSET as i16) as i8);
    for (places, rows) in places.as_chunks::<2>().0.iter().zip(rows.as_chunks_mut::<2>().0) {
        // SAFETY: the caller promises the blocks, which are bytes; this function has the features.
        let unpacked = unsafe { B::unpack(places.map(|place| &*place.cast::<B::Block>())) };
        for ((block, row), place) in unpacked.into_iter().zip(rows).zip(places) {
            for ((to, codes), negative) in row.codes.iter_mut().zip(block.codes).zip(block.negative) {
                let signed = _mm512_mask_sub_epi8(codes, negative, _mm512_setzero_si512(), codes);
                *to = _mm512_add_epi8(signed, raised);
            }
            row.sub_scales = block.sub_scales;
            // SAFETY: the block has 4 bytes at the places of its scale; this function has the features.
            let bits = unsafe {
                let [first, second] = B::SCALE.map(|at| place.add(at).cast::<i32>().read_unaligned());
                B::scale_bits(_mm512_set1_epi32(first), _mm512_set1_epi32(second))
            };
            row.scale = _mm512_cvtss_f32(low_f16(bits)) * B::FACTOR;
        }
    }
}

/// Returns every second one of the 16 bytes in each lane. They are in the first two registers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn every_second(bytes: [__m512i; 4]) -> [__m512i; 4] {
    // The first and the third of four bytes, in the lower half of the lane.
    let [a, b, c, d] = bytes.map(|bytes| {
        let third = _mm512_and_si512(_mm512_srli_epi32::<8>(bytes), _mm512_set1_epi32(0xff00));
        _mm512_or_si512(_mm512_and_si512(bytes, _mm512_set1_epi32(0xff)), third)
    });
    let both = |low, high| _mm512_or_si512(low, _mm512_slli_epi32::<16>(high));
    [both(a, b), both(c, d), _mm512_setzero_si512(), _mm512_setzero_si512()]
}
