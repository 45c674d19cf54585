//! Attention of a few rows of one sequence over its blocks.
//!
//! The query heads of these rows that share a KV head are taken in batches that fit the registers. Every
//! K column and V row is loaded once per batch: a column of a K tile times a number of each query is 16
//! scores of each, a row of V times a weight of each query goes to sums over the positions that stay in
//! registers. Loops are compiled for f32, and where machines convert as they load, and there is one batch, for f16 and bytes;
//! otherwise a few tiles at a time are converted to f32 for all batches.
//! Positions are cut into chunks with a softmax each, which are added one after the other.

mod pack;
mod partial;
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
pub use partial::Partial;
use tiles::{ChunkTiles, Q8, Staged, Widened, staging_len};
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

/// Queries of a unit, where rows have no more: enough to make what is read and converted for all of them cheap.
const MAX_QUERIES: usize = 32;

/// Multiplications of a unit at most, where a chunk for a row does not have more.
const UNIT: usize = 1 << 22;

/// Elements of keys that a unit reads at most, where a chunk does not have more.
const UNIT_KEYS: usize = 1 << 17;

/// Rows of one sequence that attention takes at a time.
pub fn attend_rows(group: usize) -> usize {
    MAX_QUERIES.checked_div(group).unwrap_or(0).max(1)
}

/// Chunks that attention takes at a time, of `rows` rows.
pub fn attend_chunks(rows: usize, group: usize, head_dim: usize) -> usize {
    let multiplications = rows.saturating_mul(group).saturating_mul(head_dim).saturating_mul(2 * CHUNK);
    let chunks = UNIT.checked_div(multiplications).unwrap_or(0);
    chunks.min((UNIT_KEYS / CHUNK).checked_div(head_dim).unwrap_or(0)).max(1)
}

/// Where attention finds the tiles of a layer of one sequence.
pub trait KvSource {
    /// The element types of keys and of values in all tiles.
    fn elements(&self) -> [KvElement; 2];

    /// The tile of a KV head in block `index` (positions `16 * index ..`); `None` where there is none. Only blocks
    /// with visible positions are asked for.
    fn tile(&self, index: usize, head: usize) -> Option<KvTile<'_>>;
}

/// f32 elements of scratch with which `V` takes all queries of a unit together, with at most `rows` rows.
pub(in crate::kernels) fn attend_scratch<V: Lanes>(rows: usize, group: usize, head_dim: usize) -> Option<usize> {
    let count = rows.min(attend_rows(group)).checked_mul(group)?.min(V::TOGETHER);
    Pack::len_of_query(head_dim)?.checked_mul(count)?.checked_add(staging_len(head_dim)?)
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

    /// What is kept of a row.
    fn partial(&self) -> Partial {
        Partial { group: self.group, head_dim: self.head_dim }
    }

    /// The row of query `index`, and which of its heads it is: queries are numbered row by row.
    fn place(&self, index: usize) -> Option<(usize, usize)> {
        let row = index.checked_div(self.group)?;
        Some((row, index - row * self.group))
    }

    /// Query `index`.
    fn query(&self, index: usize) -> Option<&'q [f32]> {
        let (row, head) = self.place(index)?;
        let start = row.checked_mul(self.stride)?.checked_add(head.checked_mul(self.head_dim)?)?;
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
    // With little scratch fewer go together.
    let together = scratch.len().checked_div(Pack::len_of_query(head_dim)?)?.min(V::TOGETHER);
    for pack in shares(len, together) {
        let chunks = seen.chunks().skip(chunks.start).take(chunks.len());
        attend_pack::<V>(queries, pack, chunks, source, out, staging, scratch)?;
    }
    Some(())
}

/// Cuts `0..count` into as few ranges of at most `most` as possible, of sizes as equal as possible.
#[inline(always)]
fn shares(count: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let shares = NonZeroUsize::new(count.div_ceil(most.max(1))).unwrap_or(NonZeroUsize::MIN);
    (0..shares.get()).map(move |share| share * count / shares..(share + 1) * count / shares)
}

/// Queries of a pack that go through a tile together.
#[derive(Clone, Debug)]
struct Batch {
    queries: Range<usize>,
    /// Up to which position of the chunk at hand they read; 0 if none of them sees anything of it.
    positions: usize,
}

/// Attention of some of the queries in some chunks.
#[inline(always)]
fn attend_pack<V: Lanes>(
    queries: &Queries<'_>,
    members: Range<usize>,
    chunks: impl Iterator<Item = usize>,
    source: &dyn KvSource,
    out: &mut Tile<'_, f32>,
    staging: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    let (first, count, head_dim) = (members.start, members.len(), queries.head_dim);
    let seen = queries.seen_together(members)?;
    let elements @ [keys, _] = source.elements();
    let mut pack = Pack::new(count, head_dim, scratch)?;
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
    for chunk in chunks {
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
        scores_of::<V>(&mut pack, &seen, staging)?;
        if queries.scores.are_adjusted() {
            adjust_scores(&mut pack, &seen, queries, first, block)?;
        }
        softmax_of::<V>(&mut pack, &seen)?;
        values_of::<V>(&mut pack, &seen, staging)?;
        for query in 0..count {
            let (row, head) = queries.place(first + query)?;
            let row = out.row_mut(queries.row.checked_add(row)?)?;
            queries.partial().add(row, head, pack.partial(query)?)?;
        }
    }
    Some(())
}

/// Returns the number of positions of a chunk that a batch of queries reads, `positions` at most; 0 if no query sees any.
///
/// `seen` holds what each query sees. `all` says that there is no window: then the last query sees the most, and it sees
/// every position before its own.
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
    head_dim: usize,
    /// What scores are multiplied by.
    scale: f32,
    /// What the pack reads of the chunk; positions are counted in these.
    tiles: &'t ChunkTiles<'t>,
}

impl<'t> Seen<'t> {
    /// The batches that see something.
    fn seeing(&self) -> impl Iterator<Item = &'t Batch> {
        self.batches.iter().filter(|batch| batch.positions > 0)
    }

    /// The batch that reads what is stored, if it is the only one and such loads are cheap.
    fn only_batch<V: Lanes>(&self) -> Option<&'t Batch> {
        let [batch] = self.batches else { return None };
        (V::LOADS_F16 && batch.positions > 0).then_some(batch)
    }

    /// The batch that converts tiles of f16 for all batches while it computes, and the others.
    ///
    /// It has to be the very last one, which is large enough; where that sees nothing there is little to do.
    fn staging_batch<V: Lanes>(&self, element: KvElement) -> Option<(&'t Batch, &'t [Batch])> {
        let (last, others) = self.batches.split_last()?;
        (V::LOADS_F16 && element == KvElement::F16 && last.positions > 0).then_some((last, others))
    }
}

/// The scores of a chunk.
#[inline(always)]
fn scores_of<V: Lanes>(pack: &mut Pack<'_>, seen: &Seen<'_>, staging: &mut [f32]) -> Option<()> {
    let (tiles, scale) = (seen.tiles, seen.scale);
    let [element, _] = tiles.elements();
    if let Some(batch) = seen.only_batch::<V>() {
        let k = tiles.keys(0, batch.positions)?;
        match element {
            KvElement::F16 => {
                pack.scores::<V, f16>(&batch.queries, &k, scale);
                return Some(());
            }
            KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } && batch.queries.len() <= 4 => {
                pack.scores::<V, Q8>(&batch.queries, &k, scale);
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
                pack.scores_and_stage::<V>(&last.queries, &k, scale, staging);
                batches = others;
            } else {
                tiles.convert_keys::<V>(&k, staging)?;
            }
            staged = Staged::new(staging, seen.head_dim * TILE_TOKENS)?;
            k = staged.run(&k);
        }
        for batch in batches {
            match k.before(batch.positions) {
                Some(k) if is_widened::<V>(element) => pack.scores::<V, Widened>(&batch.queries, &k, scale),
                Some(k) => pack.scores::<V, f32>(&batch.queries, &k, scale),
                None => {}
            }
        }
    }
    Some(())
}

/// Whether it is faster to know that converted tiles were of f16.
#[inline(always)]
fn is_widened<V: Lanes>(element: KvElement) -> bool {
    V::FUSED && element == KvElement::F16
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
            let slope = slopes.get(queries.place(index)?.1).copied().unwrap_or(0.0);
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
fn softmax_of<V: Lanes>(pack: &mut Pack<'_>, seen: &Seen<'_>) -> Option<()> {
    pack.see_nothing();
    let [_, values] = seen.tiles.elements();
    for batch in seen.seeing() {
        let by_query = seen.by_query.get(batch.queries.clone())?;
        for (query, &visible) in batch.queries.clone().zip(by_query) {
            pack.max::<V>(query, visible);
        }
        for (query, &visible) in batch.queries.clone().zip(by_query) {
            pack.softmax::<V>(query, visible, batch.positions, values);
        }
    }
    Some(())
}

/// The values of a chunk, each times its weight.
#[inline(always)]
fn values_of<V: Lanes>(pack: &mut Pack<'_>, seen: &Seen<'_>, staging: &mut [f32]) -> Option<()> {
    let tiles = seen.tiles;
    let [_, element] = tiles.elements();
    let whole = seen.head_dim.is_multiple_of(LANES);
    if let Some(batch) = seen.only_batch::<V>().filter(|_| whole) {
        let v = tiles.values(0, batch.positions)?;
        match element {
            KvElement::F16 => {
                pack.values::<V, f16>(&batch.queries, &v);
                return Some(());
            }
            KvElement::Q8_0 if const { KvElement::Q8_0.is_built() } && batch.queries.len() <= 4 => {
                pack.values::<V, Q8>(&batch.queries, &v);
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
                pack.values_and_stage::<V>(&last.queries, &v, staging);
                batches = others;
            } else {
                tiles.convert_values::<V>(&v, staging)?;
            }
            staged = Staged::new(staging, seen.head_dim.next_multiple_of(LANES) * TILE_TOKENS)?;
            v = staged.run(&v);
        }
        for batch in batches {
            match v.before(batch.positions) {
                Some(v) if is_widened::<V>(element) => pack.values::<V, Widened>(&batch.queries, &v),
                Some(v) => pack.values::<V, f32>(&batch.queries, &v),
                None => {}
            }
        }
    }
    Some(())
}
