//! The forward pass over a batch of rows: the one implementation of the transformer.
//!
//! A row is a token at a position of a sequence. Prefill is many rows of one sequence, decode is one row,
//! a crowd of characters is one row from each of many sequences. K and V are written to the cache first and
//! read from there, so all of these see the same rounded values.

use core::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::Model;
use super::config::Config;
use super::stage::{Cursor, Grid, Stage};
use super::weights::{LayerTensor, ModelTensor, Weights, layer_dtypes, matrix_dtypes, output_dtype};
use crate::cache::{CacheError, KvCache, SeqId};
use crate::error::Fault;
use crate::kernels::{Combine, Level, Queries, attend_rows};
use crate::mem::{Arena, Matrix, MemoryError};
use crate::num::is_finite;
use crate::ops::{InputForms, InputRows, inverse_frequencies, linear, linear_scratch, rotate, rotation};
use crate::par::{Parallel, TileBody, Watch, for_each_tile};
use crate::quant::dequantize;
use crate::tensor::TensorView;

/// A row of a batch.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Row {
    /// Bits of the sequence's handle.
    sequence: u32,
    pub(crate) position: u32,
    pub(crate) token: u32,
}

impl Row {
    pub(crate) fn new(seq: SeqId, position: usize, token: u32) -> Self {
        Self { sequence: seq.to_bits(), position: position as u32, token }
    }

    pub(crate) fn seq(&self) -> SeqId {
        SeqId::from_bits(self.sequence)
    }
}

/// Rows that are computed together. A sequence's rows are in the order of their positions, among those with
/// logits and among the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'b> {
    pub(crate) rows: &'b [Row],
    /// The first so many rows have logits.
    pub(crate) logits: usize,
}

/// The largest batch that the buffers hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) rows: usize,
    pub(crate) logit_rows: usize,
    /// Positions that the queries of a batch look at, in whole chunks.
    pub(crate) positions: usize,
    pub(crate) workers: usize,
    pub(crate) level: Level,
}

/// The forms in which the inputs of linear layers are wanted.
#[derive(Clone, Copy, Debug)]
struct Forms {
    attention: InputForms,
    output: InputForms,
    ffn: InputForms,
    down: InputForms,
    head: InputForms,
}

/// A model's weights and the buffers of one batch.
#[derive(Debug)]
pub(crate) struct Forward<'m, 'a> {
    config: Config,
    level: Level,
    weights: Weights<'m, 'a>,
    forms: Forms,
    /// 1 / sqrt(head_dim), rounded once from f64.
    score_scale: f32,
    /// `[rope dims / 2]`.
    inverse_frequencies: &'a mut [f64],
    buffers: Buffers<'a>,
}

/// Everything is `[rows, width]` unless it says otherwise.
#[derive(Debug)]
struct Buffers<'a> {
    /// Residual stream: hidden.
    x: &'a mut [f32],
    /// Inputs of linear layers in their forms: `input_words`.
    input: &'a mut [u32],
    input_words: usize,
    /// Q, K and V side by side.
    qkv: &'a mut [f32],
    /// Attention's result: heads * head_dim.
    heads: &'a mut [f32],
    ffn: &'a mut [f32],
    /// Cosines and sines: rope dims.
    rotations: &'a mut [f32],
    /// `[logit_rows, vocab]`.
    logits: &'a mut [f32],
    scratch: Scratch<'a>,
}

/// What workers need for themselves: `[workers, len]`.
#[derive(Debug)]
struct Scratch<'a> {
    data: &'a mut [f32],
    workers: usize,
    len: usize,
}

impl<'m, 'a> Forward<'m, 'a> {
    /// Takes the memory from the arena and prepares what all batches share.
    pub(crate) fn carve(arena: &mut Arena<'a>, model: &Model<'m>, capacity: Capacity) -> Result<Self, MemoryError> {
        let config = *model.config();
        let forms = Forms::of(model);
        let weights = Weights::carve(arena, model.gguf(), &config)?;
        let frequencies = arena.slice("rotary frequencies", config.rope.dims / 2)?;
        let divisors = weights.model(ModelTensor::RopeDivisors).and_then(|view| view.row(0)).unwrap_or_default();
        let divisors = divisors.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        inverse_frequencies(config.rope.base.into(), config.rope.factor.into(), divisors, frequencies);
        let buffers = Buffers::carve(arena, model, &forms, capacity)?;
        let score_scale = (1.0 / libm::sqrt(config.head_dim as f64)) as f32;
        Ok(Self {
            config,
            level: capacity.level,
            weights,
            forms,
            score_scale,
            inverse_frequencies: frequencies,
            buffers,
        })
    }

    /// The stage after `cursor`.
    pub(crate) fn next(&self, cursor: Cursor, logits: bool) -> Option<Cursor> {
        cursor.next(self.config.layers, logits)
    }

    /// The number by which a fault in a stage is reported: its layer, or the number of layers for the logits.
    pub(crate) fn reported_layer(&self, cursor: Cursor) -> usize {
        match cursor.stage {
            Stage::HeadInput | Stage::Head => self.config.layers,
            _ => cursor.layer,
        }
    }

    /// Units of a stage.
    pub(crate) fn units(&self, cursor: Cursor, batch: Batch<'_>) -> usize {
        self.grid(cursor, batch).units()
    }

    /// Units of a stage and of all that come after it.
    pub(crate) fn units_from(&self, cursor: Cursor, batch: Batch<'_>) -> usize {
        let next = |cursor: &Cursor| self.next(*cursor, batch.logits > 0);
        core::iter::successors(Some(cursor), next).map(|cursor| self.units(cursor, batch)).sum()
    }

    /// The logits of the `index`-th row that wanted them: `[vocab]`.
    pub(crate) fn logits(&self, index: usize) -> Option<&[f32]> {
        let start = index.checked_mul(self.config.vocab)?;
        self.buffers.logits.get(start..start.checked_add(self.config.vocab)?)
    }

    fn grid(&self, cursor: Cursor, batch: Batch<'_>) -> Grid {
        let Config { hidden, ffn, vocab, kv_heads, layers, .. } = self.config;
        let (q_width, words) = (self.config.q_width(), self.buffers.input_words);
        // Once the last layer has its keys and values, only logits are missing.
        let rows = if cursor.is_after_last_store(layers) { batch.logits } else { batch.rows.len() };
        match cursor.stage {
            Stage::Embed => Grid::by_row(rows, hidden),
            Stage::Rotations => Grid::by_row(rows, self.config.rope.dims),
            Stage::AttentionInput | Stage::OutputInput | Stage::FfnInput | Stage::DownInput | Stage::HeadInput => {
                Grid::by_row(rows, words)
            }
            Stage::Qkv => Grid::linear(rows, q_width + 2 * self.config.kv_width(), hidden),
            Stage::Rotate => Grid::by_row(rows, q_width + 2 * self.config.kv_width()),
            Stage::Store => Grid { tile_rows: 1, ..Grid::by_row(rows, 1) },
            Stage::Attend => {
                let tile_cols = q_width.checked_div(kv_heads).unwrap_or(0).max(1);
                let context = batch.rows.iter().map(|row| row.position as usize + 1).max().unwrap_or(1);
                let tile_rows = attend_rows(self.config.group(), self.config.head_dim, context);
                Grid { rows, cols: q_width, tile_rows, tile_cols }
            }
            Stage::AttentionOutput => Grid::linear(rows, hidden, q_width),
            Stage::GateUp => Grid::linear(rows, ffn, 2 * hidden),
            Stage::Down => Grid::linear(rows, hidden, ffn),
            Stage::Head => Grid::linear(rows, vocab, hidden),
        }
    }

    /// Runs the units `take` of a stage as long as `watch` allows it: how many are left, the last ones.
    pub(crate) fn run(
        &mut self,
        cursor: Cursor,
        take: Range<usize>,
        batch: Batch<'_>,
        cache: &mut KvCache<'_>,
        parallel: &dyn Parallel,
        watch: &Watch<'_>,
    ) -> Result<usize, Fault> {
        let work = Work { cursor, take, grid: self.grid(cursor, batch), batch, parallel, watch };
        match cursor.stage {
            Stage::Embed => self.embed(work),
            Stage::Rotations => self.rotations(work),
            Stage::AttentionInput | Stage::OutputInput | Stage::FfnInput | Stage::DownInput | Stage::HeadInput => {
                self.input(work)
            }
            Stage::Qkv => self.qkv(work),
            Stage::Rotate => self.rotate(work),
            Stage::Store => self.store(work, cache),
            Stage::Attend => self.attend(work, cache),
            Stage::AttentionOutput | Stage::Down => self.add_to_residual(work),
            Stage::GateUp => self.gate_up(work),
            Stage::Head => self.head(work),
        }
    }

    fn embed(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let embedding = self.weights.model(ModelTensor::Embedding).ok_or(Fault::Internal)?;
        let Buffers { x, scratch, .. } = &mut self.buffers;
        work.each_row(x, scratch, &|index, out, _| {
            let token = work.batch.rows.get(index).and_then(|row| embedding.row(row.token as usize));
            dequantize(embedding.dtype(), token.ok_or(Fault::Internal)?, out).ok_or(Fault::Internal)
        })
    }

    fn rotations(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let Buffers { rotations, scratch, .. } = &mut self.buffers;
        work.each_row(rotations, scratch, &|index, out, _| {
            let row = work.batch.rows.get(index).ok_or(Fault::Internal)?;
            rotation(row.position as usize, self.inverse_frequencies, out);
            Ok(())
        })
    }

    /// The norm that comes before a linear layer, if there is one, and its result in the forms that the
    /// layer's weights want.
    fn input(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let Cursor { stage, layer } = work.cursor;
        let (config, level, forms) = (&self.config, self.level, &self.forms);
        let norm = |tensor| self.weights.layer(layer, tensor);
        let Buffers { x, input, heads, ffn, scratch, .. } = &mut self.buffers;
        let (source, width, forms, norm) = match stage {
            Stage::AttentionInput => (&**x, config.hidden, forms.attention, norm(LayerTensor::AttentionNorm)),
            Stage::OutputInput => (&**heads, config.q_width(), forms.output, None),
            Stage::FfnInput => (&**x, config.hidden, forms.ffn, norm(LayerTensor::FfnNorm)),
            Stage::DownInput => (&**ffn, config.ffn, forms.down, None),
            _ => (&**x, config.hidden, forms.head, self.weights.model(ModelTensor::OutputNorm)),
        };
        work.each_row(input, scratch, &|index, out, scratch| {
            let source = row_of(source, index, width).ok_or(Fault::Internal)?;
            let Some(norm) = norm else { return forms.prepare(level, source, out) };
            let normed = scratch.get_mut(..width).ok_or(Fault::Internal)?;
            level.rms_norm(source, norm.row(0).ok_or(Fault::Internal)?, config.norm_epsilon, normed);
            forms.prepare(level, normed, out)
        })
    }

    fn qkv(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (q_width, kv_width) = (self.config.q_width(), self.config.kv_width());
        let tensor = |tensor| self.weights.layer(work.cursor.layer, tensor);
        let parts = [
            (0, tensor(LayerTensor::Q)),
            (q_width, tensor(LayerTensor::K)),
            (q_width + kv_width, tensor(LayerTensor::V)),
        ];
        let Buffers { input, input_words, qkv, scratch, .. } = &mut self.buffers;
        let inputs =
            InputRows::new(input, *input_words, self.config.hidden, self.forms.attention, work.workers(scratch));
        work.each_tile(qkv, scratch, &|tile, scratch| {
            for (first, weights) in parts {
                let weights = weights.ok_or(Fault::Internal)?;
                linear(self.level, weights, first, &inputs, tile, Combine::Set, scratch).ok_or(Fault::Internal)?;
            }
            Ok(())
        })
    }

    /// Norms and rotates the heads of Q and K in place.
    fn rotate(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let config = &self.config;
        let norm = |tensor| self.weights.layer(work.cursor.layer, tensor);
        let norms = [norm(LayerTensor::QNorm), norm(LayerTensor::KNorm)];
        let Buffers { qkv, rotations, scratch, .. } = &mut self.buffers;
        work.each_row(qkv, scratch, &|index, qkv, _| {
            let rotations = row_of(rotations, index, config.rope.dims).ok_or(Fault::Internal)?;
            rotate_heads(config, self.level, norms, rotations, qkv).ok_or(Fault::Internal)
        })
    }

    /// Writes K and V into the cache. Rows of one block share its tiles, so this is not for several workers.
    fn store(&mut self, work: Work<'_>, cache: &mut KvCache<'_>) -> Result<usize, Fault> {
        let (q_width, kv_width) = (self.config.q_width(), self.config.kv_width());
        let Batch { rows, logits } = work.batch;
        let Range { mut start, end } = work.take;
        while start < end && work.watch.allows_unit() {
            let unit = start;
            // In the order of the positions: rows with logits are the last ones of their sequences.
            let index = if unit < rows.len() - logits { unit + logits } else { unit - (rows.len() - logits) };
            let row = rows.get(index).ok_or(Fault::Internal)?;
            let qkv = row_of(self.buffers.qkv, index, q_width + 2 * kv_width).ok_or(Fault::Internal)?;
            let kv = qkv.get(q_width..).and_then(|kv| kv.split_at_checked(kv_width));
            let (k, v) = kv.ok_or(Fault::Internal)?;
            let written = cache.write_row(row.seq(), work.cursor.layer, row.position as usize, k, v);
            written.map_err(|error| match error {
                CacheError::NonFinite => Fault::NonFinite,
                _ => Fault::Internal,
            })?;
            start += 1;
        }
        Ok(end - start)
    }

    /// A unit is the query heads of some rows that share a KV head; rows of one sequence that follow each
    /// other are done together.
    fn attend(&mut self, work: Work<'_>, cache: &KvCache<'_>) -> Result<usize, Fault> {
        let (config, scale) = (&self.config, self.score_scale);
        let width = config.q_width() + 2 * config.kv_width();
        let Buffers { qkv, heads, scratch, .. } = &mut self.buffers;
        work.each_tile(heads, scratch, &|tile, scratch| {
            let (mut rows, cols) = (tile.rows(), tile.cols());
            while let Some(row) = work.batch.rows.get(rows.start).filter(|_| !rows.is_empty()) {
                let run = run_length(work.batch.rows.get(rows.clone()).ok_or(Fault::Internal)?);
                let start = rows.start.checked_mul(width).and_then(|start| start.checked_add(cols.start));
                let source = cache.layer_source(row.seq(), work.cursor.layer).ok_or(Fault::Internal)?;
                let queries = Queries {
                    q: start.and_then(|start| qkv.get(start..)).ok_or(Fault::Internal)?,
                    stride: width,
                    row: rows.start,
                    rows: run,
                    group: config.group(),
                    head_dim: config.head_dim,
                    head: cols.start.checked_div(cols.len()).ok_or(Fault::Internal)?,
                    position: row.position as usize,
                    visibility: source.visibility(),
                    scale,
                };
                self.level.attend(&queries, &source, tile, scratch).ok_or(Fault::Internal)?;
                rows.start += run;
            }
            Ok(())
        })
    }

    /// The linear layers that end a branch.
    fn add_to_residual(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (tensor, width, forms) = match work.cursor.stage {
            Stage::AttentionOutput => (LayerTensor::AttentionOutput, self.config.q_width(), self.forms.output),
            _ => (LayerTensor::Down, self.config.ffn, self.forms.down),
        };
        let weights = self.weights.layer(work.cursor.layer, tensor).ok_or(Fault::Internal)?;
        let Buffers { x, input, input_words, scratch, .. } = &mut self.buffers;
        let inputs = InputRows::new(input, *input_words, width, forms, work.workers(scratch));
        work.each_tile(x, scratch, &|tile, scratch| {
            linear(self.level, weights, 0, &inputs, tile, Combine::Add, scratch).ok_or(Fault::Internal)
        })
    }

    fn gate_up(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let tensor = |tensor| self.weights.layer(work.cursor.layer, tensor).ok_or(Fault::Internal);
        let (gate, up) = (tensor(LayerTensor::Gate)?, tensor(LayerTensor::Up)?);
        let Buffers { input, input_words, ffn, scratch, .. } = &mut self.buffers;
        let inputs = InputRows::new(input, *input_words, self.config.hidden, self.forms.ffn, work.workers(scratch));
        work.each_tile(ffn, scratch, &|tile, scratch| {
            linear(self.level, gate, 0, &inputs, tile, Combine::Set, scratch).ok_or(Fault::Internal)?;
            linear(self.level, up, 0, &inputs, tile, Combine::Gate, scratch).ok_or(Fault::Internal)
        })
    }

    fn head(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let weights = self.weights.output().ok_or(Fault::Internal)?;
        let Buffers { input, input_words, logits, scratch, .. } = &mut self.buffers;
        let inputs = InputRows::new(input, *input_words, self.config.hidden, self.forms.head, work.workers(scratch));
        work.each_tile(logits, scratch, &|tile, scratch| {
            linear(self.level, weights, 0, &inputs, tile, Combine::Set, scratch).ok_or(Fault::Internal)?;
            let mut rows = tile.rows();
            let finite = rows.all(|row| tile.row_mut(row).is_some_and(|logits| logits.iter().all(|&y| is_finite(y))));
            if finite { Ok(()) } else { Err(Fault::NonFinite) }
        })
    }
}

/// Fills a row, given its index, with a worker's scratch.
type RowBody<'b, T> = dyn Fn(usize, &mut [T], &mut [f32]) -> Result<(), Fault> + Sync + 'b;

/// The units of a stage that are to be done now.
struct Work<'w> {
    cursor: Cursor,
    take: Range<usize>,
    grid: Grid,
    batch: Batch<'w>,
    parallel: &'w dyn Parallel,
    watch: &'w Watch<'w>,
}

impl Work<'_> {
    /// Workers that take tiles at the same time.
    fn workers(&self, scratch: &Scratch<'_>) -> usize {
        self.parallel.slots().min(scratch.workers)
    }

    /// Fills the rows of `out` that are due: `body(index, row, scratch)`.
    fn each_row<T: Send>(
        &self,
        out: &mut [T],
        scratch: &mut Scratch<'_>,
        body: &RowBody<'_, T>,
    ) -> Result<usize, Fault> {
        self.each_tile(out, scratch, &|tile, scratch| {
            tile.rows().try_for_each(|row| body(row, tile.row_mut(row).ok_or(Fault::Internal)?, scratch))
        })
    }

    /// Fills the tiles of `out` that are due, several at once where there are workers: how many are left.
    fn each_tile<T: Send>(
        &self,
        out: &mut [T],
        scratch: &mut Scratch<'_>,
        body: &TileBody<'_, T>,
    ) -> Result<usize, Fault> {
        let Grid { rows, cols, tile_rows, tile_cols } = self.grid;
        let tiles = Matrix::new(out, rows, cols).and_then(|out| out.tiles(tile_rows, tile_cols, self.take.clone()));
        let scratch = Matrix::new(scratch.data, scratch.workers, scratch.len);
        let scratch = scratch.and_then(|scratch| scratch.by_row());
        let (tiles, scratch) = (tiles.ok_or(Fault::Internal)?, scratch.ok_or(Fault::Internal)?);
        for_each_tile(self.parallel, &tiles, &scratch, self.watch, body)
    }
}

impl Forms {
    fn of(model: &Model<'_>) -> Self {
        use LayerTensor::{AttentionOutput, Down, Gate, K, Q, Up, V};
        let gguf = model.gguf();
        Self {
            attention: InputForms::of(layer_dtypes(gguf, &[Q, K, V])),
            output: InputForms::of(layer_dtypes(gguf, &[AttentionOutput])),
            ffn: InputForms::of(layer_dtypes(gguf, &[Gate, Up])),
            down: InputForms::of(layer_dtypes(gguf, &[Down])),
            head: InputForms::of(output_dtype(gguf)),
        }
    }
}

impl<'a> Buffers<'a> {
    fn carve(arena: &mut Arena<'a>, model: &Model<'_>, forms: &Forms, capacity: Capacity) -> Result<Self, MemoryError> {
        let config = model.config();
        let Capacity { rows, logit_rows, positions, workers, .. } = capacity;
        let matrix = |rows: usize, cols: usize| rows.checked_mul(cols).ok_or(MemoryError::TooLarge);
        let words = [
            forms.attention.words(config.hidden),
            forms.output.words(config.q_width()),
            forms.ffn.words(config.hidden),
            forms.down.words(config.ffn),
            forms.head.words(config.hidden),
        ];
        let words = words.into_iter().try_fold(0, |max, words| words.map(|words| words.max(max)));
        let input_words = words.ok_or(MemoryError::TooLarge)?;
        let attention = capacity.level.attend_scratch(rows, config.group(), config.head_dim, positions);
        let attention = attention.ok_or(MemoryError::TooLarge)?;
        let linear = matrix_dtypes(model.gguf()).try_fold(0, |max, dtype| {
            linear_scratch(capacity.level, dtype, rows.min(Grid::MAX_TILE_ROWS)).map(|len| len.max(max))
        });
        let len = attention.max(config.hidden).max(linear.ok_or(MemoryError::TooLarge)?);
        // Rows begin at cache lines.
        let len = len.checked_next_multiple_of(16).ok_or(MemoryError::TooLarge)?;
        Ok(Self {
            x: arena.slice("residual stream", matrix(rows, config.hidden)?)?,
            input: arena.slice("layer inputs", matrix(rows.max(logit_rows), input_words)?)?,
            input_words,
            qkv: arena.slice("q, k, v", matrix(rows, config.q_width() + 2 * config.kv_width())?)?,
            heads: arena.slice("attention output", matrix(rows, config.q_width())?)?,
            ffn: arena.slice("feed-forward", matrix(rows, config.ffn)?)?,
            rotations: arena.slice("rotations", matrix(rows, config.rope.dims)?)?,
            logits: arena.slice("logits", matrix(logit_rows, config.vocab)?)?,
            scratch: Scratch { data: arena.slice("worker scratch", matrix(workers, len)?)?, workers, len },
        })
    }
}

/// Norms and rotates the heads of Q and K in one row of `[q, k, v]`.
fn rotate_heads(
    config: &Config,
    level: Level,
    norms: [Option<TensorView<'_>>; 2],
    rotations: &[f32],
    qkv: &mut [f32],
) -> Option<()> {
    let (q, kv) = qkv.split_at_mut_checked(config.q_width())?;
    let k = kv.get_mut(..config.kv_width())?;
    for (heads, norm) in [q, k].into_iter().zip(norms) {
        for head in heads.chunks_exact_mut(config.head_dim.max(1)) {
            if let Some(norm) = norm {
                level.rms_norm_in_place(head, norm.row(0)?, config.norm_epsilon);
            }
            rotate(head, rotations, config.rope.pairs);
        }
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

fn row_of(data: &[f32], row: usize, width: usize) -> Option<&[f32]> {
    let start = row.checked_mul(width)?;
    data.get(start..start.checked_add(width)?)
}
