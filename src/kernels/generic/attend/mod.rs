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
    /// What scores are multiplied by.
    pub scale: f32,
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

/// Cuts queries into batches that fit the registers, as equal as possible.
#[inline(always)]
fn batches<V: Lanes>(count: usize) -> impl DoubleEndedIterator<Item = Range<usize>> + Clone {
    let batches = NonZeroUsize::new(count.div_ceil(V::QUERIES)).unwrap_or(NonZeroUsize::MIN);
    (0..batches.get()).map(move |batch| batch * count / batches..(batch + 1) * count / batches)
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
    for batch in batches::<V>(count) {
        for query in batch.clone() {
            pack.set_query(&batch, query, queries.query(first + query)?)?;
        }
    }
    for (place, chunk) in seen.chunks().enumerate() {
        let visible = VisibleTiles::new(seen.in_chunk(chunk));
        let seen = Seen { queries, first, chunk, tiles: visible };
        let tile = |index| source.tile(chunk * TILES + visible.tile(index), queries.head);
        let tiles = ChunkTiles::new(visible.positions(), head_dim, tile)?;
        let [k, v] = tiles.elements();
        match k {
            KvElement::F32 if const { KvElement::F32.is_built() } => {
                scores_of::<V, f32>(&mut pack, count, seen, staging, &tiles)?
            }
            KvElement::F16 => scores_of::<V, f16>(&mut pack, count, seen, staging, &tiles)?,
            KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } => {
                scores_of::<V, Q8>(&mut pack, count, seen, staging, &tiles)?
            }
            KvElement::Q4_0 if const { KvElement::Q4_0.is_built() } => {
                scores_of::<V, Q4>(&mut pack, count, seen, staging, &tiles)?
            }
            _ => return None,
        }
        softmax_of::<V>(&mut pack, place, count, seen)?;
        match v {
            KvElement::F32 if const { KvElement::F32.is_built() } => {
                values_of::<V, f32>(&mut pack, place, count, seen, staging, &tiles)?
            }
            KvElement::F16 => values_of::<V, f16>(&mut pack, place, count, seen, staging, &tiles)?,
            KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } => {
                values_of::<V, Q8>(&mut pack, place, count, seen, staging, &tiles)?
            }
            KvElement::Q4_0 if const { KvElement::Q4_0.is_built() } => {
                values_of::<V, Q4>(&mut pack, place, count, seen, staging, &tiles)?
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
        let visible = queries.seen(index)?;
        let chunks = seen.chunks().enumerate().filter(|&(_, chunk)| !visible.in_chunk(chunk).is_empty());
        merge::<V>(chunks.map(|(place, _)| place), |place| pack.partial(place, query), out)?;
    }
    Some(())
}

/// What the queries of a pack see of a chunk.
#[derive(Clone, Copy)]
struct Seen<'q> {
    queries: &'q Queries<'q>,
    /// The first query of the pack.
    first: usize,
    chunk: usize,
    /// What the pack reads of it; positions are counted in these.
    tiles: VisibleTiles,
}

impl Seen<'_> {
    /// What a query of the pack sees.
    #[inline(always)]
    fn by(&self, query: usize) -> Option<Positions> {
        let seen = self.queries.seen(self.first.checked_add(query)?)?;
        Some(self.tiles.visible(seen.in_chunk(self.chunk)))
    }

    /// Up to which position a batch reads. Without a window its last query sees the most, and all that comes before.
    #[inline(always)]
    fn by_batch(&self, batch: &Range<usize>) -> usize {
        if self.queries.visibility.is_all() {
            return self.by(batch.end - 1).map_or(0, Positions::end);
        }
        let mut seen = batch.clone().filter_map(|query| self.by(query));
        if seen.all(Positions::is_empty) { 0 } else { self.tiles.positions() }
    }
}

/// The batches of a chunk that see something of it, each with the number of positions of its tiles that it looks at.
#[inline(always)]
fn seeing<V: Lanes>(count: usize, seen: Seen<'_>) -> impl DoubleEndedIterator<Item = (usize, Range<usize>)> + Clone {
    let batches = batches::<V>(count).map(move |batch| (seen.by_batch(&batch), batch));
    batches.filter(|&(positions, _)| positions > 0)
}

/// The batch that converts tiles for all batches, taken from these; `None` where each of them reads what is stored.
///
/// It has to be the very last one, which is large enough; where that sees nothing there is little to do.
#[inline(always)]
fn staging_batch<T: Stored>(
    count: usize,
    staging: &[f32],
    batches: &mut (impl DoubleEndedIterator<Item = (usize, Range<usize>)> + Clone),
) -> Option<Range<usize>> {
    let (_, last) = batches.clone().next_back()?;
    if staging.is_empty() || !T::CONVERTED || last.end != count {
        return None;
    }
    batches.next_back();
    Some(last)
}

/// The scores of a chunk.
#[inline(always)]
fn scores_of<V: Lanes, T: Stored>(
    pack: &mut Pack<'_>,
    count: usize,
    seen: Seen<'_>,
    staging: &mut [f32],
    tiles: &ChunkTiles<'_>,
) -> Option<()> {
    let (head_dim, scale) = (seen.queries.head_dim, seen.queries.scale);
    let mut batches = seeing::<V>(count, seen);
    let Some(last) = staging_batch::<T>(count, staging, &mut batches) else {
        for (positions, batch) in batches {
            pack.scores::<V, T>(&batch, &tiles.keys(0..positions)?, scale);
        }
        return Some(());
    };
    let positions = seen.tiles.positions();
    for start in (0..positions).step_by(STAGED * TILE_TOKENS) {
        let end = positions.min(start + STAGED * TILE_TOKENS);
        pack.scores_and_stage::<V, T>(&last, &tiles.keys(start..end)?, scale, staging);
        let staged = Staged::new(staging, head_dim)?;
        for (positions, batch) in batches.clone() {
            if let Some(k) = staged.run(start..end.min(positions)) {
                pack.scores::<V, f32>(&batch, &k, scale);
            }
        }
    }
    Some(())
}

/// The softmax of a chunk.
#[inline(always)]
fn softmax_of<V: Lanes>(pack: &mut Pack<'_>, chunk: usize, count: usize, seen: Seen<'_>) -> Option<()> {
    for (positions, batch) in seeing::<V>(count, seen) {
        for query in batch.clone() {
            pack.max::<V>(chunk, query, seen.by(query)?);
        }
        for query in batch {
            pack.softmax::<V>(chunk, query, seen.by(query)?, positions);
        }
    }
    Some(())
}

/// The values of a chunk, each times its weight.
#[inline(always)]
fn values_of<V: Lanes, T: Stored>(
    pack: &mut Pack<'_>,
    chunk: usize,
    count: usize,
    seen: Seen<'_>,
    staging: &mut [f32],
    tiles: &ChunkTiles<'_>,
) -> Option<()> {
    let mut batches = seeing::<V>(count, seen);
    let Some(last) = staging_batch::<T>(count, staging, &mut batches) else {
        for (positions, batch) in batches {
            pack.values::<V, T>(chunk, &batch, &tiles.values(0..positions)?);
        }
        return Some(());
    };
    let positions = seen.tiles.positions();
    for start in (0..positions).step_by(STAGED * TILE_TOKENS) {
        let end = positions.min(start + STAGED * TILE_TOKENS);
        pack.values_and_stage::<V, T>(chunk, &last, &tiles.values(start..end)?, staging);
        let staged = Staged::new(staging, seen.queries.head_dim)?;
        for (positions, batch) in batches.clone() {
            if let Some(v) = staged.run(start..end.min(positions)) {
                pack.values::<V, f32>(chunk, &batch, &v);
            }
        }
    }
    Some(())
}

/// Maximum, sum and values of one chunk for one query.
type Partial<'p> = (f32, f32, &'p [f32]);

/// Merges the chunks of one query in increasing order.
#[inline(always)]
fn merge<'p, V: Lanes>(
    mut chunks: impl Iterator<Item = usize> + Clone,
    partial: impl Fn(usize) -> Option<Partial<'p>>,
    out: &mut [f32],
) -> Option<()> {
    let mut max = f32::NEG_INFINITY;
    for chunk in chunks.clone() {
        let (m, ..) = partial(chunk)?;
        max = if m > max { m } else { max };
    }
    let mut sum = 0.0_f32;
    out.fill(0.0);
    loop {
        let some = chunks.clone().take(LANES);
        if chunks.by_ref().take(LANES).count() == 0 {
            break;
        }
        let mut factors = [max; LANES];
        for (factor, chunk) in factors.iter_mut().zip(some.clone()) {
            *factor = partial(chunk)?.0;
        }
        // SAFETY: 16 elements.
        let below = unsafe { V::load(factors.as_ptr()) }.sub(V::splat(max));
        // SAFETY: 16 elements.
        unsafe { below.exp().store(factors.as_mut_ptr()) };
        for (&factor, chunk) in factors.iter().zip(some) {
            let (_, l, values) = partial(chunk)?;
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
    Some(())
}
