//! Attention over the cache.

use core::ops::Range;

use super::partials::{partial, partials_width};
use super::{Batch, Buffers, Context, Grid, Memory, Operation, Row, Viewed, Work};
use crate::cache::KvCache;
use crate::device::{AttendView, OpView, Slopes};
use crate::error::Fault;
use crate::kernels::{CHUNK, Queries, Scores, attend_chunks, attend_rows};
use crate::weights::{Attention, Config, Role};

/// Attention of every row over the keys and values of its sequence. A unit is the query heads that share a KV head, of
/// some rows, in some chunks of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attend;

impl Operation for Attend {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn tensors(&self) -> &[Role] {
        &[]
    }

    /// Returns the units. The row that sees the most chunks sets the number of passes.
    fn grid(&self, context: &Context<'_, '_>, layer: usize, rows: usize, batch: Batch<'_>) -> Grid {
        let config = &context.config;
        let shape = config.layer(layer);
        let group = shape.group();
        let tile_rows = attend_rows(group).min(rows.max(1));
        let positions = batch.rows.iter().map(|row| row.position as usize + 1).max().unwrap_or(1);
        let visibility = context.visibility.get(config.layer_groups.group(layer)).copied().unwrap_or_default();
        let chunks = visibility.chunked(positions, tile_rows).div_ceil(CHUNK);
        Grid {
            rows,
            cols: partials_width(&shape).unwrap_or(0),
            tile_rows,
            tile_cols: partial(&shape).elements().unwrap_or(0).max(1),
            passes: chunks.div_ceil(attend_chunks(tile_rows, group, shape.kv.head_dim)),
        }
    }

    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let Memory { buffers, cache } = memory;
        let (tiles, Range { mut start, end }) = (work.grid.tiles(), work.take.clone());
        while start < end {
            let pass = start.checked_div(tiles).ok_or(Fault::Internal(site!()))?;
            let next = end.min((pass + 1) * tiles);
            let take = start - pass * tiles..next - pass * tiles;
            let left = attend_pass(context, buffers, cache, &Work { take, ..work }, pass)?;
            if left > 0 {
                return Ok(end - next + left);
            }
            start = next;
        }
        Ok(0)
    }
}

impl Viewed for Attend {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let (config, shape) = (&context.config, context.config.layer(layer));
        let Attention { scale, soft_cap, alibi, causal, .. } = config.attention;
        if !causal {
            return Some(OpView::Other("attention to both sides"));
        }
        Some(OpView::Attend(AttendView {
            from: config.kv_place(layer)?,
            heads: shape.heads,
            kv_heads: shape.kv.heads,
            head_dim: shape.kv.head_dim,
            stride: shape.heads_width(),
            visibility: context.visibility.get(config.layer_groups.group(layer)).copied().unwrap_or_default(),
            scale,
            soft_cap,
            slopes: (alibi > 0.0).then_some(Slopes { exponent: alibi, heads: config.heads }),
        }))
    }
}

/// Runs units of one pass. Successive rows of one sequence are computed together.
fn attend_pass(
    context: &Context<'_, '_>,
    buffers: &mut Buffers<'_>,
    cache: &KvCache<'_>,
    work: &Work<'_>,
    pass: usize,
) -> Result<usize, Fault> {
    let config = &context.config;
    let shape = config.layer(work.layer);
    let (width, group, head_dim) = (shape.heads_width(), shape.group(), shape.kv.head_dim);
    let stored = config.kv_layer(work.layer).ok_or(Fault::Internal(site!()))?;
    let chunks = attend_chunks(work.grid.tile_rows, group, head_dim);
    let chunks = pass * chunks..(pass + 1) * chunks;
    let Buffers { qkv, partials, scratch, .. } = buffers;
    work.each_tile(partials, scratch, &|tile, scratch| {
        let (mut rows, cols) = (tile.rows(), tile.cols());
        let head = cols.start.checked_div(cols.len()).ok_or(Fault::Internal(site!()))?;
        let slopes = context.slopes.chunks_exact(group.max(1)).nth(head).unwrap_or_default();
        let Config { attention, .. } = config;
        let scores = Scores { scale: attention.scale, soft_cap: attention.soft_cap, slopes };
        while let Some(row) = work.batch.rows.get(rows.start).filter(|_| !rows.is_empty()) {
            let run = run_length(work.batch.rows.get(rows.clone()).ok_or(Fault::Internal(site!()))?);
            let start = rows.start * width + head * group * head_dim;
            let source = cache.layer_source(row.seq(), stored).ok_or(Fault::Internal(site!()))?;
            let queries = Queries {
                q: qkv.get(start..).ok_or(Fault::Internal(site!()))?,
                stride: width,
                row: rows.start,
                rows: run,
                group,
                head_dim,
                head,
                position: row.position as usize,
                visibility: source.visibility().of_text(work.batch.text_len(row.seq())),
                scores,
            };
            context.level.attend(&queries, chunks.clone(), &source, tile, scratch).ok_or(Fault::Internal(site!()))?;
            rows.start += run;
        }
        Ok(())
    })
}

/// Returns the number of rows, from the first on, that are at successive positions of one sequence.
fn run_length(rows: &[Row]) -> usize {
    let follows = |pair: &[Row]| matches!(pair, [a, b] if b.follows(a));
    1 + rows.windows(2).take_while(|pair| follows(pair)).count()
}
