//! Scores: products of queries with keys.
// Loops index fixed arrays of constant length, so no bounds check remains. Iterators in their place are not always
// inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use core::ops::Range;

use half::f16;

use super::{Pack, add, asks_for_next};
use crate::kernels::generic::attend::stored::{Stored, scales};
use crate::kernels::generic::attend::tiles::{LINE, Run};
use crate::kernels::generic::lanes::{LANES, Lanes};
use crate::kv::{CHUNK, TILE_TOKENS};

/// The keys of `WIDE` tiles.
struct Columns<const WIDE: usize> {
    /// Indices of the tiles in their run.
    index: [usize; WIDE],
    of: [*const u8; WIDE],
    /// Cache lines of the tiles that are read after the run.
    after: Lines<WIDE>,
    /// Cache lines of the next tiles of the run.
    next: Lines<WIDE>,
}

/// The cache lines of `WIDE` tiles, one tile after the other. Memory serves this order better than one line of each
/// tile in turn.
struct Lines<const WIDE: usize> {
    of: [*const u8; WIDE],
    /// Number of bytes of a tile.
    bytes: usize,
    tile: usize,
    at: usize,
}

impl<const WIDE: usize> Lines<WIDE> {
    /// Returns the lines of tiles of `bytes` bytes. The starts of the tiles are not set yet.
    #[inline(always)]
    fn new(bytes: usize) -> Self {
        Self { of: [core::ptr::null(); WIDE], bytes, tile: 0, at: 0 }
    }

    /// Returns the next line. After the last line, the lines of the last tile are returned again.
    #[inline(always)]
    fn next(&mut self) -> *const u8 {
        let line = self.of[self.tile].wrapping_add(self.at);
        self.at += LINE;
        if self.at >= self.bytes {
            self.at = 0;
            self.tile = (self.tile + 1).min(WIDE - 1);
        }
        line
    }
}

impl<const WIDE: usize> Columns<WIDE> {
    /// Returns the columns from tile `tile` of a run on, with `pitch` bytes for each of `head_dim` columns. Past the
    /// last tile, the last tile is taken again and gives the same scores.
    #[inline(always)]
    fn at(k: &Run<'_>, tile: usize, head_dim: usize, pitch: usize) -> Self {
        let (after, next) = (Lines::new(head_dim * k.after_step()), Lines::new(head_dim * pitch));
        let mut columns = Self { index: [0; WIDE], of: [core::ptr::null(); WIDE], after, next };
        for t in 0..WIDE {
            columns.index[t] = (tile + t).min(k.count() - 1);
            columns.of[t] = k.tile(columns.index[t]);
            columns.after.of[t] = k.after(columns.index[t]);
            columns.next.of[t] = k.tile(tile + WIDE + t);
        }
        columns
    }
}

impl<V: Lanes> Pack<'_, V> {
    /// Computes the scores of the queries of a batch with the positions of a run. There are at most 4 queries if keys
    /// have scales.
    #[inline(always)]
    pub(in crate::kernels::generic::attend) fn scores<T: Stored>(
        &mut self,
        batch: &Range<usize>,
        k: &Run<'_>,
        scale: f32,
    ) {
        match batch.len() {
            1 if V::QUERIES > 2 && k.count() > 2 => self.scores_of::<T, 1, 4, false>(batch, k, scale, &mut []),
            1 => self.scores_of::<T, 1, 2, false>(batch, k, scale, &mut []),
            2 if V::QUERIES > 4 && k.count() > 2 => self.scores_of::<T, 2, 4, false>(batch, k, scale, &mut []),
            2 if V::QUERIES > 2 => self.scores_of::<T, 2, 2, false>(batch, k, scale, &mut []),
            2 => self.scores_of::<T, 2, 1, false>(batch, k, scale, &mut []),
            3 if V::QUERIES > 2 => self.scores_of::<T, 3, 2, false>(batch, k, scale, &mut []),
            4 if V::QUERIES > 4 => self.scores_of::<T, 4, 2, false>(batch, k, scale, &mut []),
            4 if V::QUERIES > 2 => self.scores_of::<T, 4, 1, false>(batch, k, scale, &mut []),
            5 if V::QUERIES > 4 && !T::SCALED => self.scores_of::<T, 5, 2, false>(batch, k, scale, &mut []),
            6 if V::QUERIES > 4 && !T::SCALED => self.scores_of::<T, 6, 2, false>(batch, k, scale, &mut []),
            7 if V::QUERIES > 4 && !T::SCALED => self.scores_of::<T, 7, 2, false>(batch, k, scale, &mut []),
            8 if V::QUERIES > 4 && !T::SCALED => self.scores_of::<T, 8, 2, false>(batch, k, scale, &mut []),
            _ => {}
        }
    }

    /// Does the work of [`Pack::scores`] for keys in f16, and also stores the converted keys: `[tiles][head_dim][16]`.
    /// The batch is the last of several, so it has more than half of the queries of a full batch.
    #[inline(always)]
    pub(in crate::kernels::generic::attend) fn scores_and_stage(
        &mut self,
        batch: &Range<usize>,
        k: &Run<'_>,
        scale: f32,
        out: &mut [f32],
    ) {
        match batch.len() {
            3 if V::QUERIES == 4 => self.scores_of::<f16, 3, 2, true>(batch, k, scale, out),
            4 if V::QUERIES == 4 => self.scores_of::<f16, 4, 1, true>(batch, k, scale, out),
            5 if V::QUERIES > 4 => self.scores_of::<f16, 5, 2, true>(batch, k, scale, out),
            6 if V::QUERIES > 4 => self.scores_of::<f16, 6, 2, true>(batch, k, scale, out),
            7 if V::QUERIES > 4 => self.scores_of::<f16, 7, 2, true>(batch, k, scale, out),
            8 if V::QUERIES > 4 => self.scores_of::<f16, 8, 2, true>(batch, k, scale, out),
            _ => {}
        }
    }

    /// Does the work of [`Pack::scores`] for `N` queries, with `WIDE` tiles at a time: enough independent sums to hide
    /// the latency of an addition.
    #[inline(always)]
    fn scores_of<T: Stored, const N: usize, const WIDE: usize, const STAGE: bool>(
        &mut self,
        batch: &Range<usize>,
        k: &Run<'_>,
        scale: f32,
        staging: &mut [f32],
    ) {
        let (proof, head_dim, asks) = (self.proof, self.head_dim, asks_for_next::<T, STAGE>());
        let Some((queries, scores)) = self.batch_of::<N>(batch.start) else { return };
        let tile_len = head_dim * TILE_TOKENS;
        let Some(codes) = T::ELEMENT.k_codes(head_dim) else { return };
        let too_small = T::ELEMENT.k_tile(head_dim).is_none_or(|bytes| k.bytes() < bytes);
        if too_small || STAGE && staging.len() < k.count() * tile_len {
            return;
        }
        let staging = staging.as_mut_ptr();
        debug_assert!(k.offset() + k.count() * TILE_TOKENS <= CHUNK);
        // SAFETY: a run has positions of one chunk, so its offset is below CHUNK.
        let scores = unsafe { scores.as_mut_ptr().add(k.offset()) };
        let (queries, scale) = (queries.as_ptr(), V::splat(proof, scale));
        let mut tile = 0;
        while tile < k.count() {
            let Columns { index, of, mut after, mut next } = Columns::<WIDE>::at(k, tile, head_dim, T::PITCH);
            let mut sums = [[V::splat(proof, 0.0); N]; WIDE];
            let mut start = 0;
            while start < head_dim {
                let mut scales_of = [V::splat(proof, 1.0); WIDE];
                for t in 0..WIDE {
                    // SAFETY: tiles are as large as K tiles of `T`, as compared above, which have the scales of all
                    // blocks behind `codes` bytes; start < head_dim.
                    scales_of[t] = unsafe { scales::<V, T>(proof, of[t], codes, start) };
                }
                for dim in start..head_dim.min(start + LANES) {
                    let mut columns = [V::splat(proof, 0.0); WIDE];
                    for t in 0..WIDE {
                        // SAFETY: tiles are as large as K tiles of `T`, which have head_dim columns of 16; dim <
                        // head_dim.
                        columns[t] = unsafe { T::column::<V>(proof, of[t], dim, dim % 2 == 1) };
                        if T::SCALED {
                            columns[t] = scales_of[t].mul(columns[t]);
                        }
                        if STAGE {
                            // SAFETY: `staging` has room for the tiles of the run, as compared above; index < count.
                            unsafe { columns[t].store(staging.add(index[t] * tile_len + dim * TILE_TOKENS)) };
                        }
                        if asks && (dim * T::PITCH).is_multiple_of(LINE) {
                            V::prefetch(next.next());
                        }
                        if asks && (dim * k.after_step()).is_multiple_of(LINE) {
                            V::prefetch(after.next());
                        }
                    }
                    for n in 0..N {
                        // SAFETY: the queries are the slice above, [padded / 16][N][16]: 16 elements of each come
                        // before the next 16 of the first. start is a multiple of 16 and dim < start + 16.
                        let q = V::splat(proof, unsafe { *queries.add(start * N + n * LANES + (dim - start)) });
                        for t in 0..WIDE {
                            sums[t][n] = add::<V, T>(sums[t][n], q, columns[t]);
                        }
                    }
                }
                start += LANES;
            }
            for t in 0..WIDE {
                // SAFETY: the scores are the slice above, [N][CHUNK], from the run's offset on; the run's tiles end
                // within the chunk, and index < count.
                unsafe { store_scores(sums[t], scale, scores.add(index[t] * TILE_TOKENS)) };
            }
            tile += WIDE;
        }
    }

    /// Returns a batch of `N` queries from query `first` on, `[padded / 16][N][16]`, and their scores, `[N][CHUNK]`.
    #[inline(always)]
    fn batch_of<const N: usize>(&mut self, first: usize) -> Option<(&[f32], &mut [f32])> {
        let padded = self.padded();
        let queries = self.queries.get(first * padded..)?.get(..N * padded)?;
        let scores = self.scores.get_mut(first * CHUNK..)?.get_mut(..N * CHUNK)?;
        Some((queries, scores))
    }
}

/// Stores the sums of a tile, times a scale, for `N` queries.
///
/// # Safety
/// At `place` there is room for 16 scores, and at every further multiple of CHUNK for the 16 scores of the next query.
#[inline(always)]
unsafe fn store_scores<V: Lanes, const N: usize>(sums: [V; N], scale: V, place: *mut f32) {
    for n in 0..N {
        // SAFETY: the caller promises room for 16 scores of each query there.
        unsafe { sums[n].mul(scale).store(place.add(n * CHUNK)) };
    }
}
