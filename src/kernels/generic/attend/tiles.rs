//! The tiles of a chunk as the loops read them: where they are, or converted to f32.

use half::f16;

use crate::kernels::generic::lanes::{LANES, Lanes};
use crate::kv::{CHUNK, KvElement, KvTile, SCALED, TILE_TOKENS};

/// Tiles per chunk.
pub(super) const TILES: usize = CHUNK / TILE_TOKENS;

/// Tiles that are converted at a time: few, so that they stay in the first-level cache.
pub(super) const STAGED: usize = 2;

/// An element type of the cache: how 16 elements of a tile are read.
pub(super) trait Stored: Copy + 'static {
    const ELEMENT: KvElement;

    /// Whether elements have scales.
    const SCALED: bool;

    /// Bytes of a K tile per element of a head.
    const PITCH: usize;

    /// Whether products with numbers of 13 bits ([`short`](crate::num::short)) are exact.
    const EXACT: bool = false;

    /// Whether the loops of queries ask for what comes next: what was converted is near.
    const PREFETCHED: bool = false;

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

/// f16 that was converted to f32.
#[derive(Clone, Copy)]
pub(super) struct Widened;

impl Stored for Widened {
    const ELEMENT: KvElement = KvElement::F32;
    const SCALED: bool = false;
    const PITCH: usize = f32::PITCH;
    const EXACT: bool = true;

    #[inline(always)]
    unsafe fn column<V: Lanes>(tile: *const u8, dim: usize, odd: bool) -> V {
        // SAFETY: the caller's promise.
        unsafe { f32::column(tile, dim, odd) }
    }

    #[inline(always)]
    unsafe fn row<V: Lanes>(tile: *const u8, head_dim: usize, slot: usize, start: usize, odd: bool) -> V {
        // SAFETY: the caller's promise.
        unsafe { f32::row(tile, head_dim, slot, start, odd) }
    }
}

impl Stored for f16 {
    const ELEMENT: KvElement = KvElement::F16;
    const SCALED: bool = false;
    const PITCH: usize = 32;
    const EXACT: bool = true;
    const PREFETCHED: bool = true;

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
    const SCALED: bool = true;
    const PITCH: usize = 16;
    const PREFETCHED: bool = true;

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
    const SCALED: bool = true;
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

/// Successive tiles of K or of V in a chunk.
#[derive(Clone, Copy)]
pub(super) struct Run<'t> {
    /// As many as `positions` has begun, and those that follow.
    tiles: &'t [&'t [u8]],
    /// Bytes of each of these.
    bytes: usize,
    /// Tiles that are read after these.
    after: &'t [&'t [u8]],
    /// Bytes of these per element of a head, rounded down.
    after_pitch: usize,
    /// The first position in the chunk, a multiple of 16.
    offset: usize,
    positions: usize,
}

impl Run<'_> {
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.positions.div_ceil(TILE_TOKENS)
    }

    /// Bytes of each tile.
    #[inline(always)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where tile `index` begins; the last tile for indices past it.
    #[inline(always)]
    pub(super) fn tile(&self, index: usize) -> *const u8 {
        self.tiles.get(index.min(self.count() - 1)).map_or(core::ptr::null(), |tile| tile.as_ptr())
    }

    /// Where the tile begins that is converted after tile `index`.
    #[inline(always)]
    fn next(&self, index: usize) -> *const u8 {
        self.tiles.get(index + STAGED).map_or(core::ptr::null(), |tile| tile.as_ptr())
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
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    #[inline(always)]
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// The part of it that is before a position of the chunk; `None` if there is nothing.
    #[inline(always)]
    pub(super) fn before(self, end: usize) -> Option<Self> {
        let positions = end.checked_sub(self.offset).filter(|&positions| positions > 0)?.min(self.positions);
        Some(Self { positions, ..self })
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
    /// Bytes of a tile.
    bytes: usize,
    tiles: [&'t [u8]; TILES],
}

impl<'t> ChunkTiles<'t> {
    /// Without tiles, for K and V of these types. `None` where one is not built.
    #[inline(always)]
    pub(super) fn new(head_dim: usize, [k, v]: [KvElement; 2]) -> Option<Self> {
        if !k.is_built() || !v.is_built() {
            return None;
        }
        let (k_codes, v_codes) = (k.k_codes(head_dim)?, v.v_codes(head_dim)?);
        let k = Side { element: k, codes: k_codes, bytes: k.k_tile(head_dim)?, tiles: [&[]; TILES] };
        let v = Side { element: v, codes: v_codes, bytes: v.v_tile(head_dim)?, tiles: [&[]; TILES] };
        Some(Self { k, v, positions: 0, head_dim })
    }

    /// Sets the tiles of the first `positions` positions of a chunk; `None` where one is missing, too small or of another
    /// type.
    #[inline(always)]
    pub(super) fn set(&mut self, positions: usize, tile: impl Fn(usize) -> Option<KvTile<'t>>) -> Option<()> {
        self.positions = positions.clamp(1, CHUNK);
        let places = self.k.tiles.iter_mut().zip(&mut self.v.tiles).take(self.positions.div_ceil(TILE_TOKENS));
        for (index, (k_place, v_place)) in places.enumerate() {
            let tile = tile(index)?;
            if tile.k.element() != self.k.element || tile.v.element() != self.v.element {
                return None;
            }
            *k_place = tile.k.bytes().get(..self.k.bytes)?;
            *v_place = tile.v.bytes().get(..self.v.bytes)?;
        }
        Some(())
    }

    /// Positions that some query sees, 1 to [`CHUNK`].
    #[inline(always)]
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// The element types of K and of V.
    #[inline(always)]
    pub(super) fn elements(&self) -> [KvElement; 2] {
        [self.k.element, self.v.element]
    }

    /// K of at most so many positions from `start` on, a multiple of 16. `None` if there are none.
    #[inline(always)]
    pub(super) fn keys(&self, start: usize, most: usize) -> Option<Run<'_>> {
        self.run(&self.k, &self.v.tiles, start, most)
    }

    /// V, likewise.
    #[inline(always)]
    pub(super) fn values(&self, start: usize, most: usize) -> Option<Run<'_>> {
        self.run(&self.v, &[], start, most)
    }

    #[inline(always)]
    fn run<'r>(&self, side: &'r Side<'t>, after: &'r [&'t [u8]], start: usize, most: usize) -> Option<Run<'r>> {
        let first = start / TILE_TOKENS;
        Some(Run {
            tiles: side.tiles.get(first..)?,
            bytes: side.bytes,
            after: after.get(first..).unwrap_or_default(),
            after_pitch: self.v.codes.checked_div(self.head_dim)?,
            offset: start,
            positions: self.positions.checked_sub(start).filter(|&positions| positions > 0)?.min(most),
        })
    }

    /// K of a run as f32, `[tiles][head_dim][16]`. `None` where there is no room, or for a type that is not converted.
    #[inline(always)]
    pub(super) fn convert_keys<V: Lanes>(&self, run: &Run<'_>, out: &mut [f32]) -> Option<()> {
        let out = out.get_mut(..run.count() * self.head_dim * TILE_TOKENS)?.as_mut_ptr();
        if run.bytes < self.k.bytes {
            return None;
        }
        // SAFETY: tiles of the run are as large as those of K, and there is room for it.
        unsafe {
            match self.k.element {
                KvElement::F16 => self.keys_to::<V, f16>(run, out),
                KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } => self.keys_to::<V, Q8>(run, out),
                KvElement::Q4_0 if const { KvElement::Q4_0.is_built() } => self.keys_to::<V, Q4>(run, out),
                _ => return None,
            }
        }
        Some(())
    }

    /// # Safety
    /// Tiles of the run are as large as those of K, which is of type `T`, and its elements can be written at `out`.
    #[inline(always)]
    unsafe fn keys_to<V: Lanes, T: Stored>(&self, run: &Run<'_>, mut out: *mut f32) {
        for index in 0..run.count() {
            let (tile, after, next) = (run.tile(index), run.after(index), run.next(index));
            for start in (0..self.head_dim).step_by(LANES) {
                // SAFETY: a K tile has the scales of all blocks behind its codes.
                let scales = unsafe { scales::<V, T>(tile, self.k.codes, start) };
                for dim in start..self.head_dim.min(start + LANES) {
                    // Two columns are at most a cache line.
                    if dim % 2 == 0 {
                        V::prefetch(next.wrapping_add(dim * T::PITCH));
                        V::prefetch(after.wrapping_add(dim * run.after_pitch()));
                    }
                    // SAFETY: a K tile has head_dim columns of 16, all of which can be written.
                    unsafe {
                        let column = T::column::<V>(tile, dim, dim % 2 == 1);
                        if T::SCALED { scales.mul(column) } else { column }.store(out);
                        out = out.add(TILE_TOKENS);
                    }
                }
            }
        }
    }

    /// V of a run as f32, `[tiles][16][head_dim, rounded up to a multiple of 16]`, as far as it is visible. `None` where
    /// there is no room, or for a type that is not built.
    #[inline(always)]
    pub(super) fn convert_values<V: Lanes>(&self, run: &Run<'_>, out: &mut [f32]) -> Option<()> {
        let (head_dim, padded) = (self.head_dim, self.head_dim.checked_next_multiple_of(LANES)?);
        let out = out.get_mut(..run.count() * padded * TILE_TOKENS)?;
        if run.bytes < self.v.bytes {
            return None;
        }
        if padded > head_dim {
            // What does not fill the lanes.
            let rows = out.chunks_exact_mut(padded.max(1)).take(run.positions()).enumerate();
            for (row, out) in rows {
                let tile = run.tiles.get(row / TILE_TOKENS)?;
                for (dim, out) in out.iter_mut().enumerate().skip(padded - LANES) {
                    *out = self.v.element.value(tile, head_dim, dim, row % TILE_TOKENS).unwrap_or(0.0);
                }
            }
        }
        let out = out.as_mut_ptr();
        // SAFETY: tiles of the run are as large as those of V, and there is room for it.
        unsafe {
            match self.v.element {
                KvElement::F32 if const { KvElement::F32.is_built() } => self.values_to::<V, f32>(run, out),
                KvElement::F16 => self.values_to::<V, f16>(run, out),
                KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } => self.values_to::<V, Q8>(run, out),
                KvElement::Q4_0 if const { KvElement::Q4_0.is_built() } => self.values_to::<V, Q4>(run, out),
                _ => return None,
            }
        }
        Some(())
    }

    /// Whole registers of rows.
    ///
    /// # Safety
    /// Tiles of the run are as large as those of V, which is of type `T`; for each of them 16 rows of heads rounded up can be written at `out`.
    #[inline(always)]
    unsafe fn values_to<V: Lanes, T: Stored>(&self, run: &Run<'_>, out: *mut f32) {
        let (head_dim, padded) = (self.head_dim, self.head_dim.next_multiple_of(LANES));
        for index in 0..run.count() {
            let (tile, next) = (run.tile(index), run.next(index));
            let rows = (run.positions() - index * TILE_TOKENS).min(TILE_TOKENS);
            let out = out.wrapping_add(index * TILE_TOKENS * padded);
            for start in (0..head_dim - head_dim % LANES).step_by(LANES) {
                let mut scales_of = [1.0_f32; TILE_TOKENS];
                if T::SCALED {
                    // SAFETY: a V tile has the scales of all blocks behind its codes.
                    unsafe { scales::<V, T>(tile, self.v.codes, start).store(scales_of.as_mut_ptr()) };
                }
                for (slot, &scale) in scales_of.iter().enumerate().take(rows) {
                    if slot % 2 == 0 {
                        V::prefetch(next.wrapping_add((start * TILE_TOKENS + slot * LANES) * T::PITCH / TILE_TOKENS));
                    }
                    // SAFETY: a V tile has 16 rows of head_dim elements, and start + 16 <= head_dim.
                    unsafe {
                        let row = T::row::<V>(tile, head_dim, slot, start, slot % 2 == 1);
                        let row = if T::SCALED { V::splat(scale).mul(row) } else { row };
                        row.store(out.add(slot * padded + start));
                    }
                }
            }
        }
    }
}

/// f32 elements for [`STAGED`] tiles that are converted.
pub(super) fn staging_len(head_dim: usize) -> Option<usize> {
    head_dim.checked_next_multiple_of(LANES)?.checked_mul(TILE_TOKENS * STAGED)
}

/// Tiles that were converted to f32.
pub(super) struct Staged<'t> {
    tiles: [&'t [u8]; STAGED],
}

impl<'t> Staged<'t> {
    /// Tiles of so many elements. `None` if there are fewer than [`staging_len`].
    #[inline(always)]
    pub(super) fn new(staging: &'t [f32], elements: usize) -> Option<Self> {
        let mut tiles: [&[u8]; STAGED] = [&[]; STAGED];
        for (index, tile) in tiles.iter_mut().enumerate() {
            let start = index.checked_mul(elements)?;
            *tile = bytemuck::must_cast_slice(staging.get(start..start.checked_add(elements)?)?);
        }
        Some(Self { tiles })
    }

    /// Those of a run that was converted.
    #[inline(always)]
    pub(super) fn run(&self, of: &Run<'_>) -> Run<'_> {
        let [first, _] = self.tiles;
        let positions = of.positions.min(STAGED * TILE_TOKENS);
        Run { tiles: &self.tiles, bytes: first.len(), after: &[], after_pitch: 0, offset: of.offset, positions }
    }
}
