//! Panels of super-blocks whose codes come from a codebook, or are digits of a number: the code of the plain kernel unpacks
//! them, row by row.

use core::arch::x86_64::*;
use core::cell::Cell;
use core::marker::PhantomData;

use super::panel::{Rows, Sixteen};
use super::panel_256::{self, Header, set_sub_scales};
use crate::kernels::x86_64::ahead::Ahead;
use crate::quant::{Layout256, iq1_m, iq1_s, iq2_s, iq2_xs, iq2_xxs, iq3_s, iq3_xxs, tq1_0};

/// A format without minima whose codes are at most `LARGEST`; it is multiplied as the format with blocks `P` is.
pub(super) struct Unpacked<B, P, const SUBS: usize, const LARGEST: i16>(PhantomData<(B, P)>);

pub(super) type Iq1S = Unpacked<iq1_s::Block, iq3_s::Block, 8, 15>;
pub(super) type Iq1M = Unpacked<iq1_m::Block, iq1_m::Block, 16, 15>;
pub(super) type Iq2Xxs = Unpacked<iq2_xxs::Block, iq3_xxs::Block, 8, 62>;
pub(super) type Iq2Xs = Unpacked<iq2_xs::Block, iq2_s::Block, 16, 62>;
pub(super) type Iq2S = Unpacked<iq2_s::Block, iq2_s::Block, 16, 62>;
pub(super) type Iq3Xxs = Unpacked<iq3_xxs::Block, iq3_xxs::Block, 8, 62>;
pub(super) type Iq3S = Unpacked<iq3_s::Block, iq3_s::Block, 8, 15>;
pub(super) type Tq1_0 = Unpacked<tq1_0::Block, iq3_s::Block, 8, 15>;

/// What was unpacked of sixteen rows.
struct Plain {
    codes: [[i8; 256]; 16],
    /// 8 or 16 of each row.
    sub_scales: [[i8; 16]; 16],
    scales: [f32; 16],
}

// SAFETY: p is below 16, so k is at most 60.
unsafe impl<B, P, const SUBS: usize, const LARGEST: i16> panel_256::Layout256 for Unpacked<B, P, SUBS, LARGEST>
where
    B: Layout256<SUBS>,
    P: Layout256<SUBS>,
{
    type Products = Unpacked<P, P, SUBS, LARGEST>;
    type Codes = [[__m512i; 4]; 1];
    const BYTES: usize = size_of::<B>();
    const SUBS: usize = SUBS;
    const OFFSET: i16 = LARGEST;
    // 16 * 15 * 127 fits 16 bits.
    const GROUP: usize = if LARGEST <= 15 { 16 } else { 32 };
    const WIDE: usize = 0;
    const MIN: bool = false;

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn unpack<H: Header>(
        rows: &impl Sixteen,
        header: &mut H,
        mut codes: impl FnMut(&H, usize, [[__m512i; 4]; 1]),
    ) {
        rows.fetch(Self::BYTES);
        // SAFETY: the caller promises a block in all rows.
        let plain = unsafe { plain::<B, SUBS>(rows) };
        let rows_of = |first: *const i8, stride: u32| Rows {
            block: first.cast(),
            offsets: core::array::from_fn(|row| row as u32 * stride),
            ahead: Ahead::none(),
            fetched: Cell::new(0),
        };
        let plain_codes = rows_of(plain.codes.as_ptr().cast(), 256);
        let sub_scales = rows_of(plain.sub_scales.as_ptr().cast(), 16);
        // SAFETY: there are sixteen rows of 256 codes and 16 sub-scales, and as many scales; p < 16, so 4 p is at most 60, and
        // j < SUBS / 4 <= 4.
        unsafe {
            header.scales(_mm512_loadu_ps(plain.scales.as_ptr()), _mm512_setzero_ps());
            for (j, sub_scales) in sub_scales.transposed(0).into_iter().enumerate().take(SUBS / 4) {
                set_sub_scales(header, j, sub_scales);
            }
            for p in 0..16 {
                let raised = |codes| _mm512_add_epi8(codes, _mm512_set1_epi8(LARGEST as i8));
                codes(header, 4 * p, [plain_codes.transposed(16 * p).map(raised)]);
            }
        }
    }
}

/// Unpacks a block of sixteen rows.
///
/// # Safety
/// All rows have a block of type `B`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
unsafe fn plain<B: Layout256<SUBS>, const SUBS: usize>(rows: &impl Sixteen) -> Plain {
    let mut plain = Plain { codes: [[0; 256]; 16], sub_scales: [[0; 16]; 16], scales: [0.0; 16] };
    let places = plain.codes.iter_mut().zip(&mut plain.sub_scales).zip(&mut plain.scales);
    for (place, ((codes, sub_scales), scale)) in rows.places(0).into_iter().zip(places) {
        // SAFETY: the caller promises a block there; its type has the alignment 1, and any bytes are valid.
        let block = unsafe { &*place.cast::<B>() }.unpack();
        *codes = block.codes;
        sub_scales.iter_mut().zip(block.sub_scales).for_each(|(to, from)| *to = from);
        *scale = block.scale;
    }
    plain
}
