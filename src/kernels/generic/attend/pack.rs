//! Queries that are processed together in all chunks. The loops of attention use raw pointers. Sizes are checked where
//! a [`Pack`] and a run of tiles are made.
// Loops index fixed arrays of constant length, so no bounds check remains. Iterators in their place are not always
// inlined, and then nothing stays in registers.
#![allow(clippy::indexing_slicing, clippy::needless_range_loop)]

mod scores;
mod values;

use core::ops::Range;

use super::stored::Stored;
use crate::kernels::generic::lanes::{LANES, Lanes};
use crate::kv::{CHUNK, KvElement, Positions};

/// Number of registers of 16 exponentials that are computed side by side. One after the other, each would wait for the
/// one before.
const EXPS: usize = 4;

/// Queries that are processed together in all chunks, and their results in the current chunk.
pub(super) struct Pack<'s, V: Lanes> {
    proof: V::Proof,
    head_dim: usize,
    /// Scores, later weights: `[count][CHUNK]`.
    scores: &'s mut [f32],
    /// Queries of each batch, one batch after the other: `[head_dim / 16, rounded up][batch][16]`.
    queries: &'s mut [f32],
    /// Largest score and sum of the weights of each query: `[count]`.
    peaks: &'s mut [[f32; 2]],
    /// Sums of values times weights: `[count][head_dim, rounded up]`.
    values: &'s mut [f32],
}

/// Returns the number of f32 elements of a [`Pack`] per query.
pub(super) fn len_of_query(head_dim: usize) -> Option<usize> {
    head_dim.checked_next_multiple_of(LANES)?.checked_mul(2)?.checked_add(CHUNK + 2)
}

impl<'s, V: Lanes> Pack<'s, V> {
    /// Cuts the scratch into the parts of a pack. Returns `None` if it is too small.
    #[inline(always)]
    pub(super) fn new(proof: V::Proof, count: usize, head_dim: usize, scratch: &'s mut [f32]) -> Option<Self> {
        const { assert!(matches!(V::QUERIES, 2 | 4 | 8)) };
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

    /// Returns the proof that the machine has the instructions.
    #[inline(always)]
    pub(super) fn proof(&self) -> V::Proof {
        self.proof
    }

    /// Returns the number of elements of a head, rounded up to a multiple of 16.
    #[inline(always)]
    fn padded(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    /// Sets a query of a batch: `q` is `[head_dim]`, and is prepared for keys of this type.
    #[inline(always)]
    pub(super) fn set_query(&mut self, batch: &Range<usize>, query: usize, q: &[f32], keys: KvElement) -> Option<()> {
        let index = query.checked_sub(batch.start)?;
        let mut place = batch.start.checked_mul(self.padded())?.checked_add(index.checked_mul(LANES)?)?;
        let step = batch.len().checked_mul(LANES)?;
        let (blocks, rest) = q.as_chunks::<LANES>();
        for block in blocks {
            self.set_block(place, block, keys)?;
            place = place.checked_add(step)?;
        }
        if !rest.is_empty() {
            let mut block = [0.0; LANES];
            block.iter_mut().zip(rest).for_each(|(place, &q)| *place = q);
            self.set_block(place, &block, keys)?;
        }
        Some(())
    }

    /// Sets the 16 elements of a query that begin at `place`.
    #[inline(always)]
    fn set_block(&mut self, place: usize, block: &[f32; LANES], keys: KvElement) -> Option<()> {
        let place = self.queries.get_mut(place..)?.first_chunk_mut::<LANES>()?;
        // SAFETY: the block and its place are arrays of 16 elements.
        unsafe { query_factor(self.proof, V::load(self.proof, block.as_ptr()), keys).store(place.as_mut_ptr()) };
        Some(())
    }

    /// Returns the result of a query in the current chunk: its largest score, the sum of its weights, which is 0 if it
    /// sees nothing, and the sums of the values times their weights, `[head_dim]`.
    #[inline(always)]
    pub(super) fn partial(&self, query: usize) -> Option<(&[f32; 2], &[f32])> {
        let start = query.checked_mul(self.padded())?;
        Some((self.peaks.get(query)?, self.values.get(start..start.checked_add(self.head_dim)?)?))
    }

    /// Resets the largest scores and the sums of weights, before they are computed for a chunk.
    #[inline(always)]
    pub(super) fn see_nothing(&mut self) {
        self.peaks.fill([f32::NEG_INFINITY, 0.0]);
    }

    /// Returns the scores of a query with the positions of the current chunk: `[CHUNK]`.
    #[inline(always)]
    pub(super) fn scores_mut(&mut self, query: usize) -> Option<&mut [f32; CHUNK]> {
        self.scores.as_chunks_mut::<CHUNK>().0.get_mut(query)
    }

    /// Computes the largest visible score of a query.
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

    /// Turns the scores of a query into weights: exponentials relative to the largest score, which is known. The
    /// weights of invisible positions among the first `positions` are 0, which adds nothing to sums that start at +0.
    /// The weights are prepared for values of this type.
    #[inline(always)]
    pub(super) fn softmax(&mut self, query: usize, visible: Positions, positions: usize, values: KvElement) {
        let proof = self.proof;
        let scores = self.scores.as_chunks_mut::<CHUNK>().0.get_mut(query);
        let (Some(scores), Some([max, sum])) = (scores, self.peaks.get_mut(query)) else {
            return;
        };
        let (scores, max) = (scores.as_mut_ptr(), V::splat(proof, *max));
        let groups = positions.min(CHUNK).div_ceil(LANES);
        let (mut sums, mut group) = (V::splat(proof, 0.0), 0);
        // Lanes that are arrays do enough independent work without this.
        if V::QUERIES > 2 && visible.is_prefix() {
            // SAFETY: a query has CHUNK scores, and these are `groups` times 16 at most.
            sums = unsafe {
                if values.is_f16() {
                    weights_of_first::<V, true>(proof, scores, max, groups, visible.end())
                } else {
                    weights_of_first::<V, false>(proof, scores, max, groups, visible.end())
                }
            };
            group = groups;
        }
        while group < groups {
            // SAFETY: 16 * group < CHUNK, the length of the scores of a query.
            let place = unsafe { scores.add(group * LANES) };
            // SAFETY: CHUNK is a multiple of 16, so 16 scores follow `place`.
            let [weights] = V::weights(proof, [unsafe { V::load(proof, place) }.sub(max)]);
            let weights = select(factor(proof, weights, values), visible, group * LANES, V::splat(proof, 0.0));
            // SAFETY: CHUNK is a multiple of 16, so 16 scores follow `place`.
            unsafe { weights.store(place) };
            sums = sums.add(weights);
            group += 1;
        }
        *sum = sums.tree();
    }
}

/// Turns the first `end` scores into weights, and the other scores in the first `groups` groups of 16 into 0. Returns
/// the sums by lane. With `SHORT`, weights are rounded as for values in f16. `SHORT` is a constant because behind a
/// branch the compiler computes one exponential after the other.
///
/// # Safety
/// There are [`CHUNK`] scores, and no more groups.
#[inline(always)]
unsafe fn weights_of_first<V: Lanes, const SHORT: bool>(
    proof: V::Proof,
    scores: *mut f32,
    max: V,
    groups: usize,
    end: usize,
) -> V {
    const { assert!(CHUNK.is_multiple_of(EXPS * LANES)) };
    let zero = V::splat(proof, 0.0);
    let mut sums = zero;
    for first in (0..groups * LANES).step_by(EXPS * LANES) {
        let mut weights = [max; EXPS];
        for e in 0..EXPS {
            // SAFETY: `first` is below CHUNK, and both are multiples of 16 * EXPS; the caller promises CHUNK scores.
            weights[e] = unsafe { V::load(proof, scores.add(first + e * LANES)) }.sub(max);
        }
        let mut weights = V::weights(proof, weights);
        for e in 0..EXPS {
            if SHORT {
                weights[e] = weights[e].short(proof);
            }
            weights[e] = weights[e].first(end.saturating_sub(first + e * LANES), zero);
        }
        for e in 0..EXPS {
            // SAFETY: `first` is below CHUNK, and both are multiples of 16 * EXPS; the caller promises CHUNK scores.
            unsafe { weights[e].store(scores.add(first + e * LANES)) };
            sums = sums.add(weights[e]);
        }
    }
    sums
}

/// Returns elements of a query as the factors of keys of this type.
#[inline(always)]
fn query_factor<V: Lanes>(proof: V::Proof, q: V, keys: KvElement) -> V {
    if keys.is_f16() { q.short_of_any(proof) } else { q.settle(proof) }
}

/// Returns weights as the factors of values of this type.
#[inline(always)]
fn factor<V: Lanes>(proof: V::Proof, weight: V, values: KvElement) -> V {
    if values.is_f16() { weight.short(proof) } else { weight }
}

/// Returns whether a loop fetches the tiles that come next. A loop that converts tiles for other batches does not,
/// because those batches compute long enough meanwhile.
#[inline(always)]
const fn asks_for_next<T: Stored, const STAGE: bool>() -> bool {
    T::PREFETCHED && !STAGE
}

/// Returns `sum + a * stored`.
#[inline(always)]
fn add<V: Lanes, T: Stored>(sum: V, a: V, stored: V) -> V {
    if T::EXACT { sum.add_exact(a, stored) } else { sum.add(a.mul(stored)) }
}

/// Returns the lanes of `values` at visible positions, and the lanes of `others` elsewhere. `start` is the position of
/// the first lane.
#[inline(always)]
fn select<V: Lanes>(values: V, visible: Positions, start: usize, others: V) -> V {
    let [first, second] = visible.ranges().map(|range| range.map(|end| end.saturating_sub(start)));
    let mut selected = values.first(second[1], others);
    if second[0] > 0 {
        selected = others.first(first[0], values.first(first[1], others.first(second[0], selected)));
    }
    selected
}
