//! The memory of a batch.

use super::adapters::FLOATS;
use super::partials::partials_width;
use super::{Capacity, Context, Grid, Input};
use crate::error::Fault;
use crate::kernels::OUTPUTS;
use crate::mem::{Arena, Matrix, MemoryError, Tiles, row_of};
use crate::nn::{Choice, InputForms, Linear};
use crate::weights::{Config, Dtypes, FeedForward, FinalNorm, LayerShape, Pooler, Role};

/// The buffers of a batch. Each is `[rows, width]` unless its comment says otherwise.
#[derive(Debug)]
#[cfg_attr(not(feature = "experts"), allow(dead_code))]
pub(crate) struct Buffers<'a> {
    /// Residual stream. Its width is hidden.
    pub(super) x: &'a mut [f32],
    /// Inputs of linear layers in their forms. The width is [`Context::input_words`]. With experts there is one row for
    /// each expert of each row.
    pub(super) input: &'a mut [u32],
    /// Queries, keys and values side by side.
    pub(super) qkv: &'a mut [f32],
    /// Attention's result, with a partial for each KV head. The width is [`partials_width`].
    pub(super) partials: &'a mut [f32],
    /// A branch before its norm. The width is hidden. Empty if branches end without a norm.
    pub(super) branch: &'a mut [f32],
    /// Results of the gate and up matrices, for all experts that a row goes through.
    pub(super) ffn: &'a mut [f32],
    /// Logits of the experts, or empty without experts.
    pub(super) router: &'a mut [f32],
    /// Experts that a row goes through.
    pub(super) choices: &'a mut [Choice],
    /// The rows in the order of their experts: `Groups`. This is not a matrix.
    pub(super) groups: &'a mut [u32],
    /// Inputs of the experts: one row for each expert of each row, in the order of the experts.
    pub(super) gathered: &'a mut [u32],
    /// Results of the experts, with rows as in `gathered`. The width is hidden.
    pub(super) results: &'a mut [f32],
    /// Cosines and sines. The width is the number of rotated elements of a head, summed over the sets of frequencies.
    pub(super) rotations: &'a mut [f32],
    /// Inputs that every layer gets of each token: `[rows, layers, per_layer]`, or empty.
    pub(super) per_layer: &'a mut [f32],
    /// Results of the input matrices of a recurrent layer. The width is
    /// [`Recurrent::input_width`](crate::weights::Recurrent).
    pub(super) mix: &'a mut [f32],
    /// Result of a recurrent layer before the output matrix. The width is `Recurrent::inner`.
    pub(super) mixed: &'a mut [f32],
    /// Logits, `[logit_rows, vocab]`.
    pub(super) logits: &'a mut [f32],
    /// Hidden states that were given with tokens: `[sequences, given, hidden]`, each at its position modulo `given`.
    /// Empty if the model takes none.
    pub(super) given: &'a mut [f32],
    /// Memory of [`Pooled`](super::Pooled). This is not a matrix.
    pub(super) pooled: &'a mut [f32],
    pub(super) scratch: Scratch<'a>,
}

/// Scratch of the workers: `[workers, len]`.
#[derive(Debug)]
pub(crate) struct Scratch<'a> {
    pub(super) data: &'a mut [f32],
    pub(super) workers: usize,
    pub(super) len: usize,
}

impl Scratch<'_> {
    /// Returns the scratch with one row for each worker.
    pub(super) fn by_worker(&mut self) -> Result<Tiles<'_, f32>, Fault> {
        let scratch = Matrix::new(self.data, self.workers, self.len);
        scratch.and_then(Matrix::by_row).ok_or(Fault::Internal(site!()))
    }
}

impl<'a> Buffers<'a> {
    /// Takes the memory from the arena. `matrices` are the types of the model's matrices. `branches` says whether any
    /// operation writes to [`Buffers::branch`], and `has_logits` whether any operation writes to [`Buffers::logits`].
    pub(crate) fn carve(
        arena: &mut Arena<'a>,
        context: &Context<'_, '_>,
        matrices: Dtypes,
        [branches, has_logits]: [bool; 2],
        capacity: Capacity,
    ) -> Result<Self, MemoryError> {
        let config = &context.config;
        let Capacity { rows, logit_rows, workers, .. } = capacity;
        let FeedForward { experts, experts_used, .. } = config.feed_forward;
        let matrix = |rows: usize, cols: usize| rows.checked_mul(cols).ok_or(MemoryError::TooLarge);
        let pairs = matrix(rows, experts_used)?;
        // Without rows, the buffers of a batch are on a device, and only logits come back.
        let inputs = if rows == 0 { 0 } else { pairs.max(rows).max(logit_rows) };
        let gathered = context.forms.words(Input::FeedForward, config).ok_or(MemoryError::TooLarge)?;
        let ffn = config.widest_ffn().ok_or(MemoryError::TooLarge)?;
        let len = scratch_len(config, matrices, capacity).ok_or(MemoryError::TooLarge)?;
        let widest = |width: fn(&LayerShape) -> Option<usize>| {
            config.layer_shapes().try_fold(0, |max, shape| Some(width(&shape)?.max(max)))
        };
        let partials = widest(partials_width).ok_or(MemoryError::TooLarge)?;
        let per_layer = config.layers.checked_mul(config.embedding.per_layer).ok_or(MemoryError::TooLarge)?;
        let heads = widest(|shape| Some(shape.heads_width())).ok_or(MemoryError::TooLarge)?;
        let sequences = if config.is_predictor() { capacity.sequences } else { 0 };
        let given = sequences.checked_mul(capacity.given()).and_then(|all| all.checked_mul(config.hidden));
        Ok(Self {
            x: arena.slice("residual stream", matrix(rows, config.hidden)?)?,
            input: arena.slice("layer inputs", matrix(inputs, context.input_words)?)?,
            qkv: arena.slice("q, k, v", matrix(rows, heads)?)?,
            partials: arena.slice("attention output", matrix(rows, partials)?)?,
            branch: arena.slice("branch", matrix(rows, if branches { config.hidden } else { 0 })?)?,
            ffn: arena.slice("feed-forward", matrix(rows, ffn)?)?,
            router: arena.slice("expert logits", matrix(rows, config.feed_forward.router_width())?)?,
            choices: arena.slice("experts", pairs)?,
            groups: arena.slice("rows by expert", group_words(pairs, experts).ok_or(MemoryError::TooLarge)?)?,
            gathered: arena.slice("expert inputs", matrix(pairs, gathered)?)?,
            results: arena.slice("expert results", matrix(pairs, config.hidden)?)?,
            rotations: arena.slice("rotations", matrix(rows, config.rope.width())?)?,
            per_layer: arena.slice("per-layer inputs", matrix(rows, per_layer)?)?,
            mix: arena.slice("mixer input", matrix(rows, config.recurrent.input_width())?)?,
            mixed: arena.slice("mixer output", matrix(rows, config.recurrent.inner())?)?,
            logits: arena.slice("logits", matrix(logit_rows, if has_logits { config.vocab } else { 0 })?)?,
            given: arena.slice("given hidden states", given.ok_or(MemoryError::TooLarge)?)?,
            pooled: arena.slice("pooled", pooled_len(config, matrices).ok_or(MemoryError::TooLarge)?)?,
            scratch: Scratch { data: arena.slice("worker scratch", matrix(workers, len)?)?, workers, len },
        })
    }

    /// Returns the place for the logits of the `index`-th row that has logits: `[vocab]`.
    pub(crate) fn logits_mut(&mut self, index: usize, vocab: usize) -> Option<&mut [f32]> {
        self.logits.get_mut(index.checked_mul(vocab)?..)?.get_mut(..vocab)
    }

    /// Returns the logits of the `index`-th row that has logits: `[vocab]`.
    pub(crate) fn logits(&self, index: usize, vocab: usize) -> Option<&[f32]> {
        row_of(self.logits, index, vocab)
    }

    /// Returns the final norm of the `index`-th finished row of the last batch, `[hidden]`, or `None` if there is no
    /// such row.
    pub(crate) fn hidden(&mut self, context: &Context<'_, '_>, index: usize) -> Option<&[f32]> {
        hidden_of(context, self.x, index, self.scratch.data)
    }

    /// Keeps the hidden state `[hidden]` that is given with a token, at a place. Returns `None` if it does not fit
    /// there.
    pub(crate) fn give(&mut self, place: usize, hidden: &[f32]) -> Option<()> {
        give(self.given, place, hidden)
    }

    /// Keeps the result of [`Buffers::hidden`] for a row, at a place.
    pub(crate) fn give_own(&mut self, context: &Context<'_, '_>, index: usize, place: usize) -> Option<()> {
        give(self.given, place, hidden_of(context, self.x, index, self.scratch.data)?)
    }
}

fn give(given: &mut [f32], place: usize, hidden: &[f32]) -> Option<()> {
    let start = place.checked_mul(hidden.len())?;
    let to = given.get_mut(start..start.checked_add(hidden.len())?)?;
    to.iter_mut().zip(hidden).for_each(|(to, &from)| *to = from);
    Some(())
}

/// Returns the final norm of row `index` of the residual stream: `[hidden]`.
pub(super) fn hidden_of<'s>(
    context: &Context<'_, '_>,
    x: &[f32],
    index: usize,
    scratch: &'s mut [f32],
) -> Option<&'s [f32]> {
    let hidden = context.config.hidden;
    let (x, out) = (row_of(x, index, hidden)?, scratch.get_mut(..hidden)?);
    let role = match context.config.head.norm {
        FinalNorm::Output => Role::OutputNorm,
        FinalNorm::Embedding => Role::EmbeddingNorm,
        FinalNorm::Encoder => Role::EncoderNorm,
        FinalNorm::Predictor => Role::PredictorNorm,
    };
    match context.weights.norm(0, role) {
        Some(norm) => context.level.norm(&norm, x, out),
        // The last layer of some encoders ends with a norm, so no final norm follows.
        None => out.iter_mut().zip(x).for_each(|(out, &x)| *out = x),
    }
    Some(out)
}

/// Returns the number of 32-bit elements of [`Buffers::pooled`]: the sums, the result of the first of two matrices, and
/// the input of a matrix. It is 0 if no matrix follows the pooling.
fn pooled_len(config: &Config, matrices: Dtypes) -> Option<usize> {
    let Pooler { dense: [first, second], classifier, classes, .. } = config.pooler;
    if [first, second, classifier, classes] == [0; 4] {
        return Some(0);
    }
    let widest = config.hidden.max(between(config));
    let words = |dtype| InputForms::of([dtype]).words(widest);
    let words = matrices.iter().try_fold(0, |max, dtype| Some(words(dtype)?.max(max)))?;
    config.hidden.checked_add(between(config))?.checked_add(words)
}

/// Returns the number of elements between the two matrices behind the pooling.
pub(super) fn between(config: &Config) -> usize {
    config.pooler.dense[0].max(config.pooler.classifier)
}

/// Returns the number of words of [`Buffers::groups`], for the rows in the order of their experts.
pub(super) fn group_words(pairs: usize, experts: usize) -> Option<usize> {
    pairs.checked_mul(2)?.checked_add(if pairs > 0 { experts } else { 0 })
}

/// Returns the number of f32 elements of scratch per worker.
fn scratch_len(config: &Config, matrices: Dtypes, capacity: Capacity) -> Option<usize> {
    let Capacity { rows, level, .. } = capacity;
    let per_layer = config.layers.checked_mul(config.embedding.per_layer)?;
    let (mut attention, mut layer) = (0, 0);
    for shape in config.layer_shapes() {
        attention = level.attend_scratch(rows, shape.group(), shape.kv.head_dim)?.max(attention);
        layer = shape.q_width().max(shape.ffn).max(layer);
    }
    let FeedForward { experts, experts_used, expert_width, shared_width, .. } = config.feed_forward;
    let tile_rows = rows.checked_mul(experts_used.max(1))?.min(Grid::MAX_TILE_ROWS);
    let linear_of = |dtype| Linear::scratch(level, dtype, tile_rows);
    let linear = matrices.iter().try_fold(0, |max, dtype| Some(linear_of(dtype)?.max(max)))?;
    // A row to be quantized and its norm, or the scratch of a unit of a recurrent layer.
    #[cfg(feature = "recurrent")]
    let mixer = config.recurrent.inner().max(super::recur::scratch_len(&config.recurrent));
    #[cfg(not(feature = "recurrent"))]
    let mixer = 0;
    let widest = config.hidden.max(layer).max(per_layer).max(experts).max(expert_width).max(shared_width).max(mixer);
    let joined = if config.is_predictor() { config.hidden.checked_mul(2)? } else { 0 };
    let widest = widest.max(joined);
    let adapters = if capacity.adapters > 0 {
        // A row, the same row rounded, and some of its products, or the products of a tile twice.
        let floats = FLOATS.into_iter().map(|dtype| level.products_scratch(dtype)).max()?;
        let twice = linear.checked_add(tile_rows.checked_mul(OUTPUTS)?)?.checked_add(floats)?;
        widest.checked_mul(2)?.checked_add(OUTPUTS)?.checked_add(floats)?.max(twice)
    } else {
        0
    };
    // Rows begin at cache lines.
    attention.max(widest).max(linear).max(adapters).checked_next_multiple_of(16)
}
