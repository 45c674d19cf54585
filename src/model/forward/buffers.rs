//! The memory of a batch.

use super::adapters::{FLOATS, adapter_words};
use super::attention::partials_width;
use super::{Capacity, Grid};
use crate::error::Fault;
use crate::kernels::{Level, OUTPUTS};
use crate::mem::{Arena, Matrix, MemoryError, Tiles};
use crate::model::Model;
use crate::model::config::Config;
use crate::model::weights::{LayerTensor, layer_dtypes, matrix_dtypes, output_dtype};
use crate::ops::{Choice, InputForms, Linear};

/// The forms in which the inputs of linear layers are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forms {
    pub(super) attention: InputForms,
    pub(super) output: InputForms,
    pub(super) ffn: InputForms,
    pub(super) down: InputForms,
    pub(super) head: InputForms,
}

/// Everything is `[rows, width]` unless it says otherwise.
#[derive(Debug)]
pub(super) struct Buffers<'a> {
    /// Residual stream: hidden.
    pub(super) x: &'a mut [f32],
    /// Inputs of linear layers in their forms: `input_words`. Rows times experts, where there are any.
    pub(super) input: &'a mut [u32],
    pub(super) input_words: usize,
    /// Q, K and V side by side.
    pub(super) qkv: &'a mut [f32],
    /// Attention's result, a partial for each KV head: [`partials_width`].
    pub(super) partials: &'a mut [f32],
    /// A branch before its norm: hidden. Empty where branches end without one.
    pub(super) branch: &'a mut [f32],
    /// Of each expert that a row goes through.
    pub(super) ffn: &'a mut [f32],
    /// The logits of experts; empty where there are none.
    pub(super) router: &'a mut [f32],
    /// The experts that a row goes through.
    pub(super) choices: &'a mut [Choice],
    /// Cosines and sines: rope dims, of each set of frequencies.
    pub(super) rotations: &'a mut [f32],
    /// `[logit_rows, vocab]`.
    pub(super) logits: &'a mut [f32],
    pub(super) scratch: Scratch<'a>,
}

/// What workers need for themselves: `[workers, len]`.
#[derive(Debug)]
pub(super) struct Scratch<'a> {
    pub(super) data: &'a mut [f32],
    pub(super) workers: usize,
    pub(super) len: usize,
}

impl Scratch<'_> {
    /// A row for each worker.
    pub(super) fn by_worker(&mut self) -> Result<Tiles<'_, f32>, Fault> {
        let scratch = Matrix::new(self.data, self.workers, self.len);
        scratch.and_then(Matrix::by_row).ok_or(Fault::Internal)
    }
}

impl Forms {
    pub(super) fn of(model: &Model<'_>) -> Self {
        use LayerTensor::{AttentionOutput, Down, DownExperts, Gate, GateExperts, K, Q, Qkv, Router, Up, UpExperts, V};
        let files = &model.files;
        Self {
            attention: InputForms::of(layer_dtypes(files, &[Q, K, V, Qkv])),
            output: InputForms::of(layer_dtypes(files, &[AttentionOutput])),
            ffn: InputForms::of(layer_dtypes(files, &[Gate, Up, Router, GateExperts, UpExperts])),
            down: InputForms::of(layer_dtypes(files, &[Down, DownExperts])),
            head: InputForms::of(output_dtype(files)),
        }
    }
}

impl<'a> Buffers<'a> {
    pub(super) fn carve(
        arena: &mut Arena<'a>,
        model: &Model<'_>,
        forms: &Forms,
        capacity: Capacity,
    ) -> Result<Self, MemoryError> {
        let config = model.config();
        let Capacity { rows, logit_rows, workers, .. } = capacity;
        let slots = config.ffn_slots();
        let matrix = |rows: usize, cols: usize| rows.checked_mul(cols).ok_or(MemoryError::TooLarge);
        let words = [
            forms.attention.words(config.hidden),
            forms.output.words(config.q_width()),
            forms.ffn.words(config.hidden),
            forms.down.words(config.ffn),
            forms.head.words(config.hidden),
        ];
        let words = words.into_iter().try_fold(0, |max, words| words.map(|words| words.max(max)));
        let input_words = words.and_then(|words| words.checked_add(adapter_words(capacity)));
        let input_words = input_words.ok_or(MemoryError::TooLarge)?;
        let len = scratch_len(model, capacity).ok_or(MemoryError::TooLarge)?;
        let branch = if config.residual.norm_after { config.hidden } else { 0 };
        let partials = partials_width(config).ok_or(MemoryError::TooLarge)?;
        let rotated = config.rope.dims * config.rope.tables();
        Ok(Self {
            x: arena.slice("residual stream", matrix(rows, config.hidden)?)?,
            input: arena.slice("layer inputs", matrix(matrix(rows, slots)?.max(logit_rows), input_words)?)?,
            input_words,
            qkv: arena.slice("q, k, v", matrix(rows, config.qkv_width())?)?,
            partials: arena.slice("attention output", matrix(rows, partials)?)?,
            branch: arena.slice("branch", matrix(rows, branch)?)?,
            ffn: arena.slice("feed-forward", matrix(matrix(rows, slots)?, config.ffn)?)?,
            router: arena.slice("expert logits", matrix(rows, config.feed_forward.experts)?)?,
            choices: arena.slice("experts", matrix(rows, config.feed_forward.experts_used)?)?,
            rotations: arena.slice("rotations", matrix(rows, rotated)?)?,
            logits: arena.slice("logits", matrix(logit_rows, config.vocab)?)?,
            scratch: Scratch { data: arena.slice("worker scratch", matrix(workers, len)?)?, workers, len },
        })
    }
}

/// f32 elements of scratch per worker.
fn scratch_len(model: &Model<'_>, capacity: Capacity) -> Option<usize> {
    let config: &Config = model.config();
    let Capacity { rows, level, .. } = capacity;
    let attention = level.attend_scratch(rows, config.group(), config.head_dim)?;
    let tile_rows = rows.min(Grid::MAX_TILE_ROWS);
    let linear = linear_scratch(model, level, tile_rows)?;
    let widest = config.hidden.max(config.q_width()).max(config.ffn);
    let adapters = if capacity.adapters > 0 {
        // A row, also rounded, and some of its products, or the products of a tile twice.
        let floats = FLOATS.into_iter().map(|dtype| level.products_scratch(dtype)).max()?;
        let twice = linear.checked_add(tile_rows.checked_mul(OUTPUTS)?)?.checked_add(floats)?;
        widest.checked_mul(2)?.checked_add(OUTPUTS)?.checked_add(floats)?.max(twice)
    } else {
        0
    };
    // Rows begin at cache lines.
    attention.max(widest).max(linear).max(adapters).checked_next_multiple_of(16)
}

fn linear_scratch(model: &Model<'_>, level: Level, rows: usize) -> Option<usize> {
    matrix_dtypes(&model.files).try_fold(0, |max, dtype| Some(Linear::scratch(level, dtype, rows)?.max(max)))
}
