//! Loads of 16 elements of a tile, for each element type of the cache.

use half::f16;

use crate::kernels::generic::lanes::Lanes;
use crate::kv::{KvElement, SCALED, TILE_TOKENS};

/// An element type of the cache, and how the loops load 16 elements of a tile.
pub(super) trait Stored: Copy + 'static {
    const ELEMENT: KvElement;

    /// Whether elements have scales.
    const SCALED: bool;

    /// Number of bytes of a K tile per element of a head.
    const PITCH: usize;

    /// Whether products with numbers of 13 bits ([`short`](crate::num::short)) are exact.
    const EXACT: bool = false;

    /// Whether loops over this type fetch the tiles that come next. Converted tiles are in a near cache already.
    const PREFETCHED: bool = false;

    /// Loads column `dim` of a K tile, without scales.
    ///
    /// # Safety
    /// `tile` is a K tile of more than `dim` columns. `odd` says whether `dim` is odd.
    unsafe fn column<V: Lanes>(proof: V::Proof, tile: *const u8, dim: usize, odd: bool) -> V;

    /// Loads the 16 elements from `start` on in row `slot` of a V tile, without scales.
    ///
    /// # Safety
    /// `tile` is a V tile of `head_dim` columns, `start + 16 <= head_dim` and `slot < 16`. `odd` says whether `slot` is
    /// odd.
    unsafe fn row<V: Lanes>(
        proof: V::Proof,
        tile: *const u8,
        head_dim: usize,
        slot: usize,
        start: usize,
        odd: bool,
    ) -> V;
}

impl Stored for f32 {
    const ELEMENT: KvElement = KvElement::F32;
    const SCALED: bool = false;
    const PITCH: usize = 64;

    #[inline(always)]
    unsafe fn column<V: Lanes>(proof: V::Proof, tile: *const u8, dim: usize, _odd: bool) -> V {
        // SAFETY: a K tile is [head_dim][16], and the caller promises that it has column `dim`.
        unsafe { V::load(proof, tile.cast::<f32>().add(dim * TILE_TOKENS)) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(
        proof: V::Proof,
        tile: *const u8,
        head_dim: usize,
        slot: usize,
        start: usize,
        _odd: bool,
    ) -> V {
        // SAFETY: a V tile is [16][head_dim], and the caller promises 16 elements from `start` on in row `slot`.
        unsafe { V::load(proof, tile.cast::<f32>().add(slot * head_dim + start)) }
    }
}

/// f32 that was converted from f16.
#[derive(Clone, Copy)]
pub(super) struct Widened;

impl Stored for Widened {
    const ELEMENT: KvElement = KvElement::F32;
    const SCALED: bool = false;
    const PITCH: usize = f32::PITCH;
    const EXACT: bool = true;

    #[inline(always)]
    unsafe fn column<V: Lanes>(proof: V::Proof, tile: *const u8, dim: usize, odd: bool) -> V {
        // SAFETY: converted tiles have the layout of f32 tiles, and the caller promises that the tile has column `dim`.
        unsafe { f32::column(proof, tile, dim, odd) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(
        proof: V::Proof,
        tile: *const u8,
        head_dim: usize,
        slot: usize,
        start: usize,
        odd: bool,
    ) -> V {
        // SAFETY: converted tiles have the layout of f32 tiles, and the caller promises the 16 elements.
        unsafe { f32::row(proof, tile, head_dim, slot, start, odd) }
    }
}

impl Stored for f16 {
    const ELEMENT: KvElement = KvElement::F16;
    const SCALED: bool = false;
    const PITCH: usize = 32;
    const EXACT: bool = true;
    const PREFETCHED: bool = true;

    #[inline(always)]
    unsafe fn column<V: Lanes>(proof: V::Proof, tile: *const u8, dim: usize, _odd: bool) -> V {
        // SAFETY: a K tile is [head_dim][16], and the caller promises that it has column `dim`.
        unsafe { V::load_f16(proof, tile.cast::<f16>().add(dim * TILE_TOKENS)) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(
        proof: V::Proof,
        tile: *const u8,
        head_dim: usize,
        slot: usize,
        start: usize,
        _odd: bool,
    ) -> V {
        // SAFETY: a V tile is [16][head_dim], and the caller promises 16 elements from `start` on in row `slot`.
        unsafe { V::load_f16(proof, tile.cast::<f16>().add(slot * head_dim + start)) }
    }
}

/// Codes of one byte each.
#[derive(Clone, Copy)]
pub(super) struct Q8;

impl Stored for Q8 {
    const ELEMENT: KvElement = KvElement::Q8_0;
    const SCALED: bool = true;
    const PITCH: usize = 16;
    const PREFETCHED: bool = true;

    #[inline(always)]
    unsafe fn column<V: Lanes>(proof: V::Proof, tile: *const u8, dim: usize, _odd: bool) -> V {
        // SAFETY: a K tile is [head_dim][16], and the caller promises that it has column `dim`.
        unsafe { V::load_i8(proof, tile.add(dim * TILE_TOKENS).cast()) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(
        proof: V::Proof,
        tile: *const u8,
        head_dim: usize,
        slot: usize,
        start: usize,
        _odd: bool,
    ) -> V {
        // SAFETY: a V tile is [16][head_dim], and the caller promises 16 elements from `start` on in row `slot`.
        unsafe { V::load_i8(proof, tile.add(slot * head_dim + start).cast()) }
    }
}

/// Codes of half a byte.
#[derive(Clone, Copy)]
pub(super) struct Q4;

impl Stored for Q4 {
    const ELEMENT: KvElement = KvElement::Q4_0;
    const SCALED: bool = true;
    const PITCH: usize = 8;

    #[inline(always)]
    unsafe fn column<V: Lanes>(proof: V::Proof, tile: *const u8, dim: usize, odd: bool) -> V {
        // SAFETY: a K tile is [head_dim / 2, rounded up][16], and the caller promises that it has column `dim`.
        unsafe { V::load_i4(proof, tile.add(dim / 2 * TILE_TOKENS), odd) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(
        proof: V::Proof,
        tile: *const u8,
        head_dim: usize,
        slot: usize,
        start: usize,
        odd: bool,
    ) -> V {
        // SAFETY: a V tile is [8][head_dim], and the caller promises 16 elements from `start` on in row `slot`.
        unsafe { V::load_i4(proof, tile.add(slot / 2 * head_dim + start), odd) }
    }
}

/// Loads the scales of the 16 tokens of a tile, for the block of elements that `dim` is in. The lanes mean nothing if
/// the type has no scales.
///
/// # Safety
/// `tile` has `codes` bytes of codes, and behind them the scales of all blocks up to the block of `dim`.
#[inline(always)]
pub(super) unsafe fn scales<V: Lanes, T: Stored>(proof: V::Proof, tile: *const u8, codes: usize, dim: usize) -> V {
    if !T::SCALED {
        return V::splat(proof, 1.0);
    }
    // SAFETY: the caller promises the scales of 16 tokens for this block behind `codes` bytes; `load_f16` needs no
    // alignment.
    unsafe { V::load_f16(proof, tile.add(codes + dim / SCALED * size_of::<[f16; TILE_TOKENS]>()).cast()) }
}
