//! The forward pass over a batch of rows: the one implementation of the transformer.
//!
//! A row is a token at a position of a sequence. Prefill is many rows of one sequence, decode is one row,
//! a crowd of characters is one row from each of many sequences. K and V are written to the cache first and
//! read from there, so all of these see the same rounded values.

mod adapters;
mod attention;
mod buffers;
mod feed_forward;
mod work;

use core::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::Model;
use super::config::Config;
use super::stage::{Cursor, Ends, Grid, Program, Stage};
use super::weights::{LayerTensor, ModelTensor, Weights};
use crate::cache::{KvCache, MAX_GROUPS, SeqId};
use crate::error::Fault;
use crate::kernels::{Combine, Level, Visibility};
use crate::mem::{Arena, MemoryError};
use crate::num::is_finite;
use crate::ops::{InputRows, rotation};
use crate::par::{Parallel, Watch};
use crate::quant::dequantize;
use adapters::Adapters;
pub(crate) use adapters::MAX_ADAPTERS;
use attention::finish_heads;
use buffers::{Buffers, Forms};
use work::Work;

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
    /// A token at this position of any sequence, to count units by.
    pub(crate) fn at(position: usize) -> Self {
        Self { position: position as u32, ..Self::zeroed() }
    }

    pub(crate) fn new(seq: SeqId, position: usize, token: u32) -> Self {
        Self { sequence: seq.to_bits(), position: position as u32, token }
    }

    pub(crate) fn seq(&self) -> SeqId {
        SeqId::from_bits(self.sequence)
    }
}

/// Rows that are computed together. A sequence's rows are in the order of their positions, among those that are finished
/// and among the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'b> {
    pub(crate) rows: &'b [Row],
    /// The first so many rows go through all layers; of the others only keys and values are wanted.
    pub(crate) finished: usize,
    /// The first so many of these have logits.
    pub(crate) logits: usize,
}

/// The largest batch that the buffers hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) rows: usize,
    pub(crate) logit_rows: usize,
    /// Tokens that a sequence can have.
    pub(crate) context: usize,
    /// What the layers of each group see.
    pub(crate) visibility: [Visibility; MAX_GROUPS],
    pub(crate) sequences: usize,
    /// Adapters that can be loaded.
    pub(crate) adapters: usize,
    /// The largest rank of their matrices.
    pub(crate) adapter_rank: usize,
    pub(crate) workers: usize,
    pub(crate) level: Level,
}

/// A model's weights and the buffers of one batch.
#[derive(Debug)]
pub(crate) struct Forward<'m, 'a> {
    config: Config,
    program: Program,
    level: Level,
    /// What the layers of each group see.
    visibility: [Visibility; MAX_GROUPS],
    weights: Weights<'m, 'a>,
    forms: Forms,
    adapters: Adapters<'m, 'a>,
    /// `[sets of frequencies, rope dims / 2]`.
    frequencies: &'a mut [f64],
    /// Slopes of ALiBi: `[heads]`, or none.
    slopes: &'a mut [f32],
    buffers: Buffers<'a>,
}

impl<'m, 'a> Forward<'m, 'a> {
    /// Takes the memory from the arena and prepares what all batches share.
    pub(crate) fn carve(arena: &mut Arena<'a>, model: &Model<'m>, capacity: Capacity) -> Result<Self, MemoryError> {
        let config = *model.config();
        let forms = Forms::of(model);
        let weights = Weights::carve(arena, &model.files, &config)?;
        let frequencies = arena.slice("rotary frequencies", config.rope.tables() * (config.rope.dims / 2))?;
        let divisors = match config.rope.is_long(capacity.context) {
            None => ModelTensor::RopeDivisors,
            Some(false) => ModelTensor::ShortRopeDivisors,
            Some(true) => ModelTensor::LongRopeDivisors,
        };
        let divisors = weights.model(divisors).and_then(|view| view.row(0)).unwrap_or_default();
        let divisors = divisors.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        let tables = frequencies.chunks_exact_mut((config.rope.dims / 2).max(1));
        for (table, set) in tables.zip(config.rope.frequencies.iter().flatten()) {
            set.fill(divisors.clone(), table);
        }
        let slopes = arena.slice("slopes", if config.attention.alibi > 0.0 { config.heads } else { 0 })?;
        attention::fill_slopes(config.attention.alibi, slopes);
        let adapters = Adapters::carve(arena, &config, capacity)?;
        let buffers = Buffers::carve(arena, model, &forms, capacity)?;
        Ok(Self {
            program: Program {
                layers: config.layers,
                rotary: config.rope.tables() > 0,
                parallel: config.residual.parallel,
                norm_after: config.residual.norm_after,
                experts: config.feed_forward.experts > 0,
            },
            config,
            level: capacity.level,
            visibility: capacity.visibility,
            weights,
            forms,
            adapters,
            frequencies,
            slopes,
            buffers,
        })
    }

    /// What adapters add to which sequences.
    pub(crate) fn adapters(&self) -> &Adapters<'m, 'a> {
        &self.adapters
    }

    /// To change that.
    pub(crate) fn adapters_mut(&mut self) -> &mut Adapters<'m, 'a> {
        &mut self.adapters
    }

    /// The stage after `cursor`.
    pub(crate) fn next(&self, cursor: Cursor, batch: Batch<'_>) -> Option<Cursor> {
        cursor.next(&self.program, Ends { finish: batch.finished > 0, logits: batch.logits > 0 })
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
        let next = |cursor: &Cursor| self.next(*cursor, batch);
        core::iter::successors(Some(cursor), next).map(|cursor| self.units(cursor, batch)).sum()
    }

    /// The logits of the `index`-th row that wanted them: `[vocab]`.
    pub(crate) fn logits(&self, index: usize) -> Option<&[f32]> {
        let start = index.checked_mul(self.config.vocab)?;
        self.buffers.logits.get(start..start.checked_add(self.config.vocab)?)
    }

    /// The final norm of the `index`-th finished row of the last batch: `[hidden]`. `None` where there is no such row.
    pub(crate) fn hidden(&mut self, index: usize) -> Option<&[f32]> {
        let Buffers { x, scratch, .. } = &mut self.buffers;
        let out = scratch.data.get_mut(..self.config.hidden)?;
        self.level.norm(&self.weights.output_norm()?, row_of(x, index, self.config.hidden)?, out);
        Some(out)
    }

    fn grid(&self, cursor: Cursor, batch: Batch<'_>) -> Grid {
        let Config { hidden, ffn, vocab, layers, feed_forward, .. } = self.config;
        let (q_width, qkv_width, words) = (self.config.q_width(), self.config.qkv_width(), self.buffers.input_words);
        let rows = match cursor.stage {
            Stage::HeadInput | Stage::Head => batch.logits,
            _ if cursor.is_after_last_store(layers) => batch.finished,
            _ => batch.rows.len(),
        };
        match cursor.stage {
            Stage::Embed | Stage::AddAttention | Stage::AddFfn => Grid::by_row(rows, hidden),
            Stage::Rotations => Grid::by_row(rows, self.config.rope.dims * self.config.rope.tables()),
            Stage::AttentionInput | Stage::OutputInput | Stage::FfnInput | Stage::HeadInput => {
                Grid::by_row(rows, words)
            }
            Stage::Qkv => Grid::linear(rows, qkv_width, hidden),
            Stage::Rotate => Grid::by_row(rows, qkv_width),
            Stage::Store => Grid { tile_rows: 1, ..Grid::by_row(rows, 1) },
            Stage::Attend => self.attend_grid(cursor.layer, rows, batch),
            Stage::AttentionOutput => Grid::linear(rows, hidden, q_width),
            Stage::Route => Grid::linear(rows, feed_forward.experts, hidden),
            Stage::Choose => Grid::by_row(rows, feed_forward.experts_used),
            // Rows that follow each other go through different experts.
            Stage::GateUp if feed_forward.experts > 0 => {
                Grid { rows: rows * feed_forward.experts_used, ..Grid::linear(1, ffn, 2 * hidden) }
            }
            Stage::GateUp => Grid::linear(rows, ffn, 2 * hidden),
            Stage::DownInput => Grid::by_row(rows * self.config.ffn_slots(), words),
            Stage::Down if feed_forward.experts > 0 => {
                Grid { rows, ..Grid::linear(1, hidden, ffn * feed_forward.experts_used) }
            }
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
        let experts = self.program.experts;
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
            Stage::Route => self.route(work),
            Stage::Choose => self.choose(work),
            Stage::GateUp if experts => self.expert_gate_up(work),
            Stage::GateUp => self.gate_up(work),
            Stage::Down if experts => self.expert_down(work),
            Stage::AttentionOutput | Stage::Down => self.end_branch(work),
            Stage::AddAttention | Stage::AddFfn => self.add_branch(work),
            Stage::Head => self.head(work),
        }
    }

    fn embed(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (level, scale) = (self.level, self.config.embedding.scale);
        let embedding = self.weights.model(ModelTensor::Embedding).ok_or(Fault::Internal)?;
        let positions = self.weights.model(ModelTensor::Positions);
        let norm = self.weights.embedding_norm();
        let Buffers { x, scratch, .. } = &mut self.buffers;
        work.each_row(x, scratch, &|index, out, scratch| {
            let row = work.batch.rows.get(index).ok_or(Fault::Internal)?;
            let token = embedding.row(row.token as usize).ok_or(Fault::Internal)?;
            dequantize(embedding.dtype(), token, out).ok_or(Fault::Internal)?;
            if scale != 1.0 {
                out.iter_mut().for_each(|x| *x *= scale);
            }
            if let Some(positions) = positions {
                let position = positions.row(row.position as usize).ok_or(Fault::Internal)?;
                let learned = scratch.get_mut(..out.len()).ok_or(Fault::Internal)?;
                dequantize(positions.dtype(), position, learned).ok_or(Fault::Internal)?;
                level.combine(Combine::Add, out, learned);
            }
            if let Some(norm) = norm {
                level.norm_in_place(&norm, out);
            }
            Ok(())
        })
    }

    fn rotations(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let rope = self.config.rope;
        let Buffers { rotations, scratch, .. } = &mut self.buffers;
        work.each_row(rotations, scratch, &|index, out, _| {
            let row = work.batch.rows.get(index).ok_or(Fault::Internal)?;
            let tables = self.frequencies.chunks_exact((rope.dims / 2).max(1)).zip(rope.frequencies.iter().flatten());
            for (out, (frequencies, set)) in out.chunks_exact_mut(rope.dims.max(1)).zip(tables) {
                rotation(row.position as usize, frequencies, set.magnitude, out);
            }
            Ok(())
        })
    }

    /// What comes before a linear layer, a norm or the end of attention, and the result in the forms that the layer's
    /// weights want.
    fn input(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let Cursor { stage, layer } = work.cursor;
        let (config, level, forms, weights) = (&self.config, self.level, &self.forms, &self.weights);
        let attention_norm = weights.layer_norm(layer, LayerTensor::AttentionNorm);
        let Buffers { x, input, partials, ffn, scratch, .. } = &mut self.buffers;
        let (source, width, forms, norm) = match stage {
            Stage::AttentionInput => (&**x, config.hidden, forms.attention, attention_norm),
            Stage::OutputInput => (&**partials, config.q_width(), forms.output, None),
            Stage::FfnInput if config.residual.shared_norm => (&**x, config.hidden, forms.ffn, attention_norm),
            Stage::FfnInput => (&**x, config.hidden, forms.ffn, weights.layer_norm(layer, LayerTensor::FfnNorm)),
            Stage::DownInput => (&**ffn, config.ffn, forms.down, None),
            _ => (&**x, config.hidden, forms.head, weights.output_norm()),
        };
        let adapters = &self.adapters;
        work.each_row(input, scratch, &|index, out, scratch| {
            let (ready, scratch) = scratch.split_at_mut_checked(width).ok_or(Fault::Internal)?;
            let source = match &norm {
                _ if stage == Stage::OutputInput => {
                    finish_heads(config, source, index, ready).ok_or(Fault::Internal)?;
                    ready
                }
                Some(norm) => {
                    level.norm(norm, row_of(source, index, width).ok_or(Fault::Internal)?, ready);
                    ready
                }
                None => row_of(source, index, width).ok_or(Fault::Internal)?,
            };
            forms.prepare(level, source, out)?;
            if adapters.is_empty() {
                return Ok(());
            }
            let seq = work.batch.rows.get(index).map(Row::seq);
            adapters.project(level, work.cursor, seq, source, out, scratch).ok_or(Fault::Internal)
        })
    }

    /// The linear layers that end a branch: added to the residual stream, where no norm follows.
    fn end_branch(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (tensor, width, forms) = match work.cursor.stage {
            Stage::AttentionOutput => (LayerTensor::AttentionOutput, self.config.q_width(), self.forms.output),
            _ => (LayerTensor::Down, self.config.ffn, self.forms.down),
        };
        let deltas = self.adapters.deltas(work.cursor, self.buffers.input_words);
        let linear = deltas.add_to(self.weights.linear(work.cursor.layer, tensor), tensor).ok_or(Fault::Internal)?;
        let how = if self.program.norm_after { Combine::Set } else { add_scaled(self.config.residual.scale) };
        let Buffers { x, branch, input, input_words, scratch, .. } = &mut self.buffers;
        let inputs = InputRows::new(input, *input_words, width, forms, work.workers(scratch));
        let out = if self.program.norm_after { branch } else { x };
        work.each_tile(out, scratch, &|tile, scratch| {
            linear.run(self.level, (&inputs, tile.rows().start), 0, tile, how, scratch).ok_or(Fault::Internal)
        })
    }

    /// The norm of a branch, added to the residual stream.
    fn add_branch(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (level, hidden, how) = (self.level, self.config.hidden, add_scaled(self.config.residual.scale));
        let tensor = match work.cursor.stage {
            Stage::AddAttention => LayerTensor::PostAttentionNorm,
            _ => LayerTensor::PostFfnNorm,
        };
        let norm = self.weights.layer_norm(work.cursor.layer, tensor).ok_or(Fault::Internal)?;
        let Buffers { x, branch, scratch, .. } = &mut self.buffers;
        work.each_row(x, scratch, &|index, out, scratch| {
            let normed = scratch.get_mut(..hidden).ok_or(Fault::Internal)?;
            level.norm(&norm, row_of(branch, index, hidden).ok_or(Fault::Internal)?, normed);
            level.combine(how, out, normed);
            Ok(())
        })
    }

    fn head(&mut self, work: Work<'_>) -> Result<usize, Fault> {
        let (level, head) = (self.level, self.config.head);
        let output = self.weights.output().ok_or(Fault::Internal)?;
        let Buffers { input, input_words, logits, scratch, .. } = &mut self.buffers;
        let inputs = InputRows::new(input, *input_words, self.config.hidden, self.forms.head, work.workers(scratch));
        work.each_tile(logits, scratch, &|tile, scratch| {
            let mut rows = tile.rows();
            output.run(level, (&inputs, rows.start), 0, tile, Combine::Set, scratch).ok_or(Fault::Internal)?;
            rows.try_for_each(|row| {
                let logits = tile.row_mut(row).ok_or(Fault::Internal)?;
                if head.scale != 1.0 {
                    logits.iter_mut().for_each(|logit| *logit *= head.scale);
                }
                if head.soft_cap > 0.0 {
                    level.soft_cap(head.soft_cap, logits);
                }
                if logits.iter().all(|&logit| is_finite(logit)) { Ok(()) } else { Err(Fault::NonFinite) }
            })
        })
    }
}

/// How a branch is added to the residual stream.
fn add_scaled(scale: f32) -> Combine {
    if scale == 1.0 { Combine::Add } else { Combine::AddScaled(scale) }
}

fn row_of(data: &[f32], row: usize, width: usize) -> Option<&[f32]> {
    let start = row.checked_mul(width)?;
    data.get(start..start.checked_add(width)?)
}
