//! The tiles of a chunk as the loops read them: where they are, or converted to f32.

use core::ops::Range;

use half::f16;

use super::{CHUNK, Elements, KvTile, STAGED, TILE_TOKENS, TILES};
use crate::kernels::generic::lanes::Lanes;

/// An element type of the cache.
pub(super) trait Stored: Copy + 'static {
    /// Whether reading it costs more than a load, so that it pays to do that once for many queries.
    const CONVERTED: bool;

    fn of<'a>(elements: Elements<'a>) -> Option<&'a [Self]>;

    fn value(self) -> f32;

    /// # Safety
    /// 16 elements can be read at `from`.
    unsafe fn load<V: Lanes>(from: *const Self) -> V;
}

impl Stored for f32 {
    const CONVERTED: bool = false;

    #[inline(always)]
    fn of<'a>(elements: Elements<'a>) -> Option<&'a [Self]> {
        if let Elements::F32(elements) = elements { Some(elements) } else { None }
    }

    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    #[inline(always)]
    unsafe fn load<V: Lanes>(from: *const Self) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load(from) }
    }
}

impl Stored for f16 {
    const CONVERTED: bool = true;

    #[inline(always)]
    fn of<'a>(elements: Elements<'a>) -> Option<&'a [Self]> {
        if let Elements::F16(elements) = elements { Some(elements) } else { None }
    }

    #[inline(always)]
    fn value(self) -> f32 {
        crate::num::f16_to_f32(self)
    }

    #[inline(always)]
    unsafe fn load<V: Lanes>(from: *const Self) -> V {
        // SAFETY: the caller's promise.
        unsafe { V::load_f16(from) }
    }
}

/// Successive tiles of K or of V in a chunk.
pub(super) struct Run<'t, T> {
    /// Each of `head_dim * 16` elements, as many as `positions` has begun.
    tiles: &'t [&'t [T]],
    /// Tiles that are read after these.
    after: &'t [&'t [T]],
    /// The first position in the chunk, a multiple of 16.
    offset: usize,
    positions: usize,
    head_dim: usize,
}

impl<T> Run<'_, T> {
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.positions.div_ceil(TILE_TOKENS)
    }

    /// Where tile `index` begins; the last tile for indices past it.
    #[inline(always)]
    pub(super) fn tile(&self, index: usize) -> *const T {
        self.tiles.get(index.min(self.count() - 1)).map_or(core::ptr::null(), |tile| tile.as_ptr())
    }

    /// Where tile `index` of those begins that are read after these.
    #[inline(always)]
    pub(super) fn after(&self, index: usize) -> *const T {
        self.after.get(index).map_or(core::ptr::null(), |tile| tile.as_ptr())
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
pub(super) struct ChunkTiles<'t, T> {
    /// Each of `head_dim * 16` elements.
    k: [&'t [T]; TILES],
    /// Likewise.
    v: [&'t [T]; TILES],
    /// Positions that some query sees, 1 to [`CHUNK`]. The tiles of these are set.
    positions: usize,
    head_dim: usize,
}

impl<'t, T: Stored> ChunkTiles<'t, T> {
    /// The tiles of the first `positions` positions of a chunk; `None` where one is missing or too small.
    #[inline(always)]
    pub(super) fn new(positions: usize, head_dim: usize, tile: impl Fn(usize) -> Option<KvTile<'t>>) -> Option<Self> {
        let positions = positions.clamp(1, CHUNK);
        let elements = head_dim.checked_mul(TILE_TOKENS)?;
        let mut tiles = Self { k: [&[]; TILES], v: [&[]; TILES], positions, head_dim };
        let places = tiles.k.iter_mut().zip(&mut tiles.v).take(positions.div_ceil(TILE_TOKENS));
        for (index, (k, v)) in places.enumerate() {
            let tile = tile(index)?;
            *k = T::of(tile.k)?.get(..elements)?;
            *v = T::of(tile.v)?.get(..elements)?;
        }
        Some(tiles)
    }

    /// K of these positions; the first is a multiple of 16. `None` if there are none.
    #[inline(always)]
    pub(super) fn keys(&self, positions: Range<usize>) -> Option<Run<'_, T>> {
        self.run(&self.k, &self.v, positions)
    }

    /// V of these positions; the first is a multiple of 16. `None` if there are none.
    #[inline(always)]
    pub(super) fn values(&self, positions: Range<usize>) -> Option<Run<'_, T>> {
        self.run(&self.v, &[], positions)
    }

    #[inline(always)]
    fn run<'r>(&self, tiles: &'r [&'r [T]], after: &'r [&'r [T]], positions: Range<usize>) -> Option<Run<'r, T>> {
        let (offset, first) = (positions.start, positions.start / TILE_TOKENS);
        let positions = positions.end.min(self.positions).checked_sub(offset).filter(|&positions| positions > 0)?;
        let after = after.get(first..).unwrap_or_default();
        Some(Run { tiles: tiles.get(first..)?, after, offset, positions, head_dim: self.head_dim })
    }
}

/// f32 elements for [`STAGED`] tiles.
pub(super) fn staging_len(head_dim: usize) -> Option<usize> {
    head_dim.checked_mul(TILE_TOKENS * STAGED)
}

/// Tiles that were converted to f32.
pub(super) struct Staged<'t> {
    tiles: [&'t [f32]; STAGED],
    head_dim: usize,
}

impl<'t> Staged<'t> {
    /// `None` if there are fewer than [`staging_len`].
    #[inline(always)]
    pub(super) fn new(staging: &'t [f32], head_dim: usize) -> Option<Self> {
        let elements = head_dim.checked_mul(TILE_TOKENS)?;
        let mut tiles: [&[f32]; STAGED] = [&[]; STAGED];
        for (index, tile) in tiles.iter_mut().enumerate() {
            let start = index.checked_mul(elements)?;
            *tile = staging.get(start..start.checked_add(elements)?)?;
        }
        Some(Self { tiles, head_dim })
    }

    /// Tiles of these positions of the chunk, where the first is the first that was converted. `None` if there are
    /// none.
    #[inline(always)]
    pub(super) fn run(&self, positions: Range<usize>) -> Option<Run<'_, f32>> {
        let (tiles, head_dim, offset) = (&self.tiles, self.head_dim, positions.start);
        let positions = positions.len().min(STAGED * TILE_TOKENS);
        (positions > 0).then_some(Run { tiles, after: tiles, offset, positions, head_dim })
    }
}
