//! Operations on unpacked blocks, which are the same for all formats of a family.
//!
//! The file of a format describes its bytes and unpacks them: to a [`Block32`], to several blocks with a scale each, or
//! to a [`SuperBlock`].

use bytemuck::AnyBitPattern;

use super::activation::{ActivationRow, QuantizedRow};
use crate::num::f16_to_f32;

/// The bytes of a block of 32 elements, with alignment 1.
pub(crate) trait Layout32: AnyBitPattern {
    fn unpack(&self) -> Block32;
}

/// The bytes of a block that consists of `PARTS` successive blocks of `LEN` elements, 16 or 32, with alignment 1.
pub(crate) trait Parts<const LEN: usize, const PARTS: usize>: AnyBitPattern {
    fn parts(&self) -> [BlockOf<LEN>; PARTS];
}

impl<B: Layout32> Parts<32, 1> for B {
    #[inline(always)]
    fn parts(&self) -> [Block32; 1] {
        [self.unpack()]
    }
}

/// The bytes of a super-block of 256 elements in `SUBS` sub-blocks, with alignment 1.
pub(crate) trait Layout256<const SUBS: usize>: AnyBitPattern {
    fn unpack(&self) -> SuperBlock<SUBS>;
}

/// `LEN` elements, each `scale * code`, or `scale * code + min`.
pub(crate) struct BlockOf<const LEN: usize> {
    pub(crate) scale: f32,
    pub(crate) min: Option<f32>,
    pub(crate) codes: [i8; LEN],
}

/// A block of 32 elements.
pub(crate) type Block32 = BlockOf<32>;

/// 256 elements in sub-blocks, each `(scale * sub-scale) * code`, less `min * sub-min` if there are minima.
pub(crate) struct SuperBlock<const SUBS: usize> {
    pub(crate) scale: f32,
    pub(crate) sub_scales: [i8; SUBS],
    pub(crate) mins: Option<Mins<SUBS>>,
    pub(crate) codes: [i8; 256],
}

/// The numbers that are subtracted from the elements of a super-block: `min * sub-min`.
pub(crate) struct Mins<const SUBS: usize> {
    pub(crate) min: f32,
    pub(crate) sub_mins: [u8; SUBS],
}

/// One block of quantized activations, with the sums of every 16 codes.
struct ActivationBlock<'a, const LEN: usize, const SUMS: usize> {
    codes: &'a [i8; LEN],
    scale: f32,
    sums: &'a [i16; SUMS],
}

impl<const LEN: usize> BlockOf<LEN> {
    fn dequantize(&self, out: &mut [f32; LEN]) {
        for (out, &code) in out.iter_mut().zip(&self.codes) {
            let product = self.scale * f32::from(code);
            *out = match self.min {
                Some(min) => product + min,
                None => product,
            };
        }
    }

    /// Returns `acc` plus the dot product. The integers are exact: |isum| <= 32 * 128 * 128 = 2^19.
    fn dot<const SUMS: usize>(&self, acc: f32, x: &ActivationBlock<'_, LEN, SUMS>) -> f32 {
        let acc = acc + integer_dot(&self.codes, x.codes) as f32 * (self.scale * x.scale);
        let Some(min) = self.min else {
            return acc;
        };
        let sum: i32 = x.sums.iter().map(|&sum| i32::from(sum)).sum();
        acc + sum as f32 * (min * x.scale)
    }
}

impl<const SUBS: usize> SuperBlock<SUBS> {
    fn dequantize(&self, out: &mut [f32; 256]) {
        let parts = out.as_chunks_mut::<16>().0.iter_mut().zip(self.codes.as_chunks::<16>().0);
        for (part, (out, codes)) in parts.enumerate() {
            let scale = self.scale * f32::from(of_part(&self.sub_scales, part));
            let min = self.mins.as_ref().map(|mins| mins.min * f32::from(of_part(&mins.sub_mins, part)));
            for (out, &code) in out.iter_mut().zip(codes) {
                let product = scale * f32::from(code);
                *out = match min {
                    Some(min) => product - min,
                    None => product,
                };
            }
        }
    }

    /// Returns `acc` plus the dot product. The integers are exact for any bytes. A code of a format with sub-scales is
    /// within -127..=113, activations and sub-scales are within -128..=127, so no partial sum exceeds 256 * 127 * 128 *
    /// 128 < 2^29. With minima the bound is 256 * 255 * 128 < 2^23.
    fn dot(&self, acc: f32, x: &ActivationBlock<'_, 256, 16>) -> f32 {
        let parts = self.codes.as_chunks::<16>().0.iter().zip(x.codes.as_chunks::<16>().0).enumerate();
        let isum: i32 = parts.map(|(i, (w, x))| i32::from(of_part(&self.sub_scales, i)) * integer_dot(w, x)).sum();
        let acc = acc + isum as f32 * (self.scale * x.scale);
        let Some(mins) = &self.mins else {
            return acc;
        };
        let sums = x.sums.iter().enumerate();
        let msum: i32 = sums.map(|(i, &sum)| i32::from(of_part(&mins.sub_mins, i)) * i32::from(sum)).sum();
        acc - msum as f32 * (mins.min * x.scale)
    }
}

/// Returns the element of `of_subs` that belongs to a part of 16 elements of a super-block. A sub-block has one or two
/// parts.
#[inline]
fn of_part<T: Copy + Default, const SUBS: usize>(of_subs: &[T; SUBS], part: usize) -> T {
    of_subs.get(part * SUBS / 16).copied().unwrap_or_default()
}

/// Returns the exact sum of the products. The slices have the same length, at most 256.
#[inline]
fn integer_dot(w: &[i8], x: &[i8]) -> i32 {
    w.iter().zip(x).map(|(&w, &x)| i32::from(w) * i32::from(x)).sum()
}

/// Expands a row of blocks of 32. Returns `None` if `row` and `out` have different lengths.
pub(super) fn dequantize_32<B: Layout32>(row: &[u8], out: &mut [f32]) -> Option<()> {
    dequantize_blocks(row, out, |block: &B, out| block.unpack().dequantize(out))
}

/// Expands a row of blocks in parts. Returns `None` if `row` and `out` have different lengths.
pub(super) fn dequantize_parts<B: Parts<LEN, PARTS>, const LEN: usize, const PARTS: usize>(
    row: &[u8],
    out: &mut [f32],
) -> Option<()> {
    let blocks: &[B] = bytemuck::try_cast_slice(row).ok()?;
    let (out, []) = out.as_chunks_mut::<LEN>() else {
        return None;
    };
    if blocks.len().checked_mul(PARTS)? != out.len() {
        return None;
    }
    for (part, out) in blocks.iter().flat_map(B::parts).zip(out) {
        part.dequantize(out);
    }
    Some(())
}

/// Expands a row of super-blocks. Returns `None` if `row` and `out` have different lengths.
pub(super) fn dequantize_256<B: Layout256<SUBS>, const SUBS: usize>(row: &[u8], out: &mut [f32]) -> Option<()> {
    dequantize_blocks(row, out, |block: &B, out| block.unpack().dequantize(out))
}

/// Returns the dot product of a row of blocks of 32, or `None` for another form or length of `x`.
pub(super) fn dot_32<B: Layout32>(row: &[u8], x: ActivationRow<'_>) -> Option<f32> {
    let ActivationRow::Q8x32(x) = x else {
        return None;
    };
    dot_blocks::<B, 32, 2>(row, x, |acc, block: &B, x| block.unpack().dot(acc, x))
}

/// Returns the dot product of a row of blocks in parts, added part by part in increasing order, starting from +0.
/// Returns `None` for another form or length of `x`.
pub(super) fn dot_parts<B: Parts<LEN, PARTS>, const LEN: usize, const PARTS: usize, const SUMS: usize>(
    row: &[u8],
    x: ActivationRow<'_>,
) -> Option<f32> {
    let ActivationRow::Q8x32(x) = x else {
        return None;
    };
    let blocks: &[B] = bytemuck::try_cast_slice(row).ok()?;
    let (codes, []) = x.codes.as_chunks::<LEN>() else {
        return None;
    };
    let (sums, []) = x.sums.as_chunks::<SUMS>() else {
        return None;
    };
    let per_scale = const { 32 / LEN };
    let wanted = blocks.len().checked_mul(PARTS)?;
    if [codes.len(), sums.len()] != [wanted; 2] || x.scales.len() != wanted / per_scale {
        return None;
    }
    let scales = x.scales.iter().flat_map(|&scale| core::iter::repeat_n(scale, per_scale));
    let x = codes.iter().zip(scales).zip(sums).map(|((codes, scale), sums)| ActivationBlock { codes, scale, sums });
    Some(blocks.iter().flat_map(B::parts).zip(x).fold(0.0, |acc, (part, x)| part.dot(acc, &x)))
}

/// Returns the dot product of a row of super-blocks, or `None` for another form or length of `x`.
pub(super) fn dot_256<B: Layout256<SUBS>, const SUBS: usize>(row: &[u8], x: ActivationRow<'_>) -> Option<f32> {
    let ActivationRow::Q8x256(x) = x else {
        return None;
    };
    dot_blocks(row, x, |acc, block: &B, x| block.unpack().dot(acc, x))
}

fn dequantize_blocks<B: AnyBitPattern, const LEN: usize>(
    row: &[u8],
    out: &mut [f32],
    block: impl Fn(&B, &mut [f32; LEN]),
) -> Option<()> {
    let blocks: &[B] = bytemuck::try_cast_slice(row).ok()?;
    let (out, []) = out.as_chunks_mut::<LEN>() else {
        return None;
    };
    if blocks.len() != out.len() {
        return None;
    }
    for (bytes, out) in blocks.iter().zip(out) {
        block(bytes, out);
    }
    Some(())
}

/// Returns a dot product that is added block by block in increasing order, starting from +0.
fn dot_blocks<B: AnyBitPattern, const LEN: usize, const SUMS: usize>(
    row: &[u8],
    x: QuantizedRow<'_>,
    block: impl Fn(f32, &B, &ActivationBlock<'_, LEN, SUMS>) -> f32,
) -> Option<f32> {
    let blocks: &[B] = bytemuck::try_cast_slice(row).ok()?;
    let (codes, []) = x.codes.as_chunks::<LEN>() else {
        return None;
    };
    let (sums, []) = x.sums.as_chunks::<SUMS>() else {
        return None;
    };
    if [codes.len(), x.scales.len(), sums.len()] != [blocks.len(); 3] {
        return None;
    }
    let x = codes.iter().zip(x.scales).zip(sums).map(|((codes, &scale), sums)| ActivationBlock { codes, scale, sums });
    Some(blocks.iter().zip(x).fold(0.0, |acc, (bytes, x)| block(acc, bytes, &x)))
}

/// Returns the f16 number in two bytes.
#[inline(always)]
pub(super) fn f16(bytes: [u8; 2]) -> f32 {
    f16_to_f32(half::f16::from_le_bytes(bytes))
}

/// Returns codes whose low part and high part are in different bytes.
#[inline(always)]
pub(super) fn combine<const N: usize>(low: &[u8; N], high: &[u8; N], code: impl Fn(u8, u8) -> i8) -> [i8; N] {
    let mut codes = [0; N];
    for ((out, &low), &high) in codes.iter_mut().zip(low).zip(high) {
        *out = code(low, high);
    }
    codes
}

/// Returns `f` of each element. Compilers make vectors of this loop, but not of `map` of long arrays.
#[inline(always)]
pub(super) fn each<T: Copy, U: Copy + Default, const N: usize>(from: &[T; N], f: impl Fn(T) -> U) -> [U; N] {
    let mut to = [U::default(); N];
    for (to, &from) in to.iter_mut().zip(from) {
        *to = f(from);
    }
    to
}

/// Returns the low nibbles of 16 bytes, then the high nibbles.
#[inline(always)]
pub(super) fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    bytemuck::must_cast([each(bytes, |byte| byte & 15), each(bytes, |byte| byte >> 4)])
}
