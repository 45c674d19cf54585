//! The tiles of a chunk as the loops read them: where they are, or converted to f32.

use core::marker::PhantomData;
use core::ops::Range;

use half::f16;

use super::{CHUNK, KvTile, STAGED, TILE_TOKENS, TILES};
use crate::kernels::generic::element::{KvElement, SCALED};
use crate::kernels::generic::lanes::{LANES, Lanes};

/// An element type of the cache: how 16 elements of a tile are read.
pub(super) trait Stored: Copy + 'static {
    const ELEMENT: KvElement;

    /// Whether reading it costs more than a load, so that it pays to do that once for many queries.
    const CONVERTED: bool;

    /// Whether elements have scales.
    const SCALED: bool;

    /// Elements that share a byte; 1 where an element has bytes of its own.
    const PER_BYTE: usize = 1;

    /// Bytes of a K tile per element of a head.
    const PITCH: usize;

    /// Column `dim` of a K tile, without scales.
    ///
    /// # Safety
    /// `tile` is a K tile of more than `dim` columns; `odd` says whether `dim` is.
    unsafe fn column<V: Lanes>(tile: *const u8, dim: usize, odd: bool) -> V;

    /// The 16 elements from `start` on in row `slot` of a V tile, without scales.
    ///
    /// # Safety
    /// `tile` is a V tile of `head_dim` columns, `start + 16 <= head_dim` and `slot < 16`; `odd` says whether `slot` is.
    unsafe fn row<V: Lanes>(tile: *const u8, head_dim: usize, slot: usize, start: usize, odd: bool) -> V;
}

impl Stored for f32 {
    const ELEMENT: KvElement = KvElement::F32;
    const CONVERTED: bool = false;
    const SCALED: bool = false;
    const PITCH: usize = 64;

    #[inline(always)]
    unsafe fn column<V: Lanes>(tile: *const u8, dim: usize, _odd: bool) -> V {
        // SAFETY: the caller's promise: [head_dim][16].
        unsafe { V::load(tile.cast::<f32>().add(dim * TILE_TOKENS)) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(tile: *const u8, head_dim: usize, slot: usize, start: usize, _odd: bool) -> V {
        // SAFETY: the caller's promise: [16][head_dim].
        unsafe { V::load(tile.cast::<f32>().add(slot * head_dim + start)) }
    }
}

impl Stored for f16 {
    const ELEMENT: KvElement = KvElement::F16;
    const CONVERTED: bool = true;
    const SCALED: bool = false;
    const PITCH: usize = 32;

    #[inline(always)]
    unsafe fn column<V: Lanes>(tile: *const u8, dim: usize, _odd: bool) -> V {
        // SAFETY: the caller's promise: [head_dim][16].
        unsafe { V::load_f16(tile.cast::<f16>().add(dim * TILE_TOKENS)) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(tile: *const u8, head_dim: usize, slot: usize, start: usize, _odd: bool) -> V {
        // SAFETY: the caller's promise: [16][head_dim].
        unsafe { V::load_f16(tile.cast::<f16>().add(slot * head_dim + start)) }
    }
}

/// Codes of a byte.
#[derive(Clone, Copy)]
pub(super) struct Q8;

impl Stored for Q8 {
    const ELEMENT: KvElement = KvElement::Q8_0;
    const CONVERTED: bool = true;
    const SCALED: bool = true;
    const PITCH: usize = 16;

    #[inline(always)]
    unsafe fn column<V: Lanes>(tile: *const u8, dim: usize, _odd: bool) -> V {
        // SAFETY: the caller's promise: [head_dim][16].
        unsafe { V::load_i8(tile.add(dim * TILE_TOKENS).cast()) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(tile: *const u8, head_dim: usize, slot: usize, start: usize, _odd: bool) -> V {
        // SAFETY: the caller's promise: [16][head_dim].
        unsafe { V::load_i8(tile.add(slot * head_dim + start).cast()) }
    }
}

/// Codes of half a byte.
#[derive(Clone, Copy)]
pub(super) struct Q4;

impl Stored for Q4 {
    const ELEMENT: KvElement = KvElement::Q4_0;
    const CONVERTED: bool = true;
    const SCALED: bool = true;
    const PER_BYTE: usize = 2;
    const PITCH: usize = 8;

    #[inline(always)]
    unsafe fn column<V: Lanes>(tile: *const u8, dim: usize, odd: bool) -> V {
        // SAFETY: the caller's promise: [head_dim / 2, rounded up][16].
        unsafe { V::load_i4(tile.add(dim / 2 * TILE_TOKENS), odd) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(tile: *const u8, head_dim: usize, slot: usize, start: usize, odd: bool) -> V {
        // SAFETY: the caller's promise: [8][head_dim].
        unsafe { V::load_i4(tile.add(slot / 2 * head_dim + start), odd) }
    }
}

/// The scales of the 16 tokens of a tile for the block of elements that `dim` is in; anything where there are none.
///
/// # Safety
/// `tile` has so many bytes of codes, and behind them the scales of all blocks up to that of `dim`.
#[inline(always)]
pub(super) unsafe fn scales<V: Lanes, T: Stored>(tile: *const u8, codes: usize, dim: usize) -> V {
    if !T::SCALED {
        return V::splat(1.0);
    }
    // SAFETY: the caller's promise; `load_f16` needs no alignment.
    unsafe { V::load_f16(tile.add(codes + dim / SCALED * size_of::<[f16; TILE_TOKENS]>()).cast()) }
}

/// The scales of 16 successive elements of values, token by token.
pub(super) struct RowScales {
    first: [f32; TILE_TOKENS],
    /// Of the next block.
    second: [f32; TILE_TOKENS],
    /// How many of the elements have the first.
    before: usize,
}

impl RowScales {
    pub(super) const NONE: Self = Self { first: [1.0; TILE_TOKENS], second: [1.0; TILE_TOKENS], before: LANES };

    /// # Safety
    /// As [`scales`], for the block of `start + 15`.
    #[inline(always)]
    pub(super) unsafe fn set<V: Lanes, T: Stored>(&mut self, tile: *const u8, codes: usize, start: usize) {
        if !T::SCALED {
            return;
        }
        self.before = (SCALED - start % SCALED).min(LANES);
        // SAFETY: the caller's promise; 16 elements.
        unsafe { scales::<V, T>(tile, codes, start).store(self.first.as_mut_ptr()) };
        if self.before < LANES {
            // SAFETY: as above.
            unsafe { scales::<V, T>(tile, codes, start + LANES - 1).store(self.second.as_mut_ptr()) };
        }
    }

    /// Elements of a row, from codes.
    #[inline(always)]
    #[allow(clippy::indexing_slicing)] // See `pack`.
    pub(super) fn apply<V: Lanes, T: Stored>(&self, slot: usize, codes: V) -> V {
        if !T::SCALED {
            return codes;
        }
        let slot = slot % TILE_TOKENS;
        let mut scale = V::splat(self.first[slot]);
        if self.before < LANES {
            scale = scale.first(self.before, V::splat(self.second[slot]));
        }
        scale.mul(codes)
    }
}

/// Successive tiles of K or of V in a chunk.
pub(super) struct Run<'t, T> {
    /// As many as `positions` has begun, each whole.
    tiles: &'t [&'t [u8]],
    /// Tiles that are read after these.
    after: &'t [&'t [u8]],
    /// Bytes of these per element of a head, rounded down.
    after_pitch: usize,
    /// Bytes of codes in a tile.
    codes: usize,
    /// The first position in the chunk, a multiple of 16.
    offset: usize,
    positions: usize,
    head_dim: usize,
    element: PhantomData<T>,
}

impl<'t, T> Run<'t, T> {
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.positions.div_ceil(TILE_TOKENS)
    }

    /// Where tile `index` begins; the last tile for indices past it.
    #[inline(always)]
    pub(super) fn tile(&self, index: usize) -> *const u8 {
        self.tiles.get(index.min(self.count() - 1)).map_or(core::ptr::null(), |tile| tile.as_ptr())
    }

    /// The bytes of tile `index`.
    #[inline(always)]
    pub(super) fn bytes(&self, index: usize) -> &'t [u8] {
        self.tiles.get(index).copied().unwrap_or_default()
    }

    /// Where tile `index` of those begins that are read after these.
    #[inline(always)]
    pub(super) fn after(&self, index: usize) -> *const u8 {
        self.after.get(index).map_or(core::ptr::null(), |tile| tile.as_ptr())
    }

    #[inline(always)]
    pub(super) fn after_pitch(&self) -> usize {
        self.after_pitch
    }

    #[inline(always)]
    pub(super) fn codes(&self) -> usize {
        self.codes
    }

    #[inline(always)]
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    #[inline(always)]
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    #[inline(always)]
    pub(super) fn head_dim(&self) -> usize {
        self.head_dim
    }
}

/// The tiles of a chunk.
pub(super) struct ChunkTiles<'t> {
    k: Side<'t>,
    v: Side<'t>,
    /// Positions that some query sees, 1 to [`CHUNK`]. The tiles of these are set.
    positions: usize,
    head_dim: usize,
}

/// All tiles of K, or of V.
#[derive(Clone, Copy)]
struct Side<'t> {
    element: KvElement,
    /// Bytes of codes in a tile.
    codes: usize,
    /// Each whole.
    tiles: [&'t [u8]; TILES],
}

impl<'t> ChunkTiles<'t> {
    /// Without tiles.
    #[inline(always)]
    pub(super) fn new(head_dim: usize) -> Self {
        let side = Side { element: KvElement::F32, codes: 0, tiles: [&[]; TILES] };
        Self { k: side, v: side, positions: 0, head_dim }
    }

    /// Sets the tiles of the first `positions` positions of a chunk; `None` where one is missing, too small or of another
    /// type than the first.
    #[inline(always)]
    pub(super) fn set(&mut self, positions: usize, tile: impl Fn(usize) -> Option<KvTile<'t>>) -> Option<()> {
        self.positions = positions.clamp(1, CHUNK);
        let KvTile { k, v } = tile(0)?;
        let (k, v) = (k.element(), v.element());
        let (k_bytes, v_bytes) = (k.k_tile(self.head_dim)?, v.v_tile(self.head_dim)?);
        (self.k.element, self.k.codes) = (k, k.k_codes(self.head_dim)?);
        (self.v.element, self.v.codes) = (v, v.v_codes(self.head_dim)?);
        let places = self.k.tiles.iter_mut().zip(&mut self.v.tiles).take(self.positions.div_ceil(TILE_TOKENS));
        for (index, (k_place, v_place)) in places.enumerate() {
            let tile = tile(index)?;
            if tile.k.element() != k || tile.v.element() != v {
                return None;
            }
            *k_place = tile.k.bytes().get(..k_bytes)?;
            *v_place = tile.v.bytes().get(..v_bytes)?;
        }
        Some(())
    }

    /// Positions that some query sees, 1 to [`CHUNK`].
    #[inline(always)]
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// Elements per head.
    #[inline(always)]
    pub(super) fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// The element types of K and of V.
    #[inline(always)]
    pub(super) fn elements(&self) -> [KvElement; 2] {
        [self.k.element, self.v.element]
    }

    /// K of these positions; the first is a multiple of 16. `None` if there are none, or if it is of another type.
    #[inline(always)]
    pub(super) fn keys<T: Stored>(&self, positions: Range<usize>) -> Option<Run<'_, T>> {
        self.run(&self.k, &self.v.tiles, positions)
    }

    /// V of these positions; the first is a multiple of 16. `None` if there are none, or if it is of another type.
    #[inline(always)]
    pub(super) fn values<T: Stored>(&self, positions: Range<usize>) -> Option<Run<'_, T>> {
        self.run(&self.v, &[], positions)
    }

    #[inline(always)]
    fn run<'r, T: Stored>(
        &self,
        side: &'r Side<'t>,
        after: &'r [&'t [u8]],
        positions: Range<usize>,
    ) -> Option<Run<'r, T>> {
        if side.element != T::ELEMENT {
            return None;
        }
        let (offset, first) = (positions.start, positions.start / TILE_TOKENS);
        let positions = positions.end.min(self.positions).checked_sub(offset).filter(|&positions| positions > 0)?;
        Some(Run {
            tiles: side.tiles.get(first..)?,
            after: after.get(first..).unwrap_or_default(),
            after_pitch: self.v.codes.checked_div(self.head_dim)?,
            codes: side.codes,
            offset,
            positions,
            head_dim: self.head_dim,
            element: PhantomData,
        })
    }
}

/// f32 elements for [`STAGED`] tiles.
pub(super) fn staging_len(head_dim: usize) -> Option<usize> {
    head_dim.checked_mul(TILE_TOKENS * STAGED)
}

/// Tiles that were converted to f32.
pub(super) struct Staged<'t> {
    tiles: [&'t [u8]; STAGED],
    head_dim: usize,
}

impl<'t> Staged<'t> {
    /// `None` if there are fewer than [`staging_len`].
    #[inline(always)]
    pub(super) fn new(staging: &'t [f32], head_dim: usize) -> Option<Self> {
        let elements = head_dim.checked_mul(TILE_TOKENS)?;
        let mut tiles: [&[u8]; STAGED] = [&[]; STAGED];
        for (index, tile) in tiles.iter_mut().enumerate() {
            let start = index.checked_mul(elements)?;
            *tile = bytemuck::must_cast_slice(staging.get(start..start.checked_add(elements)?)?);
        }
        Some(Self { tiles, head_dim })
    }

    /// Tiles of these positions of the chunk, where the first is the first that was converted. `None` if there are
    /// none.
    #[inline(always)]
    pub(super) fn run(&self, positions: Range<usize>) -> Option<Run<'_, f32>> {
        let (tiles, head_dim, offset) = (&self.tiles, self.head_dim, positions.start);
        let positions = positions.len().min(STAGED * TILE_TOKENS);
        (positions > 0).then_some(Run {
            tiles,
            after: tiles,
            after_pitch: f32::PITCH,
            codes: head_dim * f32::PITCH,
            offset,
            positions,
            head_dim,
            element: PhantomData,
        })
    }
}
