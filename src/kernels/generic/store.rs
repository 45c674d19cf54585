//! Storing the keys and values of tokens in the tiles that attention reads.

use bytemuck::Pod;
use half::f16;

use crate::error::Fault;
use crate::kv::{ElementsMut, KvElement, KvTileMut, SCALED, TILE_TOKENS};
use crate::num::{f16_to_f32, f32_to_f16, is_finite, round_to_i8, settle};

/// See [`Level::store`](crate::kernels::Level::store).
#[inline(always)]
pub(in crate::kernels) fn store(tile: KvTileMut<'_>, slot: usize, tokens: &[[&[f32]; 2]]) -> Result<(), Fault> {
    match store_finite(tile, slot, tokens) {
        Some(true) => Ok(()),
        Some(false) => Err(Fault::NonFinite),
        None => Err(Fault::Internal(site!())),
    }
}

/// Stores keys and values, and returns whether all were finite, or `None` on a mismatch of sizes.
#[inline(always)]
fn store_finite(tile: KvTileMut<'_>, slot: usize, tokens: &[[&[f32]; 2]]) -> Option<bool> {
    let head_dim = tokens.first()?[0].len();
    if tokens.iter().any(|[k, v]| k.len() != head_dim || v.len() != head_dim) {
        return None;
    }
    let keys = match tile.k {
        ElementsMut::F32(tile) if const { KvElement::F32.is_built() } => store_columns(tile, slot, tokens, exact)?,
        ElementsMut::F16(tile) => store_columns(tile, slot, tokens, half)?,
        ElementsMut::Q8_0(tile) if const { KvElement::Q8_0.is_built() } => {
            let codes = KvElement::Q8_0.k_codes(head_dim)?;
            each(slot, tokens, |slot, [k, _]| store_codes(tile, codes, slot, k, q8, put_column))?
        }
        ElementsMut::Q4_0(tile) if const { KvElement::Q4_0.is_built() } => {
            let codes = KvElement::Q4_0.k_codes(head_dim)?;
            each(slot, tokens, |slot, [k, _]| store_codes(tile, codes, slot, k, q4, put_half_column))?
        }
        _ => return None,
    };
    let values = match tile.v {
        ElementsMut::F32(tile) if const { KvElement::F32.is_built() } => {
            each(slot, tokens, |slot, [_, v]| store_row(tile, slot, v, exact))?
        }
        ElementsMut::F16(tile) => each(slot, tokens, |slot, [_, v]| store_row(tile, slot, v, half))?,
        ElementsMut::Q8_0(tile) if const { KvElement::Q8_0.is_built() } => {
            let codes = KvElement::Q8_0.v_codes(head_dim)?;
            each(slot, tokens, |slot, [_, v]| store_codes(tile, codes, slot, v, q8, put_row))?
        }
        ElementsMut::Q4_0(tile) if const { KvElement::Q4_0.is_built() } => {
            let codes = KvElement::Q4_0.v_codes(head_dim)?;
            each(slot, tokens, |slot, [_, v]| store_codes(tile, codes, slot, v, q4, put_half_row))?
        }
        _ => return None,
    };
    Some(keys && values)
}

/// Stores one token after the other, and returns whether all were finite.
#[inline(always)]
fn each<'k>(
    slot: usize,
    tokens: &[[&'k [f32]; 2]],
    mut store: impl FnMut(usize, [&'k [f32]; 2]) -> Option<bool>,
) -> Option<bool> {
    let mut finite = true;
    for (slot, &token) in (slot..).zip(tokens) {
        finite &= store(slot, token)?;
    }
    Some(finite)
}

#[inline(always)]
fn exact(x: f32) -> (f32, bool) {
    (settle(x), is_finite(x))
}

#[inline(always)]
fn half(x: f32) -> (f16, bool) {
    let rounded = f32_to_f16(settle(x));
    (rounded, f16_is_finite(rounded))
}

/// Stores keys as columns of `[head_dim][16]`, the first in column `slot`, and returns whether all were finite. Sixteen
/// numbers of a token are rounded at a time, in registers, and written to sixteen rows.
#[inline(always)]
fn store_columns<T: Pod>(
    tile: &mut [T],
    slot: usize,
    tokens: &[[&[f32]; 2]],
    round: impl Fn(f32) -> (T, bool),
) -> Option<bool> {
    let (rows, rest) = tile.as_chunks_mut::<TILE_TOKENS>();
    let slots = slot..slot.checked_add(tokens.len())?;
    if tokens.iter().any(|[k, _]| k.len() != rows.len()) || !rest.is_empty() || slots.end > TILE_TOKENS {
        return None;
    }
    let mut finite = true;
    let mut rounded = [T::zeroed(); 16];
    for (block, rows) in rows.chunks_mut(16).enumerate() {
        for (slot, [k, _]) in slots.clone().zip(tokens) {
            finite &= round_all(&mut rounded, k.chunks(16).nth(block)?, &round);
            for (row, &rounded) in rows.iter_mut().zip(&rounded) {
                *row.get_mut(slot)? = rounded;
            }
        }
    }
    Some(finite)
}

/// Stores a value as row `slot` of `[16][head_dim]`, and returns whether it was finite.
#[inline(always)]
fn store_row<T: Pod>(tile: &mut [T], slot: usize, x: &[f32], round: impl Fn(f32) -> (T, bool)) -> Option<bool> {
    let start = slot.checked_mul(x.len())?;
    Some(round_all(tile.get_mut(start..start.checked_add(x.len())?)?, x, &round))
}

/// Rounds the numbers, and returns whether all of them are finite then.
#[inline(always)]
fn round_all<T>(to: &mut [T], x: &[f32], round: &impl Fn(f32) -> (T, bool)) -> bool {
    let mut finite = true;
    for (place, &x) in to.iter_mut().zip(x) {
        let (value, is_finite) = round(x);
        *place = value;
        finite &= is_finite;
    }
    finite
}

/// The codes of a block of a token. Codes past the end of the head mean nothing.
type Codes = [i8; SCALED];

/// Returns whether an element of this magnitude can be stored: whether it, or the scale of its block, is finite after
/// rounding to the element type.
pub fn is_storable(element: KvElement, x: f32) -> bool {
    match element {
        KvElement::F32 => exact(x).1,
        KvElement::F16 => half(x).1,
        KvElement::Q8_0 => f16_is_finite(scale_for(f32::from_bits(magnitude(x)), Q8_CODES)),
        KvElement::Q4_0 => f16_is_finite(scale_for(f32::from_bits(magnitude(x)), Q4_CODES)),
    }
}

/// The largest code of q8_0.
const Q8_CODES: f32 = 127.0;

/// The largest magnitude of a code of q4_0. Only negative codes reach it.
const Q4_CODES: f32 = 8.0;

/// Quantizes the head of a token block by block, and stores each block by `put(codes of the tile, head_dim, slot, first
/// element, codes of the block)`.
#[inline(always)]
fn store_codes(
    tile: &mut [u8],
    codes: usize,
    slot: usize,
    x: &[f32],
    quantize: impl Fn(&[f32; SCALED]) -> (Codes, f16),
    put: impl Fn(&mut [u8], usize, usize, usize, &[i8]) -> Option<()>,
) -> Option<bool> {
    let (codes, scales) = tile.split_at_mut_checked(codes)?;
    let (scales, rest) = scales.as_chunks_mut::<{ TILE_TOKENS * size_of::<f16>() }>();
    if scales.len() != x.len().div_ceil(SCALED) || !rest.is_empty() {
        return None;
    }
    let mut finite = true;
    for (block, scales) in scales.iter_mut().enumerate() {
        let from_here = x.get(block * SCALED..)?;
        let x_block = from_here.get(..SCALED).unwrap_or(from_here);
        let mut padded = [0.0; SCALED];
        padded.iter_mut().zip(x_block).for_each(|(place, &x)| *place = settle(x));
        let (quantized, scale) = quantize(&padded);
        finite &= f16_is_finite(scale);
        *scales.as_chunks_mut().0.get_mut(slot)? = scale.to_ne_bytes();
        put(codes, x.len(), slot, block * SCALED, quantized.get(..x_block.len())?)?;
    }
    Some(finite)
}

#[inline(always)]
fn put_column(codes: &mut [u8], _head_dim: usize, slot: usize, first: usize, block: &[i8]) -> Option<()> {
    let columns = codes.as_chunks_mut::<TILE_TOKENS>().0.get_mut(first..)?;
    for (column, &code) in columns.iter_mut().zip(block) {
        *column.get_mut(slot)? = code as u8;
    }
    Some(())
}

#[inline(always)]
fn put_half_column(codes: &mut [u8], _head_dim: usize, slot: usize, first: usize, block: &[i8]) -> Option<()> {
    let columns = codes.as_chunks_mut::<TILE_TOKENS>().0.get_mut(first / 2..)?;
    for (column, pair) in columns.iter_mut().zip(block.chunks(2)) {
        let (lower, upper) = (*pair.first()?, pair.get(1).copied().unwrap_or(0));
        *column.get_mut(slot)? = lower as u8 & 0xf | (upper as u8) << 4;
    }
    Some(())
}

#[inline(always)]
fn put_row(codes: &mut [u8], head_dim: usize, slot: usize, first: usize, block: &[i8]) -> Option<()> {
    let row = codes.get_mut(slot.checked_mul(head_dim)?.checked_add(first)?..)?;
    row.iter_mut().zip(block).for_each(|(place, &code)| *place = code as u8);
    Some(())
}

#[inline(always)]
fn put_half_row(codes: &mut [u8], head_dim: usize, slot: usize, first: usize, block: &[i8]) -> Option<()> {
    let row = codes.get_mut((slot / 2).checked_mul(head_dim)?.checked_add(first)?..)?;
    // The other half of each byte belongs to another token.
    let (keep, shift) = if slot.is_multiple_of(2) { (0xf0, 0) } else { (0x0f, 4) };
    for (place, &code) in row.iter_mut().zip(block) {
        *place = *place & keep | (code as u8 & 0xf) << shift;
    }
    Some(())
}

#[inline(always)]
fn q8(x: &[f32; SCALED]) -> (Codes, f16) {
    let amax = x.iter().fold(0, |amax, &x| magnitude(x).max(amax));
    let scale = scale_for(f32::from_bits(amax), Q8_CODES);
    let inverse = if amax == 0 { 0.0 } else { 1.0 / f16_to_f32(scale) };
    (x.map(|x| round_to_i8(x * inverse)), scale)
}

#[inline(always)]
fn q4(x: &[f32; SCALED]) -> (Codes, f16) {
    let amax = x.iter().fold(0, |amax, &x| magnitude(x).max(amax));
    // There is one more negative code than positive ones, so the scale gets the sign that makes the largest element's
    // code negative.
    let above = x.iter().fold(false, |above, x| above | (x.to_bits() == amax)) & (amax != 0);
    let scale = f16::from_bits(scale_for(f32::from_bits(amax), Q4_CODES).to_bits() | u16::from(above) << 15);
    let inverse = if amax == 0 { 0.0 } else { 1.0 / f16_to_f32(scale) };
    (x.map(|x| round_to_i8(x * inverse).min(7)), scale)
}

/// Returns the smallest scale with which codes up to `largest` reach `amax`. It is infinite or NaN if no finite one
/// does.
#[inline(always)]
fn scale_for(amax: f32, largest: f32) -> f16 {
    let nearest = f32_to_f16(amax * (1.0 / largest));
    let low = f16_to_f32(nearest) * largest < amax;
    f16::from_bits(nearest.to_bits().wrapping_add(u16::from(low)))
}

#[inline(always)]
fn magnitude(x: f32) -> u32 {
    x.to_bits() & 0x7fff_ffff
}

#[inline(always)]
fn f16_is_finite(x: f16) -> bool {
    x.to_bits() & 0x7c00 != 0x7c00
}
