//! The loops of attention over raw pointers: sizes are checked where a [`Pack`] and a [`Run`] are made.
// Indices below run over fixed arrays of constant length, so no check is left of them; iterators in their
// place are not always inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

use core::ops::Range;

use half::f16;

use super::stored::{Stored, scales};
use super::tiles::Run;
use crate::kernels::generic::lanes::{LANES, Lanes};
use crate::kv::{CHUNK, KvElement, Positions, TILE_TOKENS};
use crate::num::{SHORT_MIN, short};

/// Times 16 exponentials that are computed side by side: one after the other they wait for themselves.
const EXPS: usize = 4;

/// Queries that go through chunks together, and what has been computed for them in the chunk at hand.
pub(super) struct Pack<'s, V: Lanes> {
    proof: V::Proof,
    head_dim: usize,
    /// `[count][CHUNK]`: scores, then weights.
    scores: &'s mut [f32],
    /// Of each batch, one after the other: `[head_dim / 16, rounded up][batch][16]`.
    queries: &'s mut [f32],
    /// `[count]`: maximum and sum.
    peaks: &'s mut [[f32; 2]],
    /// `[count][head_dim, rounded up]`.
    values: &'s mut [f32],
}

/// f32 elements of a [`Pack`] per query.
pub(super) fn len_of_query(head_dim: usize) -> Option<usize> {
    head_dim.checked_next_multiple_of(LANES)?.checked_mul(2)?.checked_add(CHUNK + 2)
}

impl<'s, V: Lanes> Pack<'s, V> {
    /// Cuts the scratch into its parts; `None` where it is too small.
    #[inline(always)]
    pub(super) fn new(proof: V::Proof, count: usize, head_dim: usize, scratch: &'s mut [f32]) -> Option<Self> {
        if count == 0 || head_dim == 0 {
            return None;
        }
        let padded = head_dim.checked_next_multiple_of(LANES)?;
        let (scores, rest) = scratch.split_at_mut_checked(count.checked_mul(CHUNK)?)?;
        let (queries, rest) = rest.split_at_mut_checked(padded.checked_mul(count)?)?;
        let (values, rest) = rest.split_at_mut_checked(padded.checked_mul(count)?)?;
        let peaks = rest.as_chunks_mut::<2>().0.get_mut(..count)?;
        Some(Self { proof, head_dim, scores, queries, peaks, values })
    }

    /// What proves that the machine has the instructions.
    #[inline(always)]
    pub(super) fn proof(&self) -> V::Proof {
        self.proof
    }

    /// Elements of a head, rounded up.
    #[inline(always)]
    fn padded(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Sets a query of a batch: `q` is `[head_dim]`, to be multiplied with keys of this type.
    #[inline(always)]
    pub(super) fn set_query(&mut self, batch: &Range<usize>, query: usize, q: &[f32], keys: KvElement) -> Option<()> {
        let start = batch.start.checked_mul(self.padded())?;
        set_query(self.queries.get_mut(start..)?, batch.len(), query.checked_sub(batch.start)?, q, keys)
    }

    /// What a query has of the chunk: its largest score, the sum of its weights, which is 0 if it sees nothing, and the
    /// values times their weights, `[head_dim]`.
    #[inline(always)]
    pub(super) fn partial(&self, query: usize) -> Option<(&[f32; 2], &[f32])> {
        let start = query.checked_mul(self.padded())?;
        Some((self.peaks.get(query)?, self.values.get(start..start.checked_add(self.head_dim)?)?))
    }

    /// Before anything is computed for a chunk.
    #[inline(always)]
    pub(super) fn see_nothing(&mut self) {
        self.peaks.fill([f32::NEG_INFINITY, 0.0]);
    }

    /// The scores of the queries of a batch with the positions of a run; at most 4 queries where keys have scales.
    #[inline(always)]
    pub(super) fn scores<T: Stored>(&mut self, batch: &Range<usize>, k: &Run<'_>, scale: f32) {
        match batch.len() {
            1 if V::QUERIES > 2 && k.count() > 2 => self.scores_of::<T, 1, 4, false>(batch, k, scale, &mut []),
            1 => self.scores_of::<T, 1, 2, false>(batch, k, scale, &mut []),
            2 if V::QUERIES > 2 => self.scores_of::<T, 2, 2, false>(batch, k, scale, &mut []),
            2 => self.scores_of::<T, 2, 1, false>(batch, k, scale, &mut []),
            3 if V::QUERIES > 2 => self.scores_of::<T, 3, 2, false>(batch, k, scale, &mut []),
            4 if V::QUERIES > 2 => self.scores_of::<T, 4, 1, false>(batch, k, scale, &mut []),
            5 if V::QUERIES > 4 && !T::SCALED => self.scores_of::<T, 5, 2, false>(batch, k, scale, &mut []),
            6 if V::QUERIES > 4 && !T::SCALED => self.scores_of::<T, 6, 2, false>(batch, k, scale, &mut []),
            7 if V::QUERIES > 4 && !T::SCALED => self.scores_of::<T, 7, 2, false>(batch, k, scale, &mut []),
            8 if V::QUERIES > 4 && !T::SCALED => self.scores_of::<T, 8, 2, false>(batch, k, scale, &mut []),
            _ => {}
        }
    }

    /// [`Pack::scores`] with keys in f16, which are kept converted, too: `[tiles][head_dim][16]`. The last of several
    /// batches has more queries than half a batch.
    #[inline(always)]
    pub(super) fn scores_and_stage(&mut self, batch: &Range<usize>, k: &Run<'_>, scale: f32, out: &mut [f32]) {
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

    /// [`Pack::scores`] for `N` queries, `WIDE` tiles at a time: enough independent sums to hide the
    /// latency of an addition.
    #[inline(always)]
    fn scores_of<T: Stored, const N: usize, const WIDE: usize, const STAGE: bool>(
        &mut self,
        batch: &Range<usize>,
        k: &Run<'_>,
        scale: f32,
        staging: &mut [f32],
    ) {
        let proof = self.proof;
        let padded = self.padded();
        let queries = self.queries.get(batch.start * padded..).and_then(|queries| queries.get(..N * padded));
        let scores = self.scores.get_mut(batch.start * CHUNK..).and_then(|scores| scores.get_mut(..N * CHUNK));
        let (Some(queries), Some(scores)) = (queries, scores) else {
            return;
        };
        let tile_len = self.head_dim * TILE_TOKENS;
        let Some(codes) = T::ELEMENT.k_codes(self.head_dim) else { return };
        let too_small = T::ELEMENT.k_tile(self.head_dim).is_none_or(|bytes| k.bytes() < bytes);
        if too_small || STAGE && staging.len() < k.count() * tile_len {
            return;
        }
        let staging = staging.as_mut_ptr();
        debug_assert!(k.offset() + k.count() * TILE_TOKENS <= CHUNK);
        // SAFETY: a run has positions of one chunk, so its offset is below CHUNK.
        let scores = unsafe { scores.as_mut_ptr().add(k.offset()) };
        let (queries, scale) = (queries.as_ptr(), V::splat(proof, scale));
        let count = k.count();
        let mut tile = 0;
        while tile < count {
            let mut index = [0; WIDE];
            let (mut columns_of, mut after, mut next) =
                ([core::ptr::null(); WIDE], [core::ptr::null(); WIDE], [core::ptr::null(); WIDE]);
            for t in 0..WIDE {
                // Past the last tile it is that tile again, with the same scores.
                index[t] = (tile + t).min(count - 1);
                columns_of[t] = k.tile(index[t]);
                after[t] = k.after(index[t]);
                next[t] = k.tile(tile + WIDE + t);
            }
            let mut sums = [[V::splat(proof, 0.0); N]; WIDE];
            let mut start = 0;
            while start < self.head_dim {
                let mut scales_of = [V::splat(proof, 1.0); WIDE];
                for t in 0..WIDE {
                    // SAFETY: tiles are as large as K tiles of `T`, as compared above, which have the scales of all
                    // blocks behind `codes` bytes; start < head_dim.
                    scales_of[t] = unsafe { scales::<V, T>(proof, columns_of[t], codes, start) };
                }
                for dim in start..self.head_dim.min(start + LANES) {
                    let mut columns = [V::splat(proof, 0.0); WIDE];
                    for t in 0..WIDE {
                        // SAFETY: tiles are as large as K tiles of `T`, which have head_dim columns of 16; dim <
                        // head_dim.
                        columns[t] = unsafe { T::column::<V>(proof, columns_of[t], dim, dim % 2 == 1) };
                        if T::SCALED {
                            columns[t] = scales_of[t].mul(columns[t]);
                        }
                        if STAGE {
                            // SAFETY: `staging` has room for the tiles of the run, as compared above; index < count.
                            unsafe { columns[t].store(staging.add(index[t] * tile_len + dim * TILE_TOKENS)) };
                        }
                        if T::PREFETCHED {
                            V::prefetch(next[t].wrapping_add(dim * T::PITCH));
                            V::prefetch(after[t].wrapping_add(dim * k.after_pitch()));
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
                for n in 0..N {
                    // SAFETY: the scores are the slice above, [N][CHUNK], from the run's offset on; its `count` tiles
                    // end within the chunk, and index < count.
                    unsafe { sums[t][n].mul(scale).store(scores.add(n * CHUNK + index[t] * TILE_TOKENS)) };
                }
            }
            tile += WIDE;
        }
    }

    /// The scores of a query with the positions of the chunk at hand: `[CHUNK]`.
    #[inline(always)]
    pub(super) fn scores_mut(&mut self, query: usize) -> Option<&mut [f32; CHUNK]> {
        self.scores.as_chunks_mut::<CHUNK>().0.get_mut(query)
    }

    /// The largest visible score of a query.
    #[inline(always)]
    pub(super) fn max(&mut self, query: usize, visible: Positions) {
        let proof = self.proof;
        let scores = self.scores.as_chunks::<CHUNK>().0.get(query);
        let (Some(scores), Some([max, _])) = (scores, self.peaks.get_mut(query)) else {
            return;
        };
        let scores = scores.as_ptr();
        let end = visible.end().min(CHUNK);
        let whole = if visible.is_prefix() { end / LANES } else { 0 };
        let mut maxima = V::splat(proof, f32::NEG_INFINITY);
        for group in 0..whole {
            // SAFETY: 16 * whole <= end <= CHUNK, the length of the scores of a query.
            maxima = unsafe { V::load(proof, scores.add(group * LANES)) }.max(maxima);
        }
        for group in whole..end.div_ceil(LANES) {
            // SAFETY: 16 * group < end <= CHUNK, the length of the scores of a query and a multiple of 16.
            let scores = unsafe { V::load(proof, scores.add(group * LANES)) };
            maxima = select(scores, visible, group * LANES, maxima).max(maxima);
        }
        *max = maxima.largest();
    }

    /// Turns the scores of a query into exponentials below their maximum, which is known, and what it does not
    /// see among the first `positions` into 0, which adds nothing to sums that start at +0. They are to be multiplied with
    /// values of this type.
    #[inline(always)]
    pub(super) fn softmax(&mut self, query: usize, visible: Positions, positions: usize, values: KvElement) {
        let proof = self.proof;
        let scores = self.scores.as_chunks_mut::<CHUNK>().0.get_mut(query);
        let (Some(scores), Some([max, sum])) = (scores, self.peaks.get_mut(query)) else {
            return;
        };
        let (scores, max) = (scores.as_mut_ptr(), V::splat(proof, *max));
        let groups = positions.min(CHUNK).div_ceil(LANES);
        let whole = if visible.is_prefix() { visible.end().min(CHUNK) } else { 0 };
        let mut sums = V::splat(proof, 0.0);
        let mut group = 0;
        // Registers that are arrays have independent numbers enough.
        while V::QUERIES > 2 && (group + EXPS) * LANES <= whole {
            let mut weights = [max; EXPS];
            for e in 0..EXPS {
                // SAFETY: 16 * (group + EXPS) <= whole <= CHUNK, the length of the scores of a query.
                weights[e] = unsafe { V::load(proof, scores.add((group + e) * LANES)) }.sub(max);
            }
            let mut weights = V::exps(proof, weights);
            for e in 0..EXPS {
                weights[e] = factor(proof, weights[e], values);
                // SAFETY: 16 * (group + EXPS) <= whole <= CHUNK, as for the load from this place.
                unsafe { weights[e].store(scores.add((group + e) * LANES)) };
                sums = sums.add(weights[e]);
            }
            group += EXPS;
        }
        while group < groups {
            // SAFETY: 16 * group < CHUNK, the length of the scores of a query.
            let place = unsafe { scores.add(group * LANES) };
            // SAFETY: CHUNK is a multiple of 16, so 16 scores follow `place`.
            let [weights] = V::exps(proof, [unsafe { V::load(proof, place) }.sub(max)]);
            let weights = select(factor(proof, weights, values), visible, group * LANES, V::splat(proof, 0.0));
            // SAFETY: CHUNK is a multiple of 16, so 16 scores follow `place`.
            unsafe { weights.store(place) };
            sums = sums.add(weights);
            group += 1;
        }
        *sum = sums.tree();
    }

    /// The values of a run, each times its weight, summed in increasing order of the position. The first run
    /// of a chunk begins the sums, the others go on. Rows are whole registers. At most 4 queries where values have scales.
    #[inline(always)]
    pub(super) fn values<T: Stored>(&mut self, batch: &Range<usize>, v: &Run<'_>) {
        match batch.len() {
            1 if V::QUERIES > 2 => self.values_of::<T, 1, 4, false>(batch, v, &mut []),
            1 => self.values_of::<T, 1, 2, false>(batch, v, &mut []),
            2 if V::QUERIES > 2 => self.values_of::<T, 2, 2, false>(batch, v, &mut []),
            2 => self.values_of::<T, 2, 1, false>(batch, v, &mut []),
            3 if V::QUERIES > 2 => self.values_of::<T, 3, 2, false>(batch, v, &mut []),
            4 if V::QUERIES > 4 => self.values_of::<T, 4, 2, false>(batch, v, &mut []),
            4 if V::QUERIES > 2 => self.values_of::<T, 4, 1, false>(batch, v, &mut []),
            5 if V::QUERIES > 4 && !T::SCALED => self.values_of::<T, 5, 2, false>(batch, v, &mut []),
            6 if V::QUERIES > 4 && !T::SCALED => self.values_of::<T, 6, 2, false>(batch, v, &mut []),
            7 if V::QUERIES > 4 && !T::SCALED => self.values_of::<T, 7, 2, false>(batch, v, &mut []),
            8 if V::QUERIES > 4 && !T::SCALED => self.values_of::<T, 8, 2, false>(batch, v, &mut []),
            _ => {}
        }
    }

    /// [`Pack::values`] with values in f16, which are kept converted, too, `[tiles][16][head_dim]`: see
    /// [`Pack::scores_and_stage`].
    #[inline(always)]
    pub(super) fn values_and_stage(&mut self, batch: &Range<usize>, v: &Run<'_>, out: &mut [f32]) {
        match batch.len() {
            3 if V::QUERIES == 4 => self.values_of::<f16, 3, 2, true>(batch, v, out),
            4 if V::QUERIES == 4 => self.values_of::<f16, 4, 1, true>(batch, v, out),
            5 if V::QUERIES > 4 => self.values_of::<f16, 5, 2, true>(batch, v, out),
            6 if V::QUERIES > 4 => self.values_of::<f16, 6, 2, true>(batch, v, out),
            7 if V::QUERIES > 4 => self.values_of::<f16, 7, 2, true>(batch, v, out),
            8 if V::QUERIES > 4 => self.values_of::<f16, 8, 2, true>(batch, v, out),
            _ => {}
        }
    }

    /// [`Pack::values`] for `N` queries, `WIDE` times 16 elements of the heads at a time.
    #[inline(always)]
    fn values_of<T: Stored, const N: usize, const WIDE: usize, const STAGE: bool>(
        &mut self,
        batch: &Range<usize>,
        v: &Run<'_>,
        staging: &mut [f32],
    ) {
        let proof = self.proof;
        let padded = self.padded();
        let out = self.values.get_mut(batch.start * padded..).and_then(|out| out.get_mut(..N * padded));
        let weights = self.scores.get(batch.start * CHUNK..).and_then(|weights| weights.get(..N * CHUNK));
        let (Some(out), Some(weights)) = (out, weights) else {
            return;
        };
        let Some(codes) = T::ELEMENT.v_codes(padded) else { return };
        let too_small = T::ELEMENT.v_tile(padded).is_none_or(|bytes| v.bytes() < bytes);
        if too_small || STAGE && staging.len() < v.count() * TILE_TOKENS * padded {
            return;
        }
        let staging = staging.as_mut_ptr();
        debug_assert!(v.offset() + v.positions() <= CHUNK);
        // SAFETY: a run has positions of one chunk, so its offset is below CHUNK.
        let weights = unsafe { weights.as_ptr().add(v.offset()) };
        let out = out.as_mut_ptr();
        let mut first = 0;
        while first < padded {
            let mut starts = [0; WIDE];
            for w in 0..WIDE {
                // Past the end it is the last 16 again, with the same sums.
                starts[w] = (first + w * LANES).min(padded - LANES);
            }
            let mut sums = [[V::splat(proof, 0.0); N]; WIDE];
            if v.offset() > 0 {
                for w in 0..WIDE {
                    for n in 0..N {
                        // SAFETY: `out` is the slice above, [N][padded], and starts + 16 <= padded.
                        sums[w][n] = unsafe { V::load(proof, out.add(n * padded + starts[w])) };
                    }
                }
            }
            for tile in 0..v.count() {
                let rows_of = v.tile(tile);
                let weights = weights.wrapping_add(tile * TILE_TOKENS);
                let mut scales_of = [[1.0_f32; LANES]; WIDE];
                for w in 0..WIDE {
                    if T::SCALED {
                        // SAFETY: tiles are as large as V tiles of `T`, as compared above, which have the scales of all
                        // blocks behind `codes` bytes; starts < padded, and the array has room for 16.
                        unsafe { scales::<V, T>(proof, rows_of, codes, starts[w]).store(scales_of[w].as_mut_ptr()) };
                    }
                }
                for position in 0..(v.positions() - tile * TILE_TOKENS).min(TILE_TOKENS) {
                    let mut rows = [V::splat(proof, 0.0); WIDE];
                    for w in 0..WIDE {
                        // SAFETY: tiles are as large as V tiles of `T`, which have 16 rows of padded elements; position
                        // < 16, and starts + 16 <= padded.
                        rows[w] =
                            unsafe { T::row::<V>(proof, rows_of, padded, position, starts[w], position % 2 == 1) };
                        if T::SCALED {
                            rows[w] = V::splat(proof, scales_of[w][position % LANES]).mul(rows[w]);
                        }
                        if STAGE {
                            let place = (tile * TILE_TOKENS + position) * padded + starts[w];
                            // SAFETY: `staging` has room for the tiles of the run, as compared above: tile < count,
                            // position < 16, and starts + 16 <= padded.
                            unsafe { rows[w].store(staging.add(place)) };
                        }
                    }
                    for n in 0..N {
                        // SAFETY: the weights are the slice above, [N][CHUNK], from the run's offset on, and its
                        // positions are of one chunk.
                        let weight = V::splat(proof, unsafe { *weights.add(n * CHUNK + position) });
                        for w in 0..WIDE {
                            sums[w][n] = add::<V, T>(sums[w][n], weight, rows[w]);
                        }
                    }
                }
            }
            for w in 0..WIDE {
                for n in 0..N {
                    // SAFETY: `out` is the slice above, [N][padded], and starts + 16 <= padded.
                    unsafe { sums[w][n].store(out.add(n * padded + starts[w])) };
                }
            }
            first += WIDE * LANES;
        }
    }
}

/// Sets query `index` of a batch of `len`, whose queries begin with these elements. It is the same for all registers, so
/// that its code is there once.
#[inline(always)]
fn set_query(queries: &mut [f32], len: usize, index: usize, q: &[f32], keys: KvElement) -> Option<()> {
    let factor = |q: f32| if keys == KvElement::F16 { short(q) } else { q };
    let blocks = queries.as_chunks_mut::<LANES>().0;
    let mut places = blocks.iter_mut().skip(index).step_by(len.max(1));
    let (blocks, rest) = q.as_chunks::<LANES>();
    for block in blocks {
        *places.next()? = block.map(factor);
    }
    if !rest.is_empty() {
        places.next()?.iter_mut().zip(rest).for_each(|(place, &q)| *place = factor(q));
    }
    Some(())
}

/// A weight as it is multiplied with values of this type.
#[inline(always)]
fn factor<V: Lanes>(proof: V::Proof, weight: V, values: KvElement) -> V {
    match values {
        // In this order NaN stays.
        KvElement::F16 => V::splat(proof, SHORT_MIN).max(weight).short(proof),
        _ => weight,
    }
}

/// `sum + a * stored`.
#[inline(always)]
fn add<V: Lanes, T: Stored>(sum: V, a: V, stored: V) -> V {
    if T::EXACT { sum.add_exact(a, stored) } else { sum.add(a.mul(stored)) }
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
