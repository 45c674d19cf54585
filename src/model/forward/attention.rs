//! The stages of attention.

use core::ops::Range;

use super::buffers::Buffers;
use super::work::Work;
use super::{Batch, Forward, Grid, Row, row_of};
use crate::cache::{CacheError, KvCache, KvRow, WRITTEN_ROWS};
use crate::error::Fault;
use crate::kernels::{CHUNK, Combine, Level, Norm, Partial, Queries, Scores, attend_chunks, attend_rows};
use crate::model::config::{Config, QkNorm};
use crate::model::weights::LayerTensor;
use crate::ops::{InputRows, rotate};
use crate::par::{Budget, Parallel, Serial, Watch, for_each_tile};
use crate::tensor::TensorView;

/// Rows whose keys and values are worth it to be written head by head, a block of each at a time.
const SHARED_ROWS: usize = 16;

/// The slopes of ALiBi, one per head, where `2^-exponent` is the last of a power of two of heads; other numbers of
/// heads take every second slope of twice as many after that. (Press et al., "Train Short, Test Long", 2021; the
/// authors' code for other numbers.)
pub(super) fn fill_slopes(exponent: f32, slopes: &mut [f32]) {
    let heads = slopes.len();
    let power = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    for (head, slope) in slopes.iter_mut().enumerate() {
        let steps = if head < power { (head + 1) as f64 } else { (head - power) as f64 + 0.5 };
        *slope = libm::exp2(-f64::from(exponent) * steps / power as f64) as f32;
    }
}

impl Forward<'_, '_> {
    pub(super) fn qkv(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (q_width, kv_width) = (self.config.q_width(), self.config.kv_width());
        let deltas = self.adapters.deltas(work.cursor, self.buffers.input_words);
        let linear = |tensor| deltas.add_to(self.weights.linear(work.cursor.layer, tensor), tensor);
        let parts = if self.config.attention.fused {
            [(0, linear(LayerTensor::Qkv)), (0, None), (0, None)]
        } else {
            [
                (0, linear(LayerTensor::Q)),
                (q_width, linear(LayerTensor::K)),
                (q_width + kv_width, linear(LayerTensor::V)),
            ]
        };
        let Buffers { input, input_words, qkv, scratch, .. } = &mut self.buffers;
        let inputs =
            InputRows::new(input, *input_words, self.config.hidden, self.forms.attention, work.workers(scratch));
        work.each_tile(qkv, scratch, &|tile, scratch| {
            let row = tile.rows().start;
            parts.iter().try_for_each(|(first, linear)| {
                let Some(linear) = linear else { return Ok(()) };
                linear.run(self.level, (&inputs, row), *first, tile, Combine::Set, scratch).ok_or(Fault::Internal)
            })
        })
    }

    /// Clamps, norms and rotates the heads of Q and K in place.
    pub(super) fn rotate(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (config, level) = (&self.config, self.level);
        let (weights, layer) = (&self.weights, work.cursor.layer);
        let norms = [LayerTensor::QNorm, LayerTensor::KNorm]
            .map(|tensor| weights.layer(layer, tensor).map(|norm| (norm, weights.bias(layer, tensor))));
        let table = config.rope.table_of(work.cursor.layer);
        let Buffers { qkv, rotations, scratch, .. } = &mut self.buffers;
        work.each_row(qkv, scratch, &|index, qkv, _| {
            if config.attention.clamp > 0.0 {
                clamp(qkv, config.attention.clamp);
            }
            let (q, kv) = qkv.split_at_mut_checked(config.q_width()).ok_or(Fault::Internal)?;
            let k = kv.get_mut(..config.kv_width()).ok_or(Fault::Internal)?;
            for (heads, norm) in [q, k].into_iter().zip(norms) {
                if let Some((norm, bias)) = norm {
                    let with = |weight| weights.norm(weight, bias);
                    norm_heads(config, level, norm, with, heads).ok_or(Fault::Internal)?;
                }
                if let Some(table) = table {
                    let tables = config.rope.tables();
                    let index = index * tables + table;
                    let rotation = row_of(rotations, index, config.rope.dims).ok_or(Fault::Internal)?;
                    let heads = heads.chunks_exact_mut(config.head_dim.max(1));
                    heads.for_each(|head| rotate(head, rotation, config.rope.pairs));
                }
            }
            Ok(())
        })
    }

    /// Writes K and V into the cache. A unit is a row. Rows of one block share its tiles, so several workers can only take
    /// a KV head each, of many rows, and nothing can end the step between these.
    pub(super) fn store(&mut self, work: Work<'_>, cache: &mut KvCache<'_>) -> Result<usize, Fault> {
        let (q_width, kv_width, qkv_width) = (self.config.q_width(), self.config.kv_width(), self.config.qkv_width());
        let Batch { rows, finished, .. } = work.batch;
        let Buffers { qkv, scratch, .. } = &mut self.buffers;
        let row = |unit: usize| {
            // In the order of the positions: finished rows are the last ones of their sequences.
            let unfinished = rows.len().checked_sub(finished)?;
            let index = if unit < unfinished { unit + finished } else { unit - unfinished };
            let (row, qkv) = (rows.get(index)?, row_of(qkv, index, qkv_width)?);
            let (k, v) = qkv.get(q_width..)?.split_at_checked(kv_width)?;
            Some(KvRow { seq: row.seq(), position: row.position as usize, k, v })
        };
        let (layer, Range { mut start, end }) = (work.cursor.layer, work.take.clone());
        let together = work.watch.is_unlimited() && end - start >= SHARED_ROWS;
        while start < end && work.watch.allows_unit() {
            let next = if together { end.min(start + WRITTEN_ROWS) } else { start + 1 };
            let parallel: &dyn Parallel = if together { work.parallel } else { &Serial };
            let written = cache.write_rows(layer, next - start, &|index| row(start + index), |tiles, body| {
                for_each_tile(parallel, tiles, &scratch.by_worker()?, &Watch::new(&Budget::default()), body)
            });
            written.map_err(|error| match error {
                CacheError::NonFinite => Fault::NonFinite,
                _ => Fault::Internal,
            })?;
            start = next;
        }
        Ok(end - start)
    }

    /// A unit is the query heads of some rows that share a KV head, in some chunks. The chunks that a row looks at make
    /// as many passes as the row that looks at most needs.
    pub(super) fn attend_grid(&self, layer: usize, rows: usize, batch: Batch<'_>) -> Grid {
        let group = self.config.group();
        let tile_rows = attend_rows(group).min(rows.max(1));
        let positions = batch.rows.iter().map(|row| row.position as usize + 1).max().unwrap_or(1);
        let visibility = self.visibility.get(self.config.layer_groups.place(layer).0).copied().unwrap_or_default();
        let chunks = visibility.chunked(positions, tile_rows).div_ceil(CHUNK);
        Grid {
            rows,
            cols: partials_width(&self.config).unwrap_or(0),
            tile_rows,
            tile_cols: partial(&self.config).elements().unwrap_or(0).max(1),
            passes: chunks.div_ceil(attend_chunks(tile_rows, group, self.config.head_dim)),
        }
    }

    /// See [`Forward::attend_grid`].
    pub(super) fn attend(&mut self, work: Work<'_>, cache: &KvCache<'_>) -> Result<usize, Fault> {
        let (tiles, Range { mut start, end }) = (work.grid.tiles(), work.take.clone());
        while start < end {
            let pass = start.checked_div(tiles).ok_or(Fault::Internal)?;
            let next = end.min((pass + 1) * tiles);
            let left =
                self.attend_pass(Work { take: start - pass * tiles..next - pass * tiles, ..work }, pass, cache)?;
            if left > 0 {
                return Ok(end - next + left);
            }
            start = next;
        }
        Ok(0)
    }

    /// Rows of one sequence that follow each other are done together.
    fn attend_pass(&mut self, work: Work<'_>, pass: usize, cache: &KvCache<'_>) -> Result<usize, Fault> {
        let config = &self.config;
        let (width, group, head_dim) = (config.qkv_width(), config.group(), config.head_dim);
        let chunks = attend_chunks(work.grid.tile_rows, group, head_dim);
        let chunks = pass * chunks..(pass + 1) * chunks;
        let Buffers { qkv, partials, scratch, .. } = &mut self.buffers;
        work.each_tile(partials, scratch, &|tile, scratch| {
            let (mut rows, cols) = (tile.rows(), tile.cols());
            let head = cols.start.checked_div(cols.len()).ok_or(Fault::Internal)?;
            let slopes = self.slopes.chunks_exact(group.max(1)).nth(head).unwrap_or_default();
            let Config { attention, .. } = config;
            let scores = Scores { scale: attention.scale, soft_cap: attention.soft_cap, slopes };
            while let Some(row) = work.batch.rows.get(rows.start).filter(|_| !rows.is_empty()) {
                let run = run_length(work.batch.rows.get(rows.clone()).ok_or(Fault::Internal)?);
                let start = rows.start * width + head * group * head_dim;
                let source = cache.layer_source(row.seq(), work.cursor.layer).ok_or(Fault::Internal)?;
                let queries = Queries {
                    q: qkv.get(start..).ok_or(Fault::Internal)?,
                    stride: width,
                    row: rows.start,
                    rows: run,
                    group,
                    head_dim,
                    head,
                    position: row.position as usize,
                    visibility: source.visibility(),
                    scores,
                };
                self.level.attend(&queries, chunks.clone(), &source, tile, scratch).ok_or(Fault::Internal)?;
                rows.start += run;
            }
            Ok(())
        })
    }
}

/// What attention keeps of a row and a KV head.
fn partial(config: &Config) -> Partial {
    Partial { group: config.group(), head_dim: config.head_dim }
}

/// Elements of what it keeps of a row.
pub(super) fn partials_width(config: &Config) -> Option<usize> {
    partial(config).elements()?.checked_mul(config.kv_heads)
}

/// Attention's result for row `index`, `[heads, head_dim]`, from what it kept of the rows.
pub(super) fn finish_heads(config: &Config, partials: &[f32], index: usize, out: &mut [f32]) -> Option<()> {
    let partial = partial(config);
    let mut partials = row_of(partials, index, partials_width(config)?)?.chunks_exact(partial.elements()?.max(1));
    // A zip of these would divide by their length, and that this is not 0 is not always seen.
    out.chunks_exact_mut((partial.group * partial.head_dim).max(1))
        .try_for_each(|out| partial.finish(partials.next()?, out))
}

/// Limits magnitudes. What is not a number stays: the cache refuses it.
fn clamp(x: &mut [f32], limit: f32) {
    for x in x {
        let above = if *x > limit { limit } else { *x };
        *x = if above < -limit { -limit } else { above };
    }
}

/// Norms the heads of a row of Q or of K.
fn norm_heads<'w>(
    config: &Config,
    level: Level,
    weights: TensorView<'w>,
    with: impl Fn(&'w [u8]) -> Norm<'w>,
    heads: &mut [f32],
) -> Option<()> {
    if config.attention.qk_norm == QkNorm::Row {
        level.norm_in_place(&with(weights.row(0)?), heads);
        return Some(());
    }
    let last = weights.rows().checked_sub(1)?;
    for (index, head) in heads.chunks_exact_mut(config.head_dim.max(1)).enumerate() {
        // One row of weights for all heads, or one for each.
        level.norm_in_place(&with(weights.row(index.min(last))?), head);
    }
    Some(())
}

/// How many rows from the first on are successive positions of one sequence.
fn run_length(rows: &[Row]) -> usize {
    let follows = |pair: &[Row]| match pair {
        [a, b] => a.sequence == b.sequence && a.position.checked_add(1) == Some(b.position),
        _ => false,
    };
    1 + rows.windows(2).take_while(|pair| follows(pair)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_of_any_number_of_heads() {
        let slopes = |heads: usize| {
            let mut slopes = vec![0.0; heads];
            fill_slopes(8.0, &mut slopes);
            slopes
        };
        assert_eq!(slopes(8), [1, 2, 3, 4, 5, 6, 7, 8].map(|n| 0.5f32.powi(n)));
        assert_eq!(slopes(4), [2, 4, 6, 8].map(|n| 0.5f32.powi(n)));
        assert_eq!(slopes(6), [2, 4, 6, 8, 1, 3].map(|n| 0.5f32.powi(n)));
        assert_eq!(slopes(1), [0.5f32.powi(8)]);
        assert!(slopes(0).is_empty());
    }
}
