//! Attention of a few rows of one sequence over its blocks.
//!
//! The query heads of these rows that share a KV head are taken in batches that fit the registers. Every
//! K column and V row is loaded and converted once per batch: a column of a K tile times a number of each
//! query is 16 scores of each, a row of V times a weight of each query goes to sums over the positions
//! that stay in registers. Positions are cut into chunks with a softmax each, merged at the end.

mod inner;
mod window;

use half::f16;

use super::lanes::Lanes;
use crate::mem::Tile;
use crate::num::exp;
use inner::{Batch, Stored, TilePointers};
use window::VisibleTiles;
pub use window::{Positions, Visibility, Window};

/// Tokens per block: the width of a K tile.
pub const TILE_TOKENS: usize = 16;

/// Absolute positions per chunk. Each chunk has its own maximum and sums, so the result does not depend on
/// who computes which chunk.
pub const CHUNK: usize = 256;

/// Tiles per chunk.
const TILES: usize = CHUNK / TILE_TOKENS;

/// The most queries in a batch, on any level.
const MAX_BATCH: usize = 8;

/// Rows whose query heads make a batch: what attention takes at a time of one sequence.
pub const fn attend_rows(group: usize) -> usize {
    match MAX_BATCH.checked_div(group) {
        Some(rows) if rows > 0 => rows,
        _ => 1,
    }
}

/// Keys or values in their element type.
#[derive(Clone, Copy, Debug)]
pub enum Elements<'a> {
    /// Exact.
    F32(&'a [f32]),
    /// Half precision.
    F16(&'a [f16]),
}

/// One head of one layer of a block: K as `[head_dim][16]`, V as `[16][head_dim]`.
#[derive(Clone, Copy, Debug)]
pub struct KvTile<'a> {
    /// `[head_dim][16]`.
    pub k: Elements<'a>,
    /// `[16][head_dim]`.
    pub v: Elements<'a>,
}

/// Where attention finds the tiles of a layer of one sequence.
pub trait KvSource {
    /// The tile of a KV head in block `index` (positions `16 * index ..`); `None` where there is none. Only blocks
    /// with visible positions are asked for.
    fn tile(&self, index: usize, head: usize) -> Option<KvTile<'_>>;
}

/// f32 elements of scratch that [`Level::attend`](crate::kernels::Level::attend) needs for heads in groups of `group` over
/// at most `context` positions; for layers with a window that is [`Visibility::chunked`].
pub fn attend_scratch(group: usize, head_dim: usize, context: usize) -> Option<usize> {
    let batch = attend_rows(group).checked_mul(group)?.min(MAX_BATCH);
    let partials = context.div_ceil(CHUNK).max(1).checked_mul(head_dim.checked_add(2)?)?;
    batch.checked_mul(partials.checked_add(CHUNK)?.checked_add(head_dim)?)
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

    /// The position of query `index`.
    fn position(&self, index: usize) -> Option<usize> {
        self.position.checked_add(index.checked_div(self.group)?)
    }
}

/// See [`Level::attend`](crate::kernels::Level::attend).
#[inline(always)]
pub(in crate::kernels) fn attend<V: Lanes>(
    queries: &Queries<'_>,
    source: &impl KvSource,
    out: &mut Tile<'_, f32>,
    scratch: &mut [f32],
) -> Option<()> {
    let len = queries.len()?;
    let mut first = 0;
    while first < len {
        let batches = (len - first).div_ceil(V::QUERIES.min(MAX_BATCH));
        let count = (len - first).div_ceil(batches.max(1));
        attend_batch::<V>(queries, first, count, source, out, scratch)?;
        first += count;
    }
    Some(())
}

/// Attention of `count` queries from `first` on, at most [`MAX_BATCH`].
#[inline(always)]
fn attend_batch<V: Lanes>(
    queries: &Queries<'_>,
    first: usize,
    count: usize,
    source: &impl KvSource,
    out: &mut Tile<'_, f32>,
    scratch: &mut [f32],
) -> Option<()> {
    let last = queries.position(first.checked_add(count)?.checked_sub(1)?)?;
    // The last position has a successor.
    last.checked_add(1)?;
    let seen = queries.visibility.between(queries.position(first)?, last);
    let mut batch = Batch::new(count, queries.head_dim, seen.chunks().count(), scratch)?;
    for query in 0..count {
        batch.set_query(query, queries.query(first + query)?)?;
    }
    for (place, chunk) in seen.chunks().enumerate() {
        let tiles = VisibleTiles::new(seen.in_chunk(chunk));
        let mut visible = [Positions::NONE; MAX_BATCH];
        for (query, visible) in visible.iter_mut().enumerate().take(count) {
            *visible = tiles.visible(queries.seen(first + query)?.in_chunk(chunk));
        }
        let tile = |index| source.tile(chunk * TILES + tiles.tile(index), queries.head);
        let positions = tiles.positions();
        match tile(0)?.k {
            Elements::F32(_) => chunk_of::<V, f32>(&mut batch, place, positions, &visible, queries.scale, tile)?,
            Elements::F16(_) => chunk_of::<V, f16>(&mut batch, place, positions, &visible, queries.scale, tile)?,
        }
    }
    for query in 0..count {
        let index = first + query;
        let (row, head) = (index.checked_div(queries.group)?, index.checked_rem(queries.group)?);
        let out = out.row_mut(queries.row.checked_add(row)?)?;
        let start = head.checked_mul(queries.head_dim)?;
        let out = out.get_mut(start..start.checked_add(queries.head_dim)?)?;
        let visible = queries.seen(index)?;
        let chunks = seen.chunks().enumerate().filter(|&(_, chunk)| !visible.in_chunk(chunk).is_empty());
        merge(chunks.map(|(place, _)| batch.partial(place, query)), out)?;
    }
    Some(())
}

/// One chunk: scores, softmax, values. `positions` and `visible` count the positions of the tiles.
#[inline(always)]
fn chunk_of<'t, V: Lanes, T: Stored>(
    batch: &mut Batch<'_>,
    place: usize,
    positions: usize,
    visible: &[Positions; MAX_BATCH],
    scale: f32,
    tile: impl Fn(usize) -> Option<KvTile<'t>>,
) -> Option<()> {
    let tiles = TilePointers::<T>::new(positions, batch.head_dim(), tile)?;
    batch.scores::<V, T>(&tiles, scale);
    for (query, &visible) in visible.iter().enumerate().take(batch.count()) {
        batch.softmax::<V>(place, query, visible, tiles.positions());
    }
    batch.values::<V, T>(place, &tiles);
    Some(())
}

/// Maximum, sum and values of one chunk for one query.
type Partial<'p> = (f32, f32, &'p [f32]);

/// Merges the chunks of one query in increasing order.
#[inline(always)]
fn merge<'p>(partials: impl Iterator<Item = Option<Partial<'p>>> + Clone, out: &mut [f32]) -> Option<()> {
    let mut max = f32::NEG_INFINITY;
    for partial in partials.clone() {
        let (m, ..) = partial?;
        max = if m > max { m } else { max };
    }
    let mut sum = 0.0_f32;
    out.fill(0.0);
    for partial in partials {
        let (m, l, values) = partial?;
        let factor = exp(m - max);
        sum += l * factor;
        for (out, &value) in out.iter_mut().zip(values) {
            *out += value * factor;
        }
    }
    let inverse = 1.0 / sum;
    for out in out {
        *out *= inverse;
    }
    Some(())
}
