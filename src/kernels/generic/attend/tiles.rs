//! The tiles of a chunk as the loops read them: in the cache, or converted to f32.

use half::f16;

use super::stored::{Q4, Q8, Stored, scales};
use crate::kernels::generic::lanes::{LANES, Lanes};
use crate::kv::{CHUNK, KvElement, KvTile, TILE_TOKENS};

/// Number of tiles per chunk.
pub(super) const TILES: usize = CHUNK / TILE_TOKENS;

/// Number of bytes of a cache line.
pub(super) const LINE: usize = 64;

/// Number of tiles that are converted at a time: few, so that they stay in the first-level cache.
pub(super) const STAGED: usize = 2;

/// Successive tiles of K or of V in a chunk.
#[derive(Clone, Copy)]
pub(super) struct Run<'t> {
    /// The tiles in which the positions lie, and the tiles of the chunk that follow.
    tiles: &'t [&'t [u8]],
    /// Number of bytes of each tile.
    bytes: usize,
    /// Tiles that are read after this run.
    after: &'t [&'t [u8]],
    /// Number of bytes of a tile of `after` for each column of K, or for each row of V.
    after_step: usize,
    /// First position in the chunk, a multiple of 16.
    offset: usize,
    positions: usize,
}

impl Run<'_> {
    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.positions.div_ceil(TILE_TOKENS)
    }

    /// Returns the number of bytes of each tile.
    #[inline(always)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the start of tile `index`, or of the last tile for indices past it.
    #[inline(always)]
    pub(super) fn tile(&self, index: usize) -> *const u8 {
        self.tiles.get(index.min(self.count() - 1)).map_or(core::ptr::null(), |tile| tile.as_ptr())
    }

    /// Returns the start of the tile [`STAGED`] tiles after tile `index`, which is converted next.
    #[inline(always)]
    fn next(&self, index: usize) -> *const u8 {
        self.tiles.get(index + STAGED).map_or(core::ptr::null(), |tile| tile.as_ptr())
    }

    /// Returns the start of tile `index` among the tiles that are read after this run.
    #[inline(always)]
    pub(super) fn after(&self, index: usize) -> *const u8 {
        self.after.get(index).map_or(core::ptr::null(), |tile| tile.as_ptr())
    }

    #[inline(always)]
    pub(super) fn after_step(&self) -> usize {
        self.after_step
    }

    #[inline(always)]
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    #[inline(always)]
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// Returns the part of the run before a position of the chunk, or `None` if it is empty.
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
    /// Tiles of K that are read after this chunk.
    after: [&'t [u8]; TILES],
    /// Number of positions that some query sees, 1 to [`CHUNK`]. Their tiles are set.
    positions: usize,
    head_dim: usize,
}

/// All tiles of K, or all tiles of V, in a chunk.
#[derive(Clone, Copy)]
struct Side<'t> {
    element: KvElement,
    /// Number of bytes of codes in a tile.
    codes: usize,
    /// Number of bytes of a tile.
    bytes: usize,
    tiles: [&'t [u8]; TILES],
}

impl<'t> ChunkTiles<'t> {
    /// Returns a value without tiles, for K and V of these types, or `None` if one of the types is not built.
    #[inline(always)]
    pub(super) fn new(head_dim: usize, [k, v]: [KvElement; 2]) -> Option<Self> {
        if !k.is_built() || !v.is_built() {
            return None;
        }
        let (k_codes, v_codes) = (k.k_codes(head_dim)?, v.v_codes(head_dim)?);
        let k = Side { element: k, codes: k_codes, bytes: k.k_tile(head_dim)?, tiles: [&[]; TILES] };
        let v = Side { element: v, codes: v_codes, bytes: v.v_tile(head_dim)?, tiles: [&[]; TILES] };
        Some(Self { k, v, after: [&[]; TILES], positions: 0, head_dim })
    }

    /// Sets the tiles of the first `positions` positions of a chunk. Returns `None` if a tile is missing, too small or
    /// of another type.
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

    /// Sets the tiles of K that are read after this chunk: the tiles of `positions` positions, if they exist.
    #[inline(always)]
    pub(super) fn set_after(&mut self, positions: usize, tile: impl Fn(usize) -> Option<KvTile<'t>>) {
        for (index, place) in self.after.iter_mut().enumerate() {
            let tile = if index * TILE_TOKENS < positions { tile(index) } else { None };
            *place = tile.map_or(&[], |tile| tile.k.bytes());
        }
    }

    /// Returns the number of positions that some query sees, 1 to [`CHUNK`].
    #[inline(always)]
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// Returns the element types of K and of V.
    #[inline(always)]
    pub(super) fn elements(&self) -> [KvElement; 2] {
        [self.k.element, self.v.element]
    }

    /// Returns K of at most `most` positions from `start` on, a multiple of 16, or `None` if there are no such
    /// positions.
    #[inline(always)]
    pub(super) fn keys(&self, start: usize, most: usize) -> Option<Run<'_>> {
        let step = self.v.codes.checked_div(self.head_dim)?;
        self.run(&self.k, (&self.v.tiles, step), start, most)
    }

    /// Returns V of at most `most` positions from `start` on, a multiple of 16, or `None` if there are no such
    /// positions.
    #[inline(always)]
    pub(super) fn values(&self, start: usize, most: usize) -> Option<Run<'_>> {
        self.run(&self.v, (&self.after, self.k.codes / TILE_TOKENS), start, most)
    }

    #[inline(always)]
    fn run<'r>(
        &self,
        side: &'r Side<'t>,
        (after, after_step): (&'r [&'t [u8]], usize),
        start: usize,
        most: usize,
    ) -> Option<Run<'r>> {
        let first = start / TILE_TOKENS;
        Some(Run {
            tiles: side.tiles.get(first..)?,
            bytes: side.bytes,
            after: after.get(first..).unwrap_or_default(),
            after_step,
            offset: start,
            positions: self.positions.checked_sub(start).filter(|&positions| positions > 0)?.min(most),
        })
    }

    /// Converts K of a run to f32, `[tiles][head_dim][16]`. Returns `None` if there is no room, or for a type that is
    /// not converted.
    #[inline(always)]
    pub(super) fn convert_keys<V: Lanes>(&self, proof: V::Proof, run: &Run<'_>, out: &mut [f32]) -> Option<()> {
        let out = out.get_mut(..run.count() * self.head_dim * TILE_TOKENS)?.as_mut_ptr();
        if run.bytes < self.k.bytes {
            return None;
        }
        // SAFETY: tiles of the run are as large as those of K, as compared above, each case is the element type of K,
        // and `out` has room for all of them.
        unsafe {
            match self.k.element {
                KvElement::F16 => self.keys_to::<V, f16>(proof, run, out),
                KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } => self.keys_to::<V, Q8>(proof, run, out),
                KvElement::Q4_0 if const { KvElement::Q4_0.is_built() } => self.keys_to::<V, Q4>(proof, run, out),
                _ => return None,
            }
        }
        Some(())
    }

    /// Converts K of a run to f32, `[tiles][head_dim][16]`.
    ///
    /// # Safety
    /// Tiles of the run are as large as the tiles of K, K is of type `T`, and all elements of the run can be written at
    /// `out`.
    #[inline(always)]
    unsafe fn keys_to<V: Lanes, T: Stored>(&self, proof: V::Proof, run: &Run<'_>, mut out: *mut f32) {
        for index in 0..run.count() {
            let (tile, after, next) = (run.tile(index), run.after(index), run.next(index));
            for start in (0..self.head_dim).step_by(LANES) {
                // SAFETY: the caller promises K tiles of `T`, which have the scales of all blocks behind their codes.
                let scales = unsafe { scales::<V, T>(proof, tile, self.k.codes, start) };
                for dim in start..self.head_dim.min(start + LANES) {
                    // Two columns are at most a cache line.
                    if dim % 2 == 0 {
                        V::prefetch(next.wrapping_add(dim * T::PITCH));
                        V::prefetch(after.wrapping_add(dim * run.after_step()));
                    }
                    // SAFETY: the caller promises K tiles of `T`, which have head_dim columns of 16, and room for all
                    // of these.
                    unsafe {
                        let column = T::column::<V>(proof, tile, dim, dim % 2 == 1);
                        if T::SCALED { scales.mul(column) } else { column }.store(out);
                        out = out.add(TILE_TOKENS);
                    }
                }
            }
        }
    }

    /// Converts V of a run to f32, `[tiles][16][head_dim, rounded up to a multiple of 16]`, for its positions. Returns
    /// `None` if there is no room, or for a type that is not built.
    #[inline(always)]
    pub(super) fn convert_values<V: Lanes>(&self, proof: V::Proof, run: &Run<'_>, out: &mut [f32]) -> Option<()> {
        let (head_dim, padded) = (self.head_dim, self.head_dim.checked_next_multiple_of(LANES)?);
        let out = out.get_mut(..run.count() * padded * TILE_TOKENS)?;
        if run.bytes < self.v.bytes {
            return None;
        }
        if padded > head_dim {
            // The elements of each row that do not fill the 16 lanes of a register.
            let rows = out.chunks_exact_mut(padded.max(1)).take(run.positions()).enumerate();
            for (row, out) in rows {
                let tile = run.tiles.get(row / TILE_TOKENS)?;
                for (dim, out) in out.iter_mut().enumerate().skip(padded - LANES) {
                    *out = self.v.element.value(tile, head_dim, dim, row % TILE_TOKENS).unwrap_or(0.0);
                }
            }
        }
        let out = out.as_mut_ptr();
        // SAFETY: tiles of the run are as large as those of V, as compared above, each case is the element type of V,
        // and `out` has room for 16 rows of `padded` elements of each.
        unsafe {
            match self.v.element {
                KvElement::F32 if const { KvElement::F32.is_built() } => self.values_to::<V, f32>(proof, run, out),
                KvElement::F16 => self.values_to::<V, f16>(proof, run, out),
                KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } => self.values_to::<V, Q8>(proof, run, out),
                KvElement::Q4_0 if const { KvElement::Q4_0.is_built() } => self.values_to::<V, Q4>(proof, run, out),
                _ => return None,
            }
        }
        Some(())
    }

    /// Converts the elements of V of a run that fill whole registers.
    ///
    /// # Safety
    /// Tiles of the run are as large as the tiles of V, and V is of type `T`. For each tile, 16 rows of heads rounded
    /// up can be written at `out`.
    #[inline(always)]
    unsafe fn values_to<V: Lanes, T: Stored>(&self, proof: V::Proof, run: &Run<'_>, out: *mut f32) {
        let (head_dim, padded) = (self.head_dim, self.head_dim.next_multiple_of(LANES));
        for index in 0..run.count() {
            let (tile, next) = (run.tile(index), run.next(index));
            let rows = (run.positions() - index * TILE_TOKENS).min(TILE_TOKENS);
            let out = out.wrapping_add(index * TILE_TOKENS * padded);
            for start in (0..head_dim - head_dim % LANES).step_by(LANES) {
                let mut scales_of = [1.0_f32; TILE_TOKENS];
                if T::SCALED {
                    // SAFETY: the caller promises V tiles of `T`, which have the scales of all blocks behind their
                    // codes; the array has room for 16.
                    unsafe { scales::<V, T>(proof, tile, self.v.codes, start).store(scales_of.as_mut_ptr()) };
                }
                for (slot, &scale) in scales_of.iter().enumerate().take(rows) {
                    if slot % 2 == 0 {
                        V::prefetch(next.wrapping_add((start * TILE_TOKENS + slot * LANES) * T::PITCH / TILE_TOKENS));
                    }
                    // SAFETY: the caller promises V tiles of `T`, which have 16 rows of head_dim elements, and room for
                    // rows of `padded`; slot < 16 and start + 16 <= head_dim.
                    unsafe {
                        let row = T::row::<V>(proof, tile, head_dim, slot, start, slot % 2 == 1);
                        let row = if T::SCALED { V::splat(proof, scale).mul(row) } else { row };
                        row.store(out.add(slot * padded + start));
                    }
                }
            }
        }
    }
}

/// Returns the number of f32 elements for [`STAGED`] converted tiles.
pub(super) fn staging_len(head_dim: usize) -> Option<usize> {
    head_dim.checked_next_multiple_of(LANES)?.checked_mul(TILE_TOKENS * STAGED)
}

/// Tiles that were converted to f32.
pub(super) struct Staged<'t> {
    tiles: [&'t [u8]; STAGED],
}

impl<'t> Staged<'t> {
    /// Returns tiles of `elements` elements each, or `None` if `staging` is too short.
    #[inline(always)]
    pub(super) fn new(staging: &'t [f32], elements: usize) -> Option<Self> {
        let mut tiles: [&[u8]; STAGED] = [&[]; STAGED];
        for (index, tile) in tiles.iter_mut().enumerate() {
            let start = index.checked_mul(elements)?;
            *tile = bytemuck::must_cast_slice(staging.get(start..start.checked_add(elements)?)?);
        }
        Some(Self { tiles })
    }

    /// Returns the converted tiles of a run.
    #[inline(always)]
    pub(super) fn run(&self, of: &Run<'_>) -> Run<'_> {
        let [first, _] = self.tiles;
        let positions = of.positions.min(STAGED * TILE_TOKENS);
        Run { tiles: &self.tiles, bytes: first.len(), after: &[], after_step: 0, offset: of.offset, positions }
    }
}
