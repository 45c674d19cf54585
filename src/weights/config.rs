//! The numbers and choices of a model that its operations read.

use core::ops::Range;

use super::layer::HeadGates;
use super::recurrent::Recurrent;
use crate::kernels::{Activation, NormKind};
use crate::kv::{KvShape, LayerGroups, LayerSet, MAX_GROUPS};
use crate::nn::{Frequencies, RopePairs, Routing, Temperature};

/// The numbers and choices of a model that its operations read. The order of the operations is its program.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// `general.architecture`.
    pub architecture: &'static str,
    /// Decoder layers.
    pub layers: usize,
    /// The number in the file of the first of them: not 0 only in what [`Model::predictor`](crate::Model::predictor)
    /// returns.
    pub first_layer: u16,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer in most layers; where every layer has experts, of one of them.
    pub ffn: usize,
    /// Query heads.
    pub heads: usize,
    /// Keys and values of a layer of each group; the number of their heads divides `heads`.
    pub kv_shapes: [KvShape; MAX_GROUPS],
    /// Token ids are below this.
    pub vocab: usize,
    /// Tokens that the model was trained on at a time.
    pub context: usize,
    /// How a token becomes the first residual row.
    pub embedding: Embedding,
    /// Of all norms.
    pub norm: NormKind,
    /// Added to the mean square in norms.
    pub norm_epsilon: f32,
    /// What branches are multiplied by before they are added to the residual stream.
    pub residual_scale: f32,
    /// The layers that have attention.
    pub attention_layers: LayerSet,
    /// The last so many layers have no keys and values of their own: they read those of the last layer before them, in
    /// the same group, that has some.
    pub shared_kv: usize,
    /// Queries, keys, values and scores.
    pub attention: Attention,
    /// The layers that have a state, and what it is.
    pub recurrent: Recurrent,
    /// How positions turn queries and keys.
    pub rope: Rope,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
    /// What becomes of the output matrix's results.
    pub head: Head,
    /// Where linear layers and norms have biases.
    pub biases: Biases,
    /// Which layers share a KV pool.
    pub layer_groups: LayerGroups,
    /// How many of the last positions the layers of each group see; 0 stands for all. Where attention is not causal, a
    /// window of W reaches W / 2 positions to both sides.
    pub windows: [usize; MAX_GROUPS],
    /// How the hidden states of a text become one vector.
    pub pooler: Pooler,
}

/// How a token becomes the first residual row.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Embedding {
    /// What rows of the embedding are multiplied by.
    pub scale: f32,
    /// Rows of learned positions, which are added; 0 if there are none. Sequences are not longer.
    pub positions: usize,
    /// Rows of learned types of tokens, of which the first is added; 0 if there are none.
    pub types: usize,
    /// Whether there is a norm after that.
    pub norm: bool,
    /// Elements of what every layer gets of each token beside the residual stream; 0 if it gets nothing.
    pub per_layer: usize,
}

/// Queries, keys, values and scores.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Whether a token sees no token after it. Elsewhere all tokens of a text run in one batch.
    pub causal: bool,
    /// What products of queries and keys are multiplied by.
    pub scale: f32,
    /// Scores s become `cap * tanh(s / cap)`; 0 for none.
    pub soft_cap: f32,
    /// The exponent of the steepest slope of ALiBi: 8 stands for 2^-8 at the last head; 0 for none.
    pub alibi: f32,
    /// Queries, keys and values are clamped to this magnitude; 0 for none.
    pub clamp: f32,
    /// How queries and keys are normalized.
    pub qk_norm: QkNorm,
    /// Whether they are normalized after the rotation.
    pub norm_after_rotation: bool,
    /// Whether each head of the values is normalized, without weights.
    pub norm_values: bool,
    /// The layers whose values are their keys, as they are before the keys' norm.
    pub keys_as_values: LayerSet,
    /// What queries are multiplied by after it, by position.
    pub temperature: Option<Temperature>,
    /// Whether each head has a score of its own that takes part in every softmax, without a value.
    pub sink_scores: bool,
    /// Whether Q, K and V are one matrix.
    pub fused: bool,
    /// What the heads' results are multiplied by.
    pub gates: HeadGates,
}

/// How queries and keys are normalized.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Not at all.
    None,
    /// Each head by itself, with the same weights.
    Heads,
    /// Each head by itself, with weights of its own.
    EachHead,
    /// All heads as one row.
    Row,
}

/// Rotary position embedding.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Elements of each head that are rotated, in the layers of each group; even.
    pub dims: [usize; MAX_GROUPS],
    /// Which elements form a pair.
    pub pairs: RopePairs,
    /// Sequences planned longer than this take the long divisors of the frequencies; 0 if the file has none.
    pub original_context: usize,
    /// Which layers have which of the frequencies.
    pub groups: LayerGroups,
    /// The frequencies of the layers of each group; `None` where nothing is rotated.
    pub frequencies: [Option<Frequencies>; MAX_GROUPS],
    /// Whether they are divided by the divisors that a file may have.
    pub divided: [bool; MAX_GROUPS],
}

/// The feed-forward layer.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedForward {
    /// The layers of another width than [`Config::ffn`].
    pub other_layers: LayerSet,
    /// That width.
    pub other_width: usize,
    /// The non-linear function.
    pub activation: Activation,
    /// What it is applied to.
    pub gate: Gate,
    /// Experts per layer; 0 where there is one feed-forward layer for all tokens.
    pub experts: usize,
    /// How many of them a token goes through.
    pub experts_used: usize,
    /// Width of an expert.
    pub expert_width: usize,
    /// Whether the rows of an expert's gate matrix lie before those of its up matrix, in one tensor.
    pub fused_experts: bool,
    /// How they are chosen and weighted.
    pub routing: Routing,
    /// Width of what every token goes through beside its experts; 0 for none.
    pub shared_width: usize,
    /// Whether its result is multiplied by the sigmoid of one more output of the router.
    pub shared_gate: bool,
    /// The first so many layers have a feed-forward layer in place of experts.
    pub dense_layers: u32,
    /// Of the layers after these, the first of every so many has experts; 1 where all have some.
    pub expert_period: u32,
}

impl FeedForward {
    /// Returns whether a layer has experts in place of a feed-forward layer.
    pub fn has_experts(&self, layer: usize) -> bool {
        let after = layer.checked_sub(self.dense_layers as usize);
        self.experts > 0 && after.and_then(|after| after.checked_rem(self.expert_period as usize)) == Some(0)
    }

    /// Outputs of the router.
    pub(crate) fn router_width(&self) -> usize {
        self.experts + usize::from(self.shared_gate)
    }
}

/// What the activation function of a feed-forward layer is applied to.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The one matrix: `activation(up)`.
    None,
    /// A matrix of its own: `activation(gate) * up`.
    Separate,
    /// The first half of the rows of `up`.
    Fused,
}

/// How the hidden states of several tokens become one vector.
///
/// ```
/// use gleed::{Engine, EngineError, Pooling, SeqId};
///
/// /// Returns the embedding of a text.
/// fn embedding(engine: &mut Engine<'_, '_>, seq: SeqId, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
///     let mut out = vec![0.0; engine.model().config().hidden];
///     engine.embed(seq, tokens, Pooling::Mean, &mut out)?;
///     Ok(out)
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The last one.
    Last,
    /// The first one.
    Cls,
    /// What the head of a reranker or classifier makes of one of them: a number for each of its classes.
    Rank,
}

/// How the hidden states of a text become one vector.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pooler {
    /// What the file asks for, if anything.
    pub pooling: Option<Pooling>,
    /// Rows of the two matrices that a pooled vector goes through; 0 where there is none.
    pub dense: [usize; 2],
    /// Rows of the classifier's first matrix; 0 where there is none.
    pub classifier: usize,
    /// Classes of its last one; 0 where there is none.
    pub classes: usize,
    /// Whether the numbers of the classes become probabilities.
    pub probabilities: bool,
    /// What the classifier's first matrix is applied to, and what becomes of its results.
    pub classifier_form: ClassifierForm,
}

/// How a classifier's first matrix is used.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassifierForm {
    /// Its input is the first hidden state, of a causal model the last one; its results go through tanh.
    #[default]
    Tanh,
    /// Its input is the mean of the hidden states; its results go through GELU with the error function, and a norm.
    Gelu,
}

/// What becomes of the output matrix's results.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// What the final norm is called.
    pub norm: FinalNorm,
    /// The logits are multiplied by it.
    pub scale: f32,
    /// Then logits l become `cap * tanh(l / cap)`; 0 for none.
    pub soft_cap: f32,
}

/// The name of the final norm.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FinalNorm {
    /// `output_norm`.
    #[default]
    Output,
    /// `token_embd_norm`, as if it were the embedding's.
    Embedding,
    /// `enc.output_norm`.
    Encoder,
    /// `nextn.shared_head_norm` of a layer that predicts further ahead.
    Predictor,
}

/// Whether a file has a tensor.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is refused.
    Never,
    /// It is used where it is there.
    Optional,
    /// The model is refused without it.
    Always,
}

/// Where linear layers and norms have biases.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Biases {
    /// Q, K and V.
    pub qkv: Presence,
    /// The output matrix of attention.
    pub output: Presence,
    /// The feed-forward layer.
    pub ffn: Presence,
    /// Norms of the residual stream.
    pub norm: Presence,
}

impl Rope {
    /// The sets of frequencies, with the elements of a head that each rotates, and whether it is divided.
    pub(crate) fn sets(&self) -> impl Iterator<Item = (Frequencies, usize, bool)> {
        let sets = self.frequencies.into_iter().zip(self.dims).zip(self.divided);
        sets.filter_map(|((set, dims), divided)| Some((set?, dims, divided)))
    }

    /// Elements of the cosines and sines of a position, all sets.
    pub(crate) fn width(&self) -> usize {
        self.sets().map(|(_, dims, _)| dims).sum()
    }

    /// Where those of a layer are among these; empty where nothing is rotated.
    pub(crate) fn place(&self, layer: usize) -> Range<usize> {
        let group = self.groups.group(layer);
        let dims = |group: usize| match (self.frequencies.get(group), self.dims.get(group)) {
            (Some(Some(_)), Some(&dims)) => dims,
            _ => 0,
        };
        let start = (0..group).map(dims).sum();
        start..start + dims(group)
    }

    /// Elements of a head that the file's divisors are for.
    pub(crate) fn divided_dims(&self) -> usize {
        self.sets().filter(|&(_, _, divided)| divided).map(|(_, dims, _)| dims).max().unwrap_or(0)
    }

    /// Whether sequences of `context` tokens take the long divisors, or the short ones; `None` where the file has
    /// neither.
    pub(crate) fn is_long(&self, context: usize) -> Option<bool> {
        (self.original_context > 0).then_some(context > self.original_context)
    }
}

impl Config {
    /// Returns the number of elements of a text's vector: the model's width, that of the matrices behind the pooling,
    /// or the number of classes. `None` where the model has no head for [`Pooling::Rank`].
    pub fn embedding_len(&self, pooling: Pooling) -> Option<usize> {
        let Pooler { dense, classifier, classes, .. } = self.pooler;
        let last = |sizes: [usize; 2]| sizes.into_iter().rev().find(|&size| size > 0);
        match pooling {
            Pooling::Rank => last([classifier, classes]),
            Pooling::Mean | Pooling::Last | Pooling::Cls => Some(last(dense).unwrap_or(self.hidden)),
        }
    }

    /// Returns whether it is that of a layer that predicts further ahead: see
    /// [`Model::predictor`](crate::Model::predictor).
    pub fn is_predictor(&self) -> bool {
        cfg!(feature = "predictor") && self.first_layer > 0
    }

    /// Returns the number of tokens that a sequence can have at most: learned positions end somewhere.
    pub fn longest(&self) -> usize {
        if self.embedding.positions > 0 { self.embedding.positions } else { usize::MAX }
    }

    /// Elements per row of what the gate and up matrices give: of the feed-forward layer, or of all experts of a token.
    pub(crate) fn widest_ffn(&self) -> Option<usize> {
        let FeedForward { experts_used, expert_width, shared_width, other_width, .. } = self.feed_forward;
        let dense = self.ffn.max(other_width).max(self.embedding.per_layer);
        Some(experts_used.checked_mul(expert_width)?.max(shared_width).max(dense))
    }
}

/// `1 / sqrt(n)`, rounded once from f64.
pub(crate) fn inverse_root(n: usize) -> f32 {
    (1.0 / libm::sqrt(n.max(1) as f64)) as f32
}
