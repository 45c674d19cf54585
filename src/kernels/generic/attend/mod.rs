//! Attention of a few rows of one sequence over its blocks.
//!
//! The query heads of these rows that share a KV head are processed in batches that fit the registers. Each K column
//! and V row is loaded once per batch. A column of a K tile times an element of each query adds to 16 scores of each
//! query. A row of V times a weight of each query adds to sums over the positions, which stay in registers. The loops
//! are compiled for f32 and, where machines convert as they load, for f16 and bytes, which a single batch reads
//! directly. Otherwise a few tiles at a time are converted to f32 for all batches. Positions are cut into chunks with a
//! softmax each, which are added one after the other.

mod pack;
mod partial;
mod queries;
mod stored;
mod tiles;

use core::num::NonZeroUsize;
use core::ops::Range;

use half::f16;

use super::combine::soft_cap;
use super::lanes::{LANES, Lanes};
use crate::kv::{CHUNK, KvElement, KvSource, Positions, TILE_TOKENS, VisibleTiles};
use crate::mem::Tile;
use pack::{Pack, len_of_query};
pub use partial::Partial;
use queries::MAX_QUERIES;
pub use queries::{Queries, Scores, attend_chunks, attend_rows};
use stored::{Q8, Widened};
use tiles::{ChunkTiles, STAGED, Staged, TILES, staging_len};

/// Returns the number of f32 elements of scratch with which `V` processes all queries of a unit together, for at most
/// `rows` rows.
pub(in crate::kernels) fn attend_scratch<V: Lanes>(rows: usize, group: usize, head_dim: usize) -> Option<usize> {
    let count = rows.min(attend_rows(group)).checked_mul(group)?.min(V::TOGETHER);
    len_of_query(head_dim)?.checked_mul(count)?.checked_add(staging_len(head_dim)?)
}

/// See [`Level::attend`](crate::kernels::Level::attend).
#[inline(always)]
pub(in crate::kernels) fn attend<V: Lanes>(
    proof: V::Proof,
    queries: &Queries<'_>,
    chunks: Range<usize>,
    source: &dyn KvSource,
    out: &mut Tile<'_, f32>,
    scratch: &mut [f32],
) -> Option<()> {
    let (len, head_dim) = (queries.len()?, queries.head_dim);
    if len == 0 {
        return Some(());
    }
    if chunks.start == 0 {
        for row in 0..queries.rows {
            queries.partial().clear(out.row_mut(queries.row.checked_add(row)?)?)?;
        }
    }
    let seen = queries.seen_together(0..len)?;
    let (staging, scratch) = scratch.split_at_mut_checked(staging_len(head_dim)?)?;
    // With little scratch, fewer queries go together.
    let together = scratch.len().checked_div(len_of_query(head_dim)?)?.min(V::TOGETHER);
    for pack in shares(len, together) {
        let chunks = seen.chunks().skip(chunks.start).take(chunks.len());
        attend_pack::<V>(proof, queries, pack, chunks, source, out, [staging, scratch])?;
    }
    Some(())
}

/// Cuts `0..count` into ranges of at most `most`: as few as possible, with sizes as equal as possible.
#[inline(always)]
fn shares(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let shares = NonZeroUsize::new(count.div_ceil(most.max(1))).unwrap_or(NonZeroUsize::MIN);
    (0..shares.get()).map(move |share| share * count / shares..(share + 1) * count / shares)
}

/// Queries of a pack that are processed together in each tile.
#[derive(Clone, Debug)]
struct Batch {
    queries: Range<usize>,
    /// Number of positions of the current chunk that the queries read, or 0 if none of them sees a position in it.
    positions: usize,
}

/// Computes attention of some of the queries in some chunks.
#[inline(always)]
fn attend_pack<V: Lanes>(
    proof: V::Proof,
    queries: &Queries<'_>,
    members: Range<usize>,
    chunks: impl Iterator<Item = usize> + Clone,
    source: &dyn KvSource,
    out: &mut Tile<'_, f32>,
    [staging, scratch]: [&mut [f32]; 2],
) -> Option<()> {
    let (first, count, head_dim) = (members.start, members.len(), queries.head_dim);
    let seen = queries.seen_together(members)?;
    let elements @ [keys, _] = source.elements();
    let mut pack = Pack::<V>::new(proof, count, head_dim, scratch)?;
    let mut batches = heapless::Vec::<_, MAX_QUERIES>::new();
    for share in shares(count, V::QUERIES) {
        for query in share.clone() {
            pack.set_query(&share, query, queries.query(first + query)?, keys)?;
        }
        batches.push(Batch { queries: share, positions: 0 }).ok()?;
    }
    let mut tiles = ChunkTiles::new(head_dim, elements)?;
    let mut by_query = [Positions::NONE; MAX_QUERIES];
    let by_query = by_query.get_mut(..count)?;
    let mut coming = chunks.clone();
    let first_chunk = coming.next().unwrap_or_default();
    for chunk in chunks {
        // Only loops that read stored elements directly fetch these tiles. With several batches the computation takes
        // long enough anyway. The next unit is mostly the one of the next head. If another worker takes it, its keys
        // are fetched in vain.
        if V::LOADS_F16 && batches.len() == 1 {
            let (after, head) = coming.next().map_or((first_chunk, queries.head + 1), |chunk| (chunk, queries.head));
            let visible = VisibleTiles::new(seen.in_chunk(after));
            tiles.set_after(visible.positions(), |index| source.tile(after * TILES + visible.tile(index), head));
        }
        let seen = seen.in_chunk(chunk);
        if seen.is_empty() {
            continue;
        }
        let visible = VisibleTiles::new(seen);
        for (query, positions) in by_query.iter_mut().enumerate() {
            *positions = visible.visible(queries.seen(first + query)?.in_chunk(chunk));
        }
        let block = |index| chunk * TILES + visible.tile(index);
        tiles.set(visible.positions(), |index| source.tile(block(index), queries.head))?;
        let all = queries.visibility.is_all();
        for batch in &mut batches {
            batch.positions = positions_of(by_query.get(batch.queries.clone())?, all, visible.positions());
        }
        let seen = Seen { by_query, batches: &batches, head_dim, scale: queries.scores.scale, tiles: &tiles };
        scores_of(&mut pack, &seen, staging)?;
        if queries.scores.are_adjusted() {
            adjust_scores(&mut pack, &seen, queries, first, block)?;
        }
        softmax_of(&mut pack, &seen)?;
        values_of(&mut pack, &seen, staging)?;
        for query in 0..count {
            let (row, head) = queries.place(first + query)?;
            let row = out.row_mut(queries.row.checked_add(row)?)?;
            queries.partial().add(row, head, pack.partial(query)?)?;
        }
    }
    Some(())
}

/// Returns the number of positions of a chunk that a batch of queries reads: at most `positions`, and 0 if no query
/// sees any.
///
/// `seen` holds the positions that each query sees. `all` says that there is no window. Then the last query sees the
/// most: every position up to its own.
fn positions_of(seen: &[Positions], all: bool, positions: usize) -> usize {
    match seen.last() {
        Some(last) if all => last.end(),
        _ if seen.iter().all(|seen| seen.is_empty()) => 0,
        _ => positions,
    }
}

/// A chunk, and the parts of it that the queries of a pack see.
struct Seen<'t> {
    /// Positions that each query sees.
    by_query: &'t [Positions],
    batches: &'t [Batch],
    head_dim: usize,
    /// Factor of the scores.
    scale: f32,
    /// Tiles of the chunk that the pack reads. Positions are counted in these tiles.
    tiles: &'t ChunkTiles<'t>,
}

impl<'t> Seen<'t> {
    /// Returns the batches that see a position of the chunk.
    fn seeing(&self) -> impl Iterator<Item = &'t Batch> {
        self.batches.iter().filter(|batch| batch.positions > 0)
    }

    /// Returns the batch that reads stored elements directly, if it is the only batch and such loads are cheap.
    fn only_batch<V: Lanes>(&self) -> Option<&'t Batch> {
        let [batch] = self.batches else { return None };
        (V::LOADS_F16 && batch.positions > 0).then_some(batch)
    }

    /// Returns the batch that converts tiles of f16 for all batches while it computes, and the other batches.
    ///
    /// It is always the last batch of the pack, which is large enough. If the last batch sees nothing, there is little
    /// to do, and no batch is returned.
    fn staging_batch<V: Lanes>(&self, element: KvElement) -> Option<(&'t Batch, &'t [Batch])> {
        let (last, others) = self.batches.split_last()?;
        (V::LOADS_F16 && element == KvElement::F16 && last.positions > 0).then_some((last, others))
    }
}

/// Computes the scores of a chunk.
#[inline(always)]
fn scores_of<V: Lanes>(pack: &mut Pack<'_, V>, seen: &Seen<'_>, staging: &mut [f32]) -> Option<()> {
    let (tiles, scale) = (seen.tiles, seen.scale);
    let [element, _] = tiles.elements();
    if let Some(batch) = seen.only_batch::<V>() {
        let k = tiles.keys(0, batch.positions)?;
        match element {
            KvElement::F16 => {
                pack.scores::<f16>(&batch.queries, &k, scale);
                return Some(());
            }
            KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } && batch.queries.len() <= 4 => {
                pack.scores::<Q8>(&batch.queries, &k, scale);
                return Some(());
            }
            _ => {}
        }
    }
    let step = if element == KvElement::F32 { CHUNK } else { STAGED * TILE_TOKENS };
    for start in (0..tiles.positions()).step_by(step) {
        let mut k = tiles.keys(start, step)?;
        let staged;
        let mut batches = seen.batches;
        if element != KvElement::F32 {
            if let Some((last, others)) = seen.staging_batch::<V>(element) {
                pack.scores_and_stage(&last.queries, &k, scale, staging);
                batches = others;
            } else {
                tiles.convert_keys::<V>(pack.proof(), &k, staging)?;
            }
            staged = Staged::new(staging, seen.head_dim * TILE_TOKENS)?;
            k = staged.run(&k);
        }
        for batch in batches {
            match k.before(batch.positions) {
                Some(k) if is_widened::<V>(element) => pack.scores::<Widened>(&batch.queries, &k, scale),
                Some(k) => pack.scores::<f32>(&batch.queries, &k, scale),
                None => {}
            }
        }
    }
    Some(())
}

/// Returns whether it is faster to compile the loops for tiles that were converted from f16.
#[inline(always)]
fn is_widened<V: Lanes>(element: KvElement) -> bool {
    V::FUSED && element == KvElement::F16
}

/// Caps the scores of a chunk and adds slopes times distances. Query 0 of the pack is query `first`, and `block(i)` is
/// the block of the i-th tile.
#[inline(always)]
fn adjust_scores<V: Lanes>(
    pack: &mut Pack<'_, V>,
    seen: &Seen<'_>,
    queries: &Queries<'_>,
    first: usize,
    block: impl Fn(usize) -> usize,
) -> Option<()> {
    let Scores { soft_cap: cap, slopes, .. } = queries.scores;
    for batch in seen.seeing() {
        for query in batch.queries.clone() {
            let index = first + query;
            let slope = slopes.get(queries.place(index)?.1).copied().unwrap_or(0.0);
            let position = queries.position(index)?;
            let tiles = pack.scores_mut(query)?.as_chunks_mut::<TILE_TOKENS>().0;
            for (tile, scores) in tiles.iter_mut().take(batch.positions.div_ceil(TILE_TOKENS)).enumerate() {
                if cap > 0.0 {
                    soft_cap(cap, scores);
                }
                let start = (block(tile) * TILE_TOKENS).wrapping_sub(position) as i32;
                for (slot, score) in scores.iter_mut().enumerate() {
                    let distance = start.wrapping_add(slot as i32);
                    *score += slope * distance.min(distance.wrapping_neg()) as f32;
                }
            }
        }
    }
    Some(())
}

/// Computes the softmax of a chunk.
#[inline(always)]
fn softmax_of<V: Lanes>(pack: &mut Pack<'_, V>, seen: &Seen<'_>) -> Option<()> {
    pack.see_nothing();
    let [_, values] = seen.tiles.elements();
    for batch in seen.seeing() {
        let by_query = seen.by_query.get(batch.queries.clone())?;
        for (query, &visible) in batch.queries.clone().zip(by_query) {
            pack.max(query, visible);
        }
        for (query, &visible) in batch.queries.clone().zip(by_query) {
            pack.softmax(query, visible, batch.positions, values);
        }
    }
    Some(())
}

/// Computes the sums of the values of a chunk times their weights.
#[inline(always)]
fn values_of<V: Lanes>(pack: &mut Pack<'_, V>, seen: &Seen<'_>, staging: &mut [f32]) -> Option<()> {
    let tiles = seen.tiles;
    let [_, element] = tiles.elements();
    let whole = seen.head_dim.is_multiple_of(LANES);
    if let Some(batch) = seen.only_batch::<V>().filter(|_| whole) {
        let v = tiles.values(0, batch.positions)?;
        match element {
            KvElement::F16 => {
                pack.values::<f16>(&batch.queries, &v);
                return Some(());
            }
            KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } && batch.queries.len() <= 4 => {
                pack.values::<Q8>(&batch.queries, &v);
                return Some(());
            }
            _ => {}
        }
    }
    let direct = element == KvElement::F32 && whole;
    let step = if direct { CHUNK } else { STAGED * TILE_TOKENS };
    for start in (0..tiles.positions()).step_by(step) {
        let mut v = tiles.values(start, step)?;
        let staged;
        let mut batches = seen.batches;
        if !direct {
            if let Some((last, others)) = seen.staging_batch::<V>(element).filter(|_| whole) {
                pack.values_and_stage(&last.queries, &v, staging);
                batches = others;
            } else {
                tiles.convert_values::<V>(pack.proof(), &v, staging)?;
            }
            staged = Staged::new(staging, seen.head_dim.next_multiple_of(LANES) * TILE_TOKENS)?;
            v = staged.run(&v);
        }
        for batch in batches {
            match v.before(batch.positions) {
                Some(v) if is_widened::<V>(element) => pack.values::<Widened>(&batch.queries, &v),
                Some(v) => pack.values::<f32>(&batch.queries, &v),
                None => {}
            }
        }
    }
    Some(())
}
