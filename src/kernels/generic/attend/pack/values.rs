//! Products of values with the weights of queries.
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

impl<V: Lanes> Pack<'_, V> {
    /// Adds the values of a run, each times its weight, in increasing order of the position. The first run of a chunk
    /// begins the sums, and the others continue them. Rows are whole registers. There are at most 4 queries if values
    /// have scales.
    #[inline(always)]
    pub(in crate::kernels::generic::attend) fn values<T: Stored>(&mut self, batch: &Range<usize>, v: &Run<'_>) {
        match batch.len() {
            1 if V::QUERIES > 2 => self.values_of::<T, 1, 4, false>(batch, v, &mut []),
            1 => self.values_of::<T, 1, 2, false>(batch, v, &mut []),
            2 if V::QUERIES > 4 => self.values_of::<T, 2, 4, false>(batch, v, &mut []),
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

    /// Does the work of [`Pack::values`] for values in f16, and also stores the converted values,
    /// `[tiles][16][head_dim]`: see [`Pack::scores_and_stage`].
    #[inline(always)]
    pub(in crate::kernels::generic::attend) fn values_and_stage(
        &mut self,
        batch: &Range<usize>,
        v: &Run<'_>,
        out: &mut [f32],
    ) {
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

    /// Does the work of [`Pack::values`] for `N` queries, with `WIDE` times 16 elements of the heads at a time.
    #[inline(always)]
    fn values_of<T: Stored, const N: usize, const WIDE: usize, const STAGE: bool>(
        &mut self,
        batch: &Range<usize>,
        v: &Run<'_>,
        staging: &mut [f32],
    ) {
        let (proof, padded) = (self.proof, self.padded());
        let Some((weights, out)) = self.weights_of::<N>(batch.start) else { return };
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
        // Number of bytes that are fetched with each 16 elements of a row.
        let ahead = v.after_step().checked_div(padded / LANES).filter(|_| asks_for_next::<T, STAGE>()).unwrap_or(0);
        let (ahead_of_tile, after_bytes) = (WIDE * ahead * TILE_TOKENS, (v.after_step() * TILE_TOKENS).max(1));
        // Number of bytes that were fetched.
        let mut asked = 0;
        let mut first = 0;
        while first < padded {
            let mut starts = [0; WIDE];
            for w in 0..WIDE {
                // Past the end, the last 16 elements are taken again and give the same sums.
                starts[w] = (first + w * LANES).min(padded - LANES);
            }
            // SAFETY: `out` is the slice above, [N][padded], and starts + 16 <= padded.
            let mut sums = unsafe { begin_sums::<V, N, WIDE>(proof, v.offset() > 0, out, padded, &starts) };
            for tile in 0..v.count() {
                let after = v.after(asked / after_bytes).wrapping_add(asked % after_bytes);
                asked += ahead_of_tile;
                let rows_of = v.tile(tile);
                let weights = weights.wrapping_add(tile * TILE_TOKENS);
                // SAFETY: tiles are as large as V tiles of `T`, as compared above, which have the scales of all blocks
                // behind `codes` bytes; starts < padded.
                let scales_of = unsafe { scales_of_row::<V, T, WIDE>(proof, rows_of, codes, &starts) };
                for position in 0..(v.positions() - tile * TILE_TOKENS).min(TILE_TOKENS) {
                    for line in (0..WIDE * ahead).step_by(LINE) {
                        V::prefetch_later(after.wrapping_add(position * WIDE * ahead + line));
                    }
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
                // SAFETY: `out` is the slice above, [N][padded], and starts + 16 <= padded.
                unsafe { store_sums(sums[w], padded, out.add(starts[w])) };
            }
            first += WIDE * LANES;
        }
    }

    /// Returns the weights of a batch of `N` queries from query `first` on, `[N][CHUNK]`, and the sums of their values,
    /// `[N][padded]`.
    #[inline(always)]
    fn weights_of<const N: usize>(&mut self, first: usize) -> Option<(&[f32], &mut [f32])> {
        let padded = self.padded();
        let weights = self.scores.get(first * CHUNK..)?.get(..N * CHUNK)?;
        let sums = self.values.get_mut(first * padded..)?.get_mut(..N * padded)?;
        Some((weights, sums))
    }
}

/// Returns the scales of the 16 tokens of a tile, for the block of elements that each start is in, or 1 if the type has
/// no scales.
///
/// # Safety
/// `tile` has `codes` bytes of codes, and behind them the scales of all blocks up to those of the starts.
#[inline(always)]
unsafe fn scales_of_row<V: Lanes, T: Stored, const WIDE: usize>(
    proof: V::Proof,
    tile: *const u8,
    codes: usize,
    starts: &[usize; WIDE],
) -> [[f32; LANES]; WIDE] {
    let mut scales_of = [[1.0; LANES]; WIDE];
    for w in 0..WIDE {
        if T::SCALED {
            // SAFETY: the caller promises scales behind the codes; the array has room for 16.
            unsafe { scales::<V, T>(proof, tile, codes, starts[w]).store(scales_of[w].as_mut_ptr()) };
        }
    }
    scales_of
}

/// Returns the sums of `N` queries: 0, or the sums in `out` if they go on.
///
/// # Safety
/// `out` is `[N][padded]`, and every start + 16 <= padded.
#[inline(always)]
unsafe fn begin_sums<V: Lanes, const N: usize, const WIDE: usize>(
    proof: V::Proof,
    go_on: bool,
    out: *const f32,
    padded: usize,
    starts: &[usize; WIDE],
) -> [[V; N]; WIDE] {
    let mut sums = [[V::splat(proof, 0.0); N]; WIDE];
    if go_on {
        for w in 0..WIDE {
            for n in 0..N {
                // SAFETY: the caller promises that `out` is [N][padded], and starts + 16 <= padded.
                sums[w][n] = unsafe { V::load(proof, out.add(n * padded + starts[w])) };
            }
        }
    }
    sums
}

/// Stores 16 sums for each of `N` queries.
///
/// # Safety
/// At `place` there is room for 16 sums, and at every further multiple of `padded` for the 16 sums of the next query.
#[inline(always)]
unsafe fn store_sums<V: Lanes, const N: usize>(sums: [V; N], padded: usize, place: *mut f32) {
    for n in 0..N {
        // SAFETY: the caller promises room for 16 sums of each query there.
        unsafe { sums[n].store(place.add(n * padded)) };
    }
}
