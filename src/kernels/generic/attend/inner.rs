//! The loops of attention over raw pointers: sizes are checked where a [`Batch`] and [`TilePointers`] are made.
// Indices below run over fixed arrays of constant length, so no check is left of them; iterators in their
// place are not always inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use core::marker::PhantomData;

use half::f16;

use super::{CHUNK, Elements, KvTile, MAX_BATCH, Partial, Positions, TILE_TOKENS, TILES};
use crate::kernels::generic::lanes::{LANES, Lanes};

/// An element type of the cache.
pub(super) trait Stored: Copy + 'static {
    fn of<'a>(elements: Elements<'a>) -> Option<&'a [Self]>;

    fn value(self) -> f32;

    /// # Safety
    /// 16 elements can be read at `from`.
    unsafe fn load<V: Lanes>(from: *const Self) -> V;
}

impl Stored for f32 {
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

/// The tiles of a chunk in which some query sees anything.
pub(super) struct TilePointers<'t, T> {
    /// Each to `head_dim * 16` elements.
    k: [*const T; TILES],
    /// Likewise.
    v: [*const T; TILES],
    /// Positions of these tiles up to the last visible one, 1 to [`CHUNK`].
    positions: usize,
    head_dim: usize,
    tiles: PhantomData<&'t [T]>,
}

impl<'t, T: Stored> TilePointers<'t, T> {
    /// The tiles of `positions` positions; `None` where one is missing or too small.
    #[inline(always)]
    pub(super) fn new(positions: usize, head_dim: usize, tile: impl Fn(usize) -> Option<KvTile<'t>>) -> Option<Self> {
        let positions = positions.clamp(1, CHUNK);
        let elements = head_dim.checked_mul(TILE_TOKENS)?;
        let (k, v) = ([core::ptr::null(); TILES], [core::ptr::null(); TILES]);
        let mut tiles = Self { k, v, positions, head_dim, tiles: PhantomData };
        for index in 0..tiles.count() {
            let tile = tile(index)?;
            *tiles.k.get_mut(index)? = T::of(tile.k)?.get(..elements)?.as_ptr();
            *tiles.v.get_mut(index)? = T::of(tile.v)?.get(..elements)?.as_ptr();
        }
        Some(tiles)
    }

    #[inline(always)]
    pub(super) fn positions(&self) -> usize {
        self.positions
    }

    /// How many tiles are set, 1 to [`TILES`].
    #[inline(always)]
    fn count(&self) -> usize {
        self.positions.div_ceil(TILE_TOKENS)
    }
}

/// The queries of a batch, and what has been computed for them.
pub(super) struct Batch<'s> {
    /// 1 to [`MAX_BATCH`].
    count: usize,
    head_dim: usize,
    /// `[count][CHUNK]`: scores, then weights.
    scores: &'s mut [f32],
    /// `[head_dim][count]`.
    queries: &'s mut [f32],
    /// `[chunks][count]`: maximum and sum.
    peaks: &'s mut [[f32; 2]],
    /// `[chunks][count][head_dim]`.
    values: &'s mut [f32],
}

impl<'s> Batch<'s> {
    /// Cuts the scratch into its parts; `None` where it is too small.
    #[inline(always)]
    pub(super) fn new(count: usize, head_dim: usize, chunks: usize, scratch: &'s mut [f32]) -> Option<Self> {
        if count == 0 || count > MAX_BATCH || head_dim == 0 {
            return None;
        }
        let (scores, rest) = scratch.split_at_mut_checked(count * CHUNK)?;
        let queries = head_dim.checked_mul(count)?;
        let (queries, rest) = rest.split_at_mut_checked(queries)?;
        let partials = chunks.checked_mul(count)?;
        let (values, rest) = rest.split_at_mut_checked(partials.checked_mul(head_dim)?)?;
        let peaks = rest.as_chunks_mut::<2>().0.get_mut(..partials)?;
        Some(Self { count, head_dim, scores, queries, peaks, values })
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    pub(super) fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Sets a query: `q` is `[head_dim]`.
    #[inline(always)]
    pub(super) fn set_query(&mut self, query: usize, q: &[f32]) -> Option<()> {
        for (place, &q) in self.queries.chunks_exact_mut(self.count).zip(q) {
            *place.get_mut(query)? = q;
        }
        Some(())
    }

    /// What [`Batch::softmax`] and [`Batch::values`] computed.
    #[inline(always)]
    pub(super) fn partial(&self, chunk: usize, query: usize) -> Option<Partial<'_>> {
        let index = chunk.checked_mul(self.count)?.checked_add(query)?;
        let &[max, sum] = self.peaks.get(index)?;
        let start = index.checked_mul(self.head_dim)?;
        Some((max, sum, self.values.get(start..start.checked_add(self.head_dim)?)?))
    }

    /// The scores of all queries with all positions of the tiles.
    #[inline(always)]
    pub(super) fn scores<V: Lanes, T: Stored>(&mut self, tiles: &TilePointers<'_, T>, scale: f32) {
        debug_assert_eq!(tiles.head_dim, self.head_dim);
        match self.count {
            1 => self.scores_of::<V, T, 1, 4>(tiles, scale),
            2 => self.scores_of::<V, T, 2, 2>(tiles, scale),
            3 if V::QUERIES > 2 => self.scores_of::<V, T, 3, 2>(tiles, scale),
            4 if V::QUERIES > 2 => self.scores_of::<V, T, 4, 1>(tiles, scale),
            5 if V::QUERIES > 4 => self.scores_of::<V, T, 5, 1>(tiles, scale),
            6 if V::QUERIES > 4 => self.scores_of::<V, T, 6, 1>(tiles, scale),
            7 if V::QUERIES > 4 => self.scores_of::<V, T, 7, 1>(tiles, scale),
            8 if V::QUERIES > 4 => self.scores_of::<V, T, 8, 1>(tiles, scale),
            _ => {}
        }
    }

    /// [`Batch::scores`] for `N` queries, `WIDE` tiles at a time: enough independent sums to hide the
    /// latency of an addition.
    #[inline(always)]
    fn scores_of<V: Lanes, T: Stored, const N: usize, const WIDE: usize>(
        &mut self,
        tiles: &TilePointers<'_, T>,
        scale: f32,
    ) {
        debug_assert_eq!(N, self.count);
        let (queries, scores) = (self.queries.as_ptr(), self.scores.as_mut_ptr());
        let (count, scale) = (tiles.count(), V::splat(scale));
        let mut tile = 0;
        while tile < count {
            let mut index = [0; WIDE];
            let (mut k, mut v, mut next) =
                ([core::ptr::null(); WIDE], [core::ptr::null(); WIDE], [core::ptr::null(); WIDE]);
            for t in 0..WIDE {
                // Past the last tile it is that tile again, with the same scores.
                index[t] = (tile + t).min(count - 1);
                // SAFETY: indices are below count <= TILES, and those tiles are set.
                unsafe {
                    k[t] = *tiles.k.get_unchecked(index[t]);
                    v[t] = *tiles.v.get_unchecked(index[t]);
                    next[t] = *tiles.k.get_unchecked((tile + WIDE + t).min(count - 1));
                }
            }
            let mut sums = [[V::splat(0.0); N]; WIDE];
            for dim in 0..self.head_dim {
                let mut columns = [V::splat(0.0); WIDE];
                for t in 0..WIDE {
                    // SAFETY: a K tile has head_dim columns of 16.
                    columns[t] = unsafe { T::load::<V>(k[t].add(dim * TILE_TOKENS)) };
                    V::prefetch(next[t].wrapping_add(dim * TILE_TOKENS));
                    V::prefetch(v[t].wrapping_add(dim * TILE_TOKENS));
                }
                for n in 0..N {
                    // SAFETY: the queries are [head_dim][N].
                    let q = V::splat(unsafe { *queries.add(dim * N + n) });
                    for t in 0..WIDE {
                        sums[t][n] = sums[t][n].add(q.mul(columns[t]));
                    }
                }
            }
            for t in 0..WIDE {
                for n in 0..N {
                    // SAFETY: scores is [N][CHUNK], and index < TILES.
                    unsafe { sums[t][n].mul(scale).store(scores.add(n * CHUNK + index[t] * TILE_TOKENS)) };
                }
            }
            tile += WIDE;
        }
    }

    /// Turns the scores of a query into exponentials below their maximum, and what it does not see among
    /// the first `positions` into 0, which adds nothing to sums that start at +0.
    #[inline(always)]
    pub(super) fn softmax<V: Lanes>(&mut self, chunk: usize, query: usize, visible: Positions, positions: usize) {
        let Some(scores) = self.scores.get_mut(query * CHUNK..).and_then(|scores| scores.first_chunk_mut::<CHUNK>())
        else {
            return;
        };
        let scores = scores.as_mut_ptr();
        let groups = positions.min(CHUNK).div_ceil(LANES);
        let mut maxima = V::splat(f32::NEG_INFINITY);
        for group in 0..groups {
            // SAFETY: 16 * group < CHUNK, a multiple of 16.
            let scores = unsafe { V::load(scores.add(group * LANES)) };
            maxima = select(scores, visible, group * LANES, maxima).max(maxima);
        }
        let mut lanes = [0.0_f32; LANES];
        // SAFETY: 16 elements.
        unsafe { maxima.store(lanes.as_mut_ptr()) };
        let max = lanes.iter().fold(f32::NEG_INFINITY, |max, &lane| if lane > max { lane } else { max });
        let mut sums = V::splat(0.0);
        for group in 0..groups {
            // SAFETY: as above.
            let place = unsafe { scores.add(group * LANES) };
            // SAFETY: as above.
            let weights = unsafe { V::load(place) }.sub(V::splat(max)).exp();
            let weights = select(weights, visible, group * LANES, V::splat(0.0));
            // SAFETY: as above.
            unsafe { weights.store(place) };
            sums = sums.add(weights);
        }
        if let Some(peak) = self.peaks.get_mut(chunk * self.count + query) {
            *peak = [max, sums.tree()];
        }
    }

    /// The values of a chunk, each times its weight, summed in increasing order of the position.
    #[inline(always)]
    pub(super) fn values<V: Lanes, T: Stored>(&mut self, chunk: usize, tiles: &TilePointers<'_, T>) {
        debug_assert_eq!(tiles.head_dim, self.head_dim);
        if self.head_dim < LANES {
            return self.values_of_narrow_heads(chunk, tiles);
        }
        match self.count {
            1 => self.values_of::<V, T, 1, 4>(chunk, tiles),
            2 => self.values_of::<V, T, 2, 2>(chunk, tiles),
            3 if V::QUERIES > 2 => self.values_of::<V, T, 3, 2>(chunk, tiles),
            4 if V::QUERIES > 4 => self.values_of::<V, T, 4, 2>(chunk, tiles),
            4 if V::QUERIES > 2 => self.values_of::<V, T, 4, 1>(chunk, tiles),
            5 if V::QUERIES > 4 => self.values_of::<V, T, 5, 2>(chunk, tiles),
            6 if V::QUERIES > 4 => self.values_of::<V, T, 6, 2>(chunk, tiles),
            7 if V::QUERIES > 4 => self.values_of::<V, T, 7, 2>(chunk, tiles),
            8 if V::QUERIES > 4 => self.values_of::<V, T, 8, 2>(chunk, tiles),
            _ => {}
        }
    }

    /// [`Batch::values`] for `N` queries, `WIDE` times 16 elements of the heads at a time.
    #[inline(always)]
    fn values_of<V: Lanes, T: Stored, const N: usize, const WIDE: usize>(
        &mut self,
        chunk: usize,
        tiles: &TilePointers<'_, T>,
    ) {
        debug_assert_eq!(N, self.count);
        let head_dim = self.head_dim;
        let Some(out) = self.values.get_mut(chunk * N * head_dim..).and_then(|out| out.get_mut(..N * head_dim)) else {
            return;
        };
        let (scores, out) = (self.scores.as_ptr(), out.as_mut_ptr());
        let mut first = 0;
        while first < head_dim {
            // The last 16 where a whole 16 does not follow: some are computed again, with the same result.
            let mut starts = [0; WIDE];
            for w in 0..WIDE {
                starts[w] = (first + w * LANES).min(head_dim - LANES);
            }
            let mut sums = [[V::splat(0.0); N]; WIDE];
            for tile in 0..tiles.count() {
                // SAFETY: tile < TILES, and it is set.
                let v = unsafe { *tiles.v.get_unchecked(tile) };
                let positions = (tiles.positions - tile * TILE_TOKENS).min(TILE_TOKENS);
                for position in 0..positions {
                    let mut rows = [V::splat(0.0); WIDE];
                    for w in 0..WIDE {
                        // SAFETY: a V tile has 16 rows of head_dim elements, and starts + 16 <= head_dim.
                        rows[w] = unsafe { T::load::<V>(v.add(position * head_dim + starts[w])) };
                    }
                    for n in 0..N {
                        // SAFETY: scores is [N][CHUNK].
                        let weight = V::splat(unsafe { *scores.add(n * CHUNK + tile * TILE_TOKENS + position) });
                        for w in 0..WIDE {
                            sums[w][n] = sums[w][n].add(weight.mul(rows[w]));
                        }
                    }
                }
            }
            for w in 0..WIDE {
                for n in 0..N {
                    // SAFETY: out is [N][head_dim], and starts + 16 <= head_dim.
                    unsafe { sums[w][n].store(out.add(n * head_dim + starts[w])) };
                }
            }
            first += WIDE * LANES;
        }
    }

    /// [`Batch::values`] for heads of fewer than 16 elements.
    #[inline(always)]
    fn values_of_narrow_heads<T: Stored>(&mut self, chunk: usize, tiles: &TilePointers<'_, T>) {
        let head_dim = self.head_dim;
        let out = self.values.chunks_exact_mut(head_dim.max(1)).skip(chunk * self.count).take(self.count);
        for (out, weights) in out.zip(self.scores.chunks_exact(CHUNK)) {
            out.fill(0.0);
            let (weights, _) = weights.as_chunks::<TILE_TOKENS>();
            for (tile, (weights, &v)) in weights.iter().zip(&tiles.v).enumerate().take(tiles.count()) {
                // SAFETY: the tile is set and has 16 rows of head_dim elements.
                let v = unsafe { core::slice::from_raw_parts(v, head_dim * TILE_TOKENS) };
                let rows = v.chunks_exact(head_dim.max(1)).take(tiles.positions - tile * TILE_TOKENS);
                for (&weight, row) in weights.iter().zip(rows) {
                    for (out, &v) in out.iter_mut().zip(row) {
                        *out += weight * v.value();
                    }
                }
            }
        }
    }
}

/// The lanes of `values` at visible positions, where `start` is the position of the first lane, and those of
/// `others` elsewhere.
#[inline(always)]
fn select<V: Lanes>(values: V, visible: Positions, start: usize, others: V) -> V {
    let [first, second] = visible.ranges().map(|range| range.map(|end| end.saturating_sub(start)));
    let mut selected = values.first(second[1], others);
    if second[0] > 0 {
        selected = others.first(first[0], values.first(first[1], others.first(second[0], selected)));
    }
    selected
}
