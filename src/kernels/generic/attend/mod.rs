//! Attention of a few rows of one sequence over its blocks.
//!
//! The query heads of these rows that share a KV head are taken in batches that fit the registers. Every
//! K column and V row is loaded once per batch: a column of a K tile times a number of each query is 16
//! scores of each, a row of V times a weight of each query goes to sums over the positions that stay in
//! registers. Where there are several batches, a few tiles at a time are converted to f32 for all of them.
//! Positions are cut into chunks with a softmax each, merged at the end.

mod pack;
mod tiles;
mod window;

use core::num::NonZeroUsize;
use core::ops::Range;

use half::f16;

use super::combine::soft_cap;
use super::element::{KvElement, KvTile};
use super::lanes::{LANES, Lanes};
use crate::mem::Tile;
use pack::Pack;
use tiles::{ChunkTiles, Q4, Q8, Staged, Stored, staging_len};
use window::VisibleTiles;
pub use window::{Positions, Visibility, Window};

/// Tokens per block: the width of a K tile.
pub const TILE_TOKENS: usize = 16;

/// Absolute positions per chunk. Each chunk has its own maximum and sums, so the result does not depend on
/// who computes which chunk.
pub const CHUNK: usize = 256;

/// Tiles per chunk.
const TILES: usize = CHUNK / TILE_TOKENS;

/// Tiles that are converted at a time: few, so that they stay in the first-level cache.
const STAGED: usize = 2;

/// Multiplications of a unit of attention at most, where a row alone has fewer.
const UNIT: usize = 1 << 23;

/// Queries of a unit, where [`UNIT`] lets them be that many: enough to make conversions cheap.
const MAX_QUERIES: usize = 32;

/// Queries of a unit wherever rows have that many, so that they share what is read.
const MIN_QUERIES: usize = 8;

/// Rows of one sequence that attention takes at a time, for at most `context` positions.
pub fn attend_rows(group: usize, head_dim: usize, context: usize) -> usize {
    let of_query = head_dim.saturating_mul(2).saturating_mul(context).max(1);
    let queries = (UNIT / of_query).clamp(MIN_QUERIES, MAX_QUERIES);
    queries.checked_div(group).unwrap_or(0).max(1)
}

/// Where attention finds the tiles of a layer of one sequence.
pub trait KvSource {
    /// The tile of a KV head in block `index` (positions `16 * index ..`); `None` where there is none. Only blocks
    /// with visible positions are asked for.
    fn tile(&self, index: usize, head: usize) -> Option<KvTile<'_>>;
}

/// f32 elements of scratch with which `V` takes all queries of a unit together, with at most `rows` rows and
/// `context` positions.
pub(in crate::kernels) fn attend_scratch<V: Lanes>(
    rows: usize,
    group: usize,
    head_dim: usize,
    context: usize,
) -> Option<usize> {
    let chunks = context.div_ceil(CHUNK).max(1);
    // Units have more rows where the context is shorter, down to the least.
    let varying = UNIT / (2 * MIN_QUERIES * CHUNK);
    let mut max = 0;
    for chunks in (1..chunks).take(varying).chain([chunks]) {
        let shortest = (chunks - 1).checked_mul(CHUNK)?.checked_add(1)?;
        let rows = attend_rows(group, head_dim, shortest).min(rows.max(1));
        let count = rows.checked_mul(group)?.min(V::TOGETHER);
        let staging = staging::<V>(count, head_dim)?;
        max = max.max(Pack::len_of_query(head_dim, chunks)?.checked_mul(count)?.checked_add(staging)?);
    }
    Some(max)
}

/// The query heads of successive rows of one sequence that share a KV head.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'q> {
    /// The heads of a row, `[group, head_dim]`, are at the start of every `stride` elements.
    pub q: &'q [f32],
    /// Elements from one row to the next.
    pub stride: usize,
    /// The first of the rows in the output.
    pub row: usize,
    /// How many rows.
    pub rows: usize,
    /// Heads per row.
    pub group: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// The KV head.
    pub head: usize,
    /// The absolute position of the first row; the others follow.
    pub position: usize,
    /// Which positions up to its own a row sees.
    pub visibility: Visibility,
    /// What becomes of products with keys.
    pub scores: Scores<'q>,
}

/// What becomes of the product of a query and a key: its score.
#[derive(Clone, Copy, Debug)]
pub struct Scores<'q> {
    /// What products are multiplied by.
    pub scale: f32,
    /// Scores s become `soft_cap * tanh(s / soft_cap)`; 0 leaves them as they are.
    pub soft_cap: f32,
    /// The slope of each head of the group, `[group]`: this times the distance from the query, at most 0, is added to
    /// scores. Empty where nothing is. (Press et al., "Train Short, Test Long", 2021.)
    pub slopes: &'q [f32],
}

impl Scores<'_> {
    /// Products times `scale`, and nothing else.
    pub const fn scaled(scale: f32) -> Self {
        Self { scale, soft_cap: 0.0, slopes: &[] }
    }

    /// Whether there is more than the scale.
    fn are_adjusted(&self) -> bool {
        self.soft_cap > 0.0 || !self.slopes.is_empty()
    }
}

impl<'q> Queries<'q> {
    /// How many there are.
    fn len(&self) -> Option<usize> {
        self.rows.checked_mul(self.group)
    }

    /// Query `index`, numbered row by row.
    fn query(&self, index: usize) -> Option<&'q [f32]> {
        let row = index.checked_div(self.group)?;
        let start =
            row.checked_mul(self.stride)?.checked_add((index - row * self.group).checked_mul(self.head_dim)?)?;
        self.q.get(start..start.checked_add(self.head_dim)?)
    }

    /// What query `index` sees.
    fn seen(&self, index: usize) -> Option<Positions> {
        Some(self.visibility.at(self.position(index)?))
    }

    /// What the queries of a range see together.
    fn seen_together(&self, range: Range<usize>) -> Option<Positions> {
        let last = self.position(range.end.checked_sub(1)?)?;
        // Positions have successors.
        last.checked_add(1)?;
        Some(self.visibility.between(self.position(range.start)?, last))
    }

    /// The position of query `index`.
    fn position(&self, index: usize) -> Option<usize> {
        self.position.checked_add(index.checked_div(self.group)?)
    }
}

/// See [`Level::attend`](crate::kernels::Level::attend).
#[inline(always)]
pub(in crate::kernels) fn attend<V: Lanes>(
    queries: &Queries<'_>,
    source: &dyn KvSource,
    out: &mut Tile<'_, f32>,
    scratch: &mut [f32],
) -> Option<()> {
    let len = queries.len()?;
    let mut first = 0;
    while first < len {
        let chunks = queries.seen_together(first..len)?.chunks().count();
        let of_query = Pack::len_of_query(queries.head_dim, chunks)?;
        // With little scratch fewer go together; without staging they are a batch.
        let staged =
            scratch.len().saturating_sub(staging::<V>(V::TOGETHER, queries.head_dim)?).checked_div(of_query)?;
        let direct = scratch.len().checked_div(of_query)?.min(V::QUERIES);
        let fitting = staged.min(V::TOGETHER).max(direct);
        let packs = (len - first).div_ceil(fitting.max(1));
        let end = first.checked_add((len - first).div_ceil(packs.max(1)))?;
        attend_pack::<V>(queries, first..end, source, out, scratch)?;
        first = end;
    }
    Some(())
}

/// f32 elements of converted tiles that are kept for a pack of `count` queries. A single batch needs none; heads
/// that are not a multiple of 16 have sums that overlap, which cannot go on from one tile to the next.
fn staging<V: Lanes>(count: usize, head_dim: usize) -> Option<usize> {
    if count > V::QUERIES && head_dim.is_multiple_of(LANES) { staging_len(head_dim) } else { Some(0) }
}

/// Queries of a pack that go through a tile together.
#[derive(Clone, Debug)]
struct Batch {
    queries: Range<usize>,
    /// Up to which position of the chunk at hand they read; 0 if none of them sees anything of it.
    positions: usize,
}

/// Cuts queries into batches that fit the registers, as equal as possible.
#[inline(always)]
fn batches<V: Lanes>(count: usize) -> impl Iterator<Item = Batch> {
    let batches = NonZeroUsize::new(count.div_ceil(V::QUERIES)).unwrap_or(NonZeroUsize::MIN);
    (0..batches.get()).map(move |batch| {
        let queries = batch * count / batches..(batch + 1) * count / batches;
        Batch { queries, positions: 0 }
    })
}

/// Attention of some of the queries.
#[inline(always)]
fn attend_pack<V: Lanes>(
    queries: &Queries<'_>,
    pack: Range<usize>,
    source: &dyn KvSource,
    out: &mut Tile<'_, f32>,
    scratch: &mut [f32],
) -> Option<()> {
    let (first, count, head_dim) = (pack.start, pack.len(), queries.head_dim);
    let seen = queries.seen_together(pack)?;
    let staging = staging::<V>(count, head_dim)?;
    let (staging, scratch) = scratch.split_at_mut_checked(staging)?;
    let mut pack = Pack::new(count, head_dim, seen.chunks().count(), scratch)?;
    let mut all_batches = heapless::Vec::<_, MAX_QUERIES>::new();
    for batch in batches::<V>(count) {
        for query in batch.queries.clone() {
            pack.set_query(&batch.queries, query, queries.query(first + query)?)?;
        }
        all_batches.push(batch).ok()?;
    }
    let mut tiles = ChunkTiles::new(head_dim);
    let mut by_query = [Positions::NONE; MAX_QUERIES];
    let by_query = by_query.get_mut(..count)?;
    for (place, chunk) in seen.chunks().enumerate() {
        let visible = VisibleTiles::new(seen.in_chunk(chunk));
        for (query, positions) in by_query.iter_mut().enumerate() {
            *positions = visible.visible(queries.seen(first + query)?.in_chunk(chunk));
        }
        let tile = |index| source.tile(chunk * TILES + visible.tile(index), queries.head);
        tiles.set(visible.positions(), tile)?;
        let all = queries.visibility.is_all();
        for batch in &mut all_batches {
            batch.positions = positions_of(by_query.get(batch.queries.clone())?, all, visible.positions());
        }
        let seen = Seen { by_query, batches: &all_batches, scale: queries.scores.scale, tiles: &tiles };
        let [k, v] = seen.tiles.elements();
        match k {
            KvElement::F32 if const { KvElement::F32.is_built() } => scores_of::<V, f32>(&mut pack, &seen, staging)?,
            KvElement::F16 => scores_of::<V, f16>(&mut pack, &seen, staging)?,
            KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } => scores_of::<V, Q8>(&mut pack, &seen, staging)?,
            KvElement::Q4_0 if const { KvElement::Q4_0.is_built() } => scores_of::<V, Q4>(&mut pack, &seen, staging)?,
            _ => return None,
        }
        if queries.scores.are_adjusted() {
            adjust_scores(&mut pack, &seen, queries, first, |tile| chunk * TILES + visible.tile(tile))?;
        }
        softmax_of::<V>(&mut pack, place, &seen)?;
        match v {
            KvElement::F32 if const { KvElement::F32.is_built() } => {
                values_of::<V, f32>(&mut pack, place, &seen, staging)?
            }
            KvElement::F16 => values_of::<V, f16>(&mut pack, place, &seen, staging)?,
            KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } => {
                values_of::<V, Q8>(&mut pack, place, &seen, staging)?
            }
            KvElement::Q4_0 if const { KvElement::Q4_0.is_built() } => {
                values_of::<V, Q4>(&mut pack, place, &seen, staging)?
            }
            _ => return None,
        }
    }
    for query in 0..count {
        let index = first + query;
        let (row, head) = (index.checked_div(queries.group)?, index.checked_rem(queries.group)?);
        let out = out.row_mut(queries.row.checked_add(row)?)?;
        let start = head.checked_mul(head_dim)?;
        let out = out.get_mut(start..start.checked_add(head_dim)?)?;
        merge::<V>(pack.partials(query), out);
    }
    Some(())
}

/// Up to which of the `positions` of a chunk's tiles queries read that see these; 0 if they see nothing. Without a
/// window the last query sees the most, and `all` that comes before.
fn positions_of(seen: &[Positions], all: bool, positions: usize) -> usize {
    match seen.last() {
        Some(last) if all => last.end(),
        _ if seen.iter().all(|seen| seen.is_empty()) => 0,
        _ => positions,
    }
}

/// A chunk, as a pack sees it.
struct Seen<'t> {
    /// What each query sees.
    by_query: &'t [Positions],
    batches: &'t [Batch],
    /// What scores are multiplied by.
    scale: f32,
    /// What the pack reads of the chunk; positions are counted in these.
    tiles: &'t ChunkTiles<'t>,
}

impl<'t> Seen<'t> {
    /// The batch that converts tiles for all batches, and the others; `None` where each of them reads what is stored.
    ///
    /// It has to be the very last one, which is large enough; where that sees nothing there is little to do.
    fn staging_batch<T: Stored>(&self, staging: &[f32]) -> Option<(&'t Batch, &'t [Batch])> {
        let (last, others) = self.batches.split_last()?;
        (!staging.is_empty() && T::CONVERTED && last.positions > 0).then_some((last, others))
    }

    /// The batches that see something.
    fn seeing(&self) -> impl Iterator<Item = &'t Batch> {
        self.batches.iter().filter(|batch| batch.positions > 0)
    }
}

/// The scores of a chunk.
#[inline(always)]
fn scores_of<V: Lanes, T: Stored>(pack: &mut Pack<'_>, seen: &Seen<'_>, staging: &mut [f32]) -> Option<()> {
    let (tiles, scale) = (seen.tiles, seen.scale);
    let Some((last, others)) = seen.staging_batch::<T>(staging) else {
        for batch in seen.seeing() {
            pack.scores::<V, T>(&batch.queries, &tiles.keys(0..batch.positions)?, scale);
        }
        return Some(());
    };
    let positions = tiles.positions();
    for start in (0..positions).step_by(STAGED * TILE_TOKENS) {
        let end = positions.min(start + STAGED * TILE_TOKENS);
        pack.scores_and_stage::<V, T>(&last.queries, &tiles.keys(start..end)?, scale, staging);
        let staged = Staged::new(staging, tiles.head_dim())?;
        for batch in others {
            if let Some(k) = staged.run(start..end.min(batch.positions)) {
                pack.scores::<V, f32>(&batch.queries, &k, scale);
            }
        }
    }
    Some(())
}

/// Caps the scores of a chunk and adds what belongs to the distance. Query 0 of the pack is query `first`, and
/// `block(i)` is the block of the i-th tile.
#[inline(always)]
fn adjust_scores(
    pack: &mut Pack<'_>,
    seen: &Seen<'_>,
    queries: &Queries<'_>,
    first: usize,
    block: impl Fn(usize) -> usize,
) -> Option<()> {
    let Scores { soft_cap: cap, slopes, .. } = queries.scores;
    for batch in seen.seeing() {
        for query in batch.queries.clone() {
            let index = first + query;
            let slope = slopes.get(index.checked_rem(queries.group)?).copied().unwrap_or(0.0);
            let position = queries.position(index)?;
            let tiles = pack.scores_mut(query)?.as_chunks_mut::<TILE_TOKENS>().0;
            for (tile, scores) in tiles.iter_mut().take(batch.positions.div_ceil(TILE_TOKENS)).enumerate() {
                if cap > 0.0 {
                    soft_cap(cap, scores);
                }
                let start = (block(tile) * TILE_TOKENS).wrapping_sub(position) as i32;
                for (slot, score) in scores.iter_mut().enumerate() {
                    *score += slope * start.wrapping_add(slot as i32) as f32;
                }
            }
        }
    }
    Some(())
}

/// The softmax of a chunk.
#[inline(always)]
fn softmax_of<V: Lanes>(pack: &mut Pack<'_>, chunk: usize, seen: &Seen<'_>) -> Option<()> {
    for query in 0..seen.by_query.len() {
        pack.see_nothing(chunk, query)?;
    }
    for batch in seen.seeing() {
        let by_query = seen.by_query.get(batch.queries.clone())?;
        for (query, &visible) in batch.queries.clone().zip(by_query) {
            pack.max::<V>(chunk, query, visible);
        }
        for (query, &visible) in batch.queries.clone().zip(by_query) {
            pack.softmax::<V>(chunk, query, visible, batch.positions);
        }
    }
    Some(())
}

/// The values of a chunk, each times its weight.
#[inline(always)]
fn values_of<V: Lanes, T: Stored>(
    pack: &mut Pack<'_>,
    chunk: usize,
    seen: &Seen<'_>,
    staging: &mut [f32],
) -> Option<()> {
    let tiles = seen.tiles;
    let Some((last, others)) = seen.staging_batch::<T>(staging) else {
        for batch in seen.seeing() {
            pack.values::<V, T>(chunk, &batch.queries, &tiles.values(0..batch.positions)?);
        }
        return Some(());
    };
    let positions = tiles.positions();
    for start in (0..positions).step_by(STAGED * TILE_TOKENS) {
        let end = positions.min(start + STAGED * TILE_TOKENS);
        pack.values_and_stage::<V, T>(chunk, &last.queries, &tiles.values(start..end)?, staging);
        let staged = Staged::new(staging, tiles.head_dim())?;
        for batch in others {
            if let Some(v) = staged.run(start..end.min(batch.positions)) {
                pack.values::<V, f32>(chunk, &batch.queries, &v);
            }
        }
    }
    Some(())
}

/// Maximum, sum and values of one chunk for one query.
type Partial<'p> = (f32, f32, &'p [f32]);

/// Merges the chunks of one query in increasing order.
#[inline(always)]
fn merge<'p, V: Lanes>(partials: impl Iterator<Item = Partial<'p>> + Clone, out: &mut [f32]) {
    let mut max = f32::NEG_INFINITY;
    for (m, ..) in partials.clone() {
        max = if m > max { m } else { max };
    }
    let mut sum = 0.0_f32;
    out.fill(0.0);
    let mut partials = partials.peekable();
    while partials.peek().is_some() {
        let some = partials.clone().take(LANES);
        let mut factors = [max; LANES];
        for (factor, (m, ..)) in factors.iter_mut().zip(partials.by_ref()) {
            *factor = m;
        }
        // SAFETY: 16 elements.
        let below = unsafe { V::load(factors.as_ptr()) }.sub(V::splat(max));
        // SAFETY: 16 elements.
        unsafe { below.exp().store(factors.as_mut_ptr()) };
        for (&factor, (_, l, values)) in factors.iter().zip(some) {
            sum += l * factor;
            for (out, &value) in out.iter_mut().zip(values) {
                *out += value * factor;
            }
        }
    }
    let inverse = 1.0 / sum;
    for out in out {
        *out *= inverse;
    }
}
