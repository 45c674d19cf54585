//! The tiles of a chunk as the loops read them: where they are, or converted to f32.

use half::f16;

use super::{CHUNK, Elements, KvTile, STAGED, TILE_TOKENS, TILES};
use crate::kernels::generic::lanes::{LANES, Lanes};

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
    /// Whether each tile is followed by 16 more elements, of any value.
    slack: bool,
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

    /// Where the tile begins that is read some time after tile `index`.
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

    #[inline(always)]
    pub(super) fn slack(&self) -> bool {
        self.slack
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

    /// K of the first `positions` positions.
    #[inline(always)]
    pub(super) fn keys(&self, positions: usize) -> Run<'_, T> {
        self.run(&self.k, &self.v, positions)
    }

    /// V of the first `positions` positions.
    #[inline(always)]
    pub(super) fn values(&self, positions: usize) -> Run<'_, T> {
        self.run(&self.v, &[], positions)
    }

    #[inline(always)]
    fn run<'r>(&self, tiles: &'r [&'r [T]], after: &'r [&'r [T]], positions: usize) -> Run<'r, T> {
        let positions = positions.clamp(1, self.positions);
        Run { tiles, after, offset: 0, positions, head_dim: self.head_dim, slack: false }
    }

    /// Converts K tiles from `group` times [`STAGED`] on.
    #[inline(always)]
    pub(super) fn stage_keys<V: Lanes>(&self, group: usize, staging: &mut [f32]) -> Option<()> {
        self.stage::<V>(&self.k, &self.v, group, staging)
    }

    /// Converts V tiles from `group` times [`STAGED`] on.
    #[inline(always)]
    pub(super) fn stage_values<V: Lanes>(&self, group: usize, staging: &mut [f32]) -> Option<()> {
        self.stage::<V>(&self.v, &[], group, staging)
    }

    #[inline(always)]
    fn stage<V: Lanes>(&self, tiles: &[&[T]], after: &[&[T]], group: usize, staging: &mut [f32]) -> Option<()> {
        let first = group.checked_mul(STAGED)?;
        let places = staging.chunks_exact_mut(self.head_dim.checked_mul(TILE_TOKENS)?.max(1)).take(STAGED);
        for (index, place) in places.enumerate() {
            let Some(tile) = tiles.get(first + index).filter(|tile| tile.len() == place.len()) else {
                break;
            };
            let (next, after) = (tiles.get(first + index + 1), after.get(first + index));
            let (next, after) =
                (next.map_or(tile.as_ptr(), |t| t.as_ptr()), after.map_or(tile.as_ptr(), |t| t.as_ptr()));
            for start in (0..self.head_dim).map(|column| column * LANES) {
                // SAFETY: both have head_dim * 16 elements.
                unsafe { T::load::<V>(tile.as_ptr().add(start)).store(place.as_mut_ptr().add(start)) };
                V::prefetch(next.wrapping_add(start));
                V::prefetch(after.wrapping_add(start));
            }
        }
        Some(())
    }
}

/// f32 elements for [`STAGED`] tiles, and the 16 after the last.
pub(super) fn staging_len(head_dim: usize) -> Option<usize> {
    head_dim.checked_mul(TILE_TOKENS * STAGED)?.checked_add(LANES)
}

/// Tiles that were converted.
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
            *tile = staging.get(start..start.checked_add(elements)?.checked_add(LANES)?)?;
        }
        Some(Self { tiles, head_dim })
    }

    /// Those that hold positions of group `group` below `positions` in the chunk; `None` if there are none.
    #[inline(always)]
    pub(super) fn run(&self, group: usize, positions: usize) -> Option<Run<'_, f32>> {
        let offset = group * STAGED * TILE_TOKENS;
        let positions = positions.checked_sub(offset)?.min(STAGED * TILE_TOKENS);
        let (tiles, head_dim) = (&self.tiles, self.head_dim);
        (positions > 0).then_some(Run { tiles, after: tiles, offset, positions, head_dim, slack: true })
    }
}
