//! Keys and values into the cache, where attention reads them.

use core::ops::Range;

use super::{Batch, Buffers, Context, Grid, Memory, Operation, Viewed, Work};
use crate::cache::{KvRow, WRITTEN_ROWS};
use crate::device::{OpView, StoreView};
use crate::error::Fault;
use crate::mem::row_of;
use crate::par::{Budget, Parallel, Serial, Watch, for_each_tile};
use crate::weights::Role;

/// Smallest number of rows for which it pays to write keys and values head by head, one block of each head at a time.
const SHARED_ROWS: usize = 16;

/// Writes K and V into the cache. A unit is a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store;

impl Operation for Store {
    fn name(&self) -> &'static str {
        "store"
    }

    fn tensors(&self) -> &[Role] {
        &[]
    }

    fn grid(&self, context: &Context<'_, '_>, layer: usize, rows: usize, _: Batch<'_>) -> Grid {
        let rows = if context.config.has_kv(layer) { rows } else { 0 };
        Grid { tile_rows: 1, ..Grid::by_row(rows, 1) }
    }

    /// Rows of one block share its tiles. So several workers can only take one KV head each, for many rows, and the
    /// step cannot end between these heads.
    fn run(&self, context: &Context<'_, '_>, memory: Memory<'_, '_>, work: Work<'_>) -> Result<usize, Fault> {
        let shape = context.config.layer(work.layer);
        let (q_width, kv_width, width) = (shape.q_width(), shape.kv_width(), shape.heads_width());
        let Batch { rows, finished, .. } = work.batch;
        let Buffers { qkv, scratch, .. } = memory.buffers;
        let row = |unit: usize| {
            // Units are in the order of the positions: finished rows are the last ones of their sequences.
            let unfinished = rows.len().checked_sub(finished)?;
            let index = if unit < unfinished { unit + finished } else { unit - unfinished };
            let (row, qkv) = (rows.get(index)?, row_of(qkv, index, width)?);
            let (k, v) = qkv.get(q_width..q_width + 2 * kv_width)?.split_at_checked(kv_width)?;
            Some(KvRow { seq: row.seq(), position: row.position as usize, k, v })
        };
        let layer = context.config.kv_layer(work.layer).ok_or(Fault::Internal(site!()))?;
        let Range { mut start, end } = work.take.clone();
        let has_states = memory.cache.has_states();
        let together = work.watch.is_unlimited() && end - start >= SHARED_ROWS;
        while start < end && work.watch.allows_unit() {
            let next = if together { end.min(start + WRITTEN_ROWS) } else { start + 1 };
            let parallel: &dyn Parallel = if together { work.parallel } else { &Serial };
            let is_stored =
                |unit: usize| has_states && row(unit).is_some_and(|row| memory.cache.is_stored(row.seq, row.position));
            // Rows that are computed only for their states are stored already. They are the first rows of their
            // sequence, so the stored rows of the next sequence may follow rows that are not stored.
            let kept = (start..next).find(|&unit| !is_stored(unit)).unwrap_or(next);
            let next = (kept..next).find(|&unit| is_stored(unit)).unwrap_or(next);
            let rows = (kept..next).map(row);
            // The rows' blocks were reserved when the rows were queued, so a refusal by the cache is a defect.
            let writer = memory.cache.writer(layer, rows).map_err(|_| Fault::Internal(site!()))?;
            let (tiles, watch) = (core::slice::from_ref(&writer.tiles), Watch::new(&Budget::default()));
            for_each_tile(parallel, tiles, &scratch.by_worker()?, &watch, &|tile, _| writer.write(tile))?;
            start = next;
        }
        Ok(end - start)
    }
}

impl Viewed for Store {
    fn view<'m>(&self, context: &Context<'m, '_>, layer: usize) -> Option<OpView<'m>> {
        let (config, shape) = (&context.config, context.config.layer(layer));
        Some(OpView::Store(StoreView {
            to: if config.has_kv(layer) { config.kv_place(layer) } else { None },
            first: shape.q_width(),
            heads: shape.kv.heads,
            head_dim: shape.kv.head_dim,
        }))
    }
}
