//! Attention of one row over the blocks of its sequence.

use half::f16;

use crate::num::{exp, f16_to_f32, tree16};

/// Tokens per block: the width of a K tile.
pub const TILE_TOKENS: usize = 16;

/// Absolute positions per chunk. Each chunk has its own maximum and sums, so the result does not depend on
/// who computes which chunk.
pub const CHUNK: usize = 256;

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
    /// The tile of a KV head in block `index` (positions `16 * index ..`); `None` where there is none.
    fn tile(&self, index: usize, head: usize) -> Option<KvTile<'_>>;
}

/// f32 elements of scratch that [`attend`] needs for `group` query heads over at most `context` positions.
pub fn attend_scratch(group: usize, head_dim: usize, context: usize) -> Option<usize> {
    let partials = context.div_ceil(CHUNK).checked_mul(head_dim.checked_add(2)?)?;
    group.checked_mul(partials.checked_add(CHUNK)?)
}

/// The query heads of one row that share a KV head.
#[derive(Clone, Copy, Debug)]
pub struct Queries<'q> {
    /// `[group, head_dim]`.
    pub q: &'q [f32],
    /// Elements per head.
    pub head_dim: usize,
    /// The KV head.
    pub head: usize,
    /// The row's absolute position: it sees positions `0..=position`.
    pub position: usize,
    /// What scores are multiplied by.
    pub scale: f32,
}

/// Attention of the query heads of one KV head over positions `0..=position`: `out` is `[group, head_dim]`.
///
/// `scratch` has [`attend_scratch`] elements. `None` on a mismatch of sizes or a missing tile. The order of
/// all operations is given in `docs/arithmetic.md`.
#[inline(always)]
pub(in crate::kernels) fn attend(
    queries: Queries<'_>,
    source: &impl KvSource,
    out: &mut [f32],
    scratch: &mut [f32],
) -> Option<()> {
    let head_dim = queries.head_dim.max(1);
    let group = (queries.q.len() / head_dim).max(1);
    let chunks = queries.position / CHUNK + 1;
    let width = head_dim.checked_add(2)?;
    let (scores, partials) = scratch.split_at_mut_checked(group.checked_mul(CHUNK)?)?;
    let partials = partials.get_mut(..group.checked_mul(chunks)?.checked_mul(width)?)?;

    for (chunk, partials) in partials.chunks_exact_mut(group.saturating_mul(width).max(1)).enumerate() {
        let visible = (queries.position + 1 - chunk * CHUNK).min(CHUNK);
        chunk_scores(&queries, source, chunk, visible, scores)?;
        chunk_weights(visible, scores, partials, width);
        chunk_values(&queries, source, chunk, visible, scores, partials)?;
    }
    for (query, out) in out.chunks_exact_mut(head_dim).enumerate() {
        let starts = (0..chunks).map(|chunk| (chunk * group + query) * width);
        merge(starts.filter_map(|start| partials.get(start..start + width)), out)?;
    }
    Some(())
}

/// The scores of a chunk: `scores[query][position]`.
#[inline(always)]
fn chunk_scores(
    queries: &Queries<'_>,
    source: &impl KvSource,
    chunk: usize,
    visible: usize,
    scores: &mut [f32],
) -> Option<()> {
    for block in 0..visible.div_ceil(TILE_TOKENS) {
        let tile = source.tile(chunk * (CHUNK / TILE_TOKENS) + block, queries.head)?;
        for (q, scores) in queries.q.chunks_exact(queries.head_dim.max(1)).zip(scores.chunks_exact_mut(CHUNK)) {
            let (scores, _) = scores.as_chunks_mut::<TILE_TOKENS>();
            let sums = match tile.k {
                Elements::F32(k) => tile_scores(q, k, |x| x),
                Elements::F16(k) => tile_scores(q, k, f16_to_f32),
            };
            *scores.get_mut(block)? = sums.map(|sum| sum * queries.scale);
        }
    }
    Some(())
}

/// 16 sums over the head dimension in increasing order.
#[inline(always)]
fn tile_scores<T: Copy>(q: &[f32], k: &[T], load: impl Fn(T) -> f32) -> [f32; TILE_TOKENS] {
    let mut sums = [0.0_f32; TILE_TOKENS];
    let (columns, _) = k.as_chunks::<TILE_TOKENS>();
    for (&q, column) in q.iter().zip(columns) {
        for (sum, &k) in sums.iter_mut().zip(column) {
            *sum += q * load(k);
        }
    }
    sums
}

/// Turns scores into exponentials below the chunk's maximum; `partials[query]` = maximum, sum, values.
#[inline(always)]
fn chunk_weights(visible: usize, scores: &mut [f32], partials: &mut [f32], width: usize) {
    for (scores, partial) in scores.chunks_exact_mut(CHUNK).zip(partials.chunks_exact_mut(width.max(1))) {
        let scores = scores.get_mut(..visible).unwrap_or_default();
        let max = scores.iter().fold(f32::NEG_INFINITY, |max, &score| if score > max { score } else { max });
        let mut lanes = [0.0_f32; 16];
        for scores in scores.chunks_mut(16) {
            for (score, lane) in scores.iter_mut().zip(&mut lanes) {
                *score = exp(*score - max);
                *lane += *score;
            }
        }
        if let [m, l, ..] = partial {
            (*m, *l) = (max, tree16(lanes));
        }
    }
}

/// The values of a chunk, each times its weight, in increasing order of the position.
#[inline(always)]
fn chunk_values(
    queries: &Queries<'_>,
    source: &impl KvSource,
    chunk: usize,
    visible: usize,
    scores: &[f32],
    partials: &mut [f32],
) -> Option<()> {
    let width = queries.head_dim + 2;
    for partial in partials.chunks_exact_mut(width.max(1)) {
        partial.get_mut(2..)?.fill(0.0);
    }
    for block in 0..visible.div_ceil(TILE_TOKENS) {
        let tile = source.tile(chunk * (CHUNK / TILE_TOKENS) + block, queries.head)?;
        for (scores, partial) in scores.chunks_exact(CHUNK).zip(partials.chunks_exact_mut(width.max(1))) {
            let weights = scores.get(block * TILE_TOKENS..visible)?;
            let values = partial.get_mut(2..)?;
            match tile.v {
                Elements::F32(v) => add_values(weights, v, values, |x| x),
                Elements::F16(v) => add_values(weights, v, values, f16_to_f32),
            }
        }
    }
    Some(())
}

/// Adds at most 16 rows of V, each times its weight, in increasing order of the position.
#[inline(always)]
fn add_values<T: Copy>(weights: &[f32], v: &[T], values: &mut [f32], load: impl Fn(T) -> f32) {
    for (&weight, row) in weights.iter().zip(v.chunks_exact(values.len().max(1))) {
        for (value, &v) in values.iter_mut().zip(row) {
            *value += weight * load(v);
        }
    }
}

/// Merges the chunks of one query in increasing order.
#[inline(always)]
fn merge<'p>(partials: impl Iterator<Item = &'p [f32]> + Clone, out: &mut [f32]) -> Option<()> {
    let mut max = f32::NEG_INFINITY;
    for partial in partials.clone() {
        let &m = partial.first()?;
        max = if m > max { m } else { max };
    }
    let mut sum = 0.0_f32;
    out.fill(0.0);
    for partial in partials {
        let [m, l, values @ ..] = partial else { return None };
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
