//! Storing the key and the value of a token in the tiles that attention reads.

use bytemuck::Pod;
use half::f16;

use super::attend::TILE_TOKENS;
use crate::num::{f32_to_f16, is_finite};

/// Keys or values in their element type, to be written.
#[derive(Debug)]
pub enum ElementsMut<'a> {
    /// Exact.
    F32(&'a mut [f32]),
    /// Half precision.
    F16(&'a mut [f16]),
}

/// One head of one layer of a block, to be written: K as `[head_dim][16]`, V as `[16][head_dim]`.
#[derive(Debug)]
pub struct KvTileMut<'a> {
    /// `[head_dim][16]`.
    pub k: ElementsMut<'a>,
    /// `[16][head_dim]`.
    pub v: ElementsMut<'a>,
}

/// See [`Level::store`](crate::kernels::Level::store).
#[inline(always)]
pub(in crate::kernels) fn store(tile: KvTileMut<'_>, slot: usize, k: &[f32], v: &[f32]) -> Option<bool> {
    let k_stored = match tile.k {
        ElementsMut::F32(tile) => store_column(tile, slot, k, exact)?,
        ElementsMut::F16(tile) => store_column(tile, slot, k, half)?,
    };
    let v_stored = match tile.v {
        ElementsMut::F32(tile) => store_row(tile, slot, v, exact)?,
        ElementsMut::F16(tile) => store_row(tile, slot, v, half)?,
    };
    Some(k_stored && v_stored)
}

#[inline(always)]
fn exact(x: f32) -> (f32, bool) {
    (x, is_finite(x))
}

#[inline(always)]
fn half(x: f32) -> (f16, bool) {
    let rounded = f32_to_f16(x);
    (rounded, rounded.to_bits() & 0x7c00 != 0x7c00)
}

/// Column `slot` of `[head_dim][16]`. Sixteen numbers are rounded at a time, in registers.
#[inline(always)]
fn store_column<T: Pod>(tile: &mut [T], slot: usize, x: &[f32], round: impl Fn(f32) -> (T, bool)) -> Option<bool> {
    let (columns, rest) = tile.as_chunks_mut::<TILE_TOKENS>();
    if columns.len() != x.len() || !rest.is_empty() || slot >= TILE_TOKENS {
        return None;
    }
    let mut finite = true;
    let mut rounded = [T::zeroed(); 16];
    for (columns, x) in columns.chunks_mut(16).zip(x.chunks(16)) {
        finite &= round_all(&mut rounded, x, &round);
        for (column, &value) in columns.iter_mut().zip(&rounded) {
            *column.get_mut(slot)? = value;
        }
    }
    Some(finite)
}

/// Row `slot` of `[16][head_dim]`.
#[inline(always)]
fn store_row<T: Pod>(tile: &mut [T], slot: usize, x: &[f32], round: impl Fn(f32) -> (T, bool)) -> Option<bool> {
    let start = slot.checked_mul(x.len())?;
    Some(round_all(tile.get_mut(start..start.checked_add(x.len())?)?, x, &round))
}

/// Whether all numbers are finite once they are rounded.
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
