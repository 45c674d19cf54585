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
    /// Number of layers.
    pub layers: usize,
    /// Number in the file of the first layer. It is 0 except in the configuration of a
    /// [`Model::predictor`](crate::Model::predictor).
    pub first_layer: u16,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer in most layers. If every layer has experts, the width of an expert.
    pub ffn: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Shapes of the keys and values in the layers of each group. Their numbers of heads divide `heads`.
    pub kv_shapes: [KvShape; MAX_GROUPS],
    /// Number of tokens of the vocabulary. Token ids are below it.
    pub vocab: usize,
    /// Number of tokens at a time in the model's training.
    pub context: usize,
    /// How a token becomes the first residual row.
    pub embedding: Embedding,
    /// Kind of all norms.
    pub norm: NormKind,
    /// Number that norms add to the mean square.
    pub norm_epsilon: f32,
    /// Factor of branches before they are added to the residual stream.
    pub residual_scale: f32,
    /// The layers that have attention.
    pub attention_layers: LayerSet,
    /// Number of last layers that have no keys and values of their own. They read those of the last layer before them
    /// with keys and values in the same group.
    pub shared_kv: usize,
    /// Queries, keys, values and scores.
    pub attention: Attention,
    /// The layers that have a state, and the sizes of their states.
    pub recurrent: Recurrent,
    /// How queries and keys are rotated by their positions.
    pub rope: Rope,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
    /// How the results of the output matrix become logits.
    pub head: Head,
    /// Where linear layers and norms have biases.
    pub biases: Biases,
    /// The layers that share a KV pool.
    pub layer_groups: LayerGroups,
    /// Number of last positions that the layers of each group see, or 0 for all positions. If attention is not causal,
    /// a window of W reaches W / 2 positions to both sides.
    pub windows: [usize; MAX_GROUPS],
    /// How the hidden states of a text become one vector.
    pub pooler: Pooler,
}

/// How a token becomes the first residual row.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Embedding {
    /// Factor of the rows of the embedding.
    pub scale: f32,
    /// Number of learned positions, whose rows are added, or 0 if there are none. It is the greatest length of a
    /// sequence.
    pub positions: usize,
    /// Number of learned types of tokens, or 0 if there are none. The row of the first type is added.
    pub types: usize,
    /// Whether a norm follows.
    pub norm: bool,
    /// Number of elements of each token's input of a layer beside the residual stream, or 0 if there is no such input.
    pub per_layer: usize,
}

/// Queries, keys, values and scores.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    /// Whether a token sees no token after it. If not, all tokens of a text run in one batch.
    pub causal: bool,
    /// Factor of the products of queries and keys.
    pub scale: f32,
    /// Cap of the scores: score s becomes `cap * tanh(s / cap)`. 0 for no cap.
    pub soft_cap: f32,
    /// Exponent of the steepest slope of ALiBi, or 0 for no ALiBi. 8 stands for 2^-8 at the last head.
    pub alibi: f32,
    /// Largest magnitude of queries, keys and values, which are clamped to it. 0 for no limit.
    pub clamp: f32,
    /// How queries and keys are normalized.
    pub qk_norm: QkNorm,
    /// Whether queries and keys are normalized after the rotation.
    pub norm_after_rotation: bool,
    /// Whether each head of the values is normalized, without weights.
    pub norm_values: bool,
    /// The layers whose values are their keys before the norm of the keys.
    pub keys_as_values: LayerSet,
    /// Factor of queries by their position, which is applied after the rotation.
    pub temperature: Option<Temperature>,
    /// Whether each head has a score of its own that takes part in every softmax, without a value.
    pub sink_scores: bool,
    /// Whether Q, K and V are one matrix.
    pub fused: bool,
    /// Gates of the heads' results.
    pub gates: HeadGates,
}

/// How queries and keys are normalized.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QkNorm {
    /// Not at all.
    None,
    /// Each head by itself, with the same weights for all heads.
    Heads,
    /// Each head by itself, with its own weights.
    EachHead,
    /// All heads as one row.
    Row,
}

/// Rotary position embedding.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Number of elements of each head that are rotated, in the layers of each group. It is even.
    pub dims: [usize; MAX_GROUPS],
    /// Which elements form a pair.
    pub pairs: RopePairs,
    /// Number of tokens beyond which a planned sequence takes the long divisors of the frequencies, or 0 if the file
    /// has none.
    pub original_context: usize,
    /// Groups of layers with the same frequencies.
    pub groups: LayerGroups,
    /// Frequencies of the layers of each group, or `None` if these layers rotate nothing.
    pub frequencies: [Option<Frequencies>; MAX_GROUPS],
    /// Whether the frequencies of each group are divided by the file's divisors, if it has any.
    pub divided: [bool; MAX_GROUPS],
}

/// The feed-forward layer.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeedForward {
    /// The layers whose width is not [`Config::ffn`].
    pub other_layers: LayerSet,
    /// Width of the feed-forward layer in `other_layers`.
    pub other_width: usize,
    /// The non-linear function.
    pub activation: Activation,
    /// Input of the activation function.
    pub gate: Gate,
    /// Number of experts per layer, or 0 if all tokens go through one feed-forward layer.
    pub experts: usize,
    /// Number of experts that a token goes through.
    pub experts_used: usize,
    /// Width of an expert.
    pub expert_width: usize,
    /// Whether the rows of an expert's gate matrix lie before those of its up matrix, in one tensor.
    pub fused_experts: bool,
    /// How experts are chosen and weighted.
    pub routing: Routing,
    /// Width of the shared expert, or 0 for none.
    pub shared_width: usize,
    /// Whether the result of the shared expert is multiplied by the sigmoid of an additional output of the router.
    pub shared_gate: bool,
    /// Number of first layers that have a feed-forward layer in place of experts.
    pub dense_layers: u32,
    /// Period of the layers with experts after the dense layers, the first of which has experts. 1 if all of them have
    /// experts.
    pub expert_period: u32,
}

impl FeedForward {
    /// Returns whether a layer has experts in place of a feed-forward layer.
    pub fn has_experts(&self, layer: usize) -> bool {
        let after = layer.checked_sub(self.dense_layers as usize);
        self.experts > 0 && after.and_then(|after| after.checked_rem(self.expert_period as usize)) == Some(0)
    }

    /// Returns the number of outputs of the router.
    pub(crate) fn router_width(&self) -> usize {
        self.experts + usize::from(self.shared_gate)
    }
}

/// Input of the activation function of a feed-forward layer.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// The result of the only matrix: `activation(up)`.
    None,
    /// The result of a gate matrix: `activation(gate) * up`.
    Separate,
    /// The first half of the rows of `up`, which is the gate.
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
    /// The hidden state of the last token.
    Last,
    /// The hidden state of the first token.
    Cls,
    /// The numbers that the head of a reranker or classifier computes, one for each class.
    Rank,
}

/// How the hidden states of a text become one vector.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pooler {
    /// Pooling that the file asks for, if any.
    pub pooling: Option<Pooling>,
    /// Number of rows of each of the two matrices after the pooling, or 0 for no matrix.
    pub dense: [usize; 2],
    /// Number of rows of the classifier's first matrix, or 0 for no matrix.
    pub classifier: usize,
    /// Number of classes, the rows of the classifier's last matrix, or 0 for no matrix.
    pub classes: usize,
    /// Whether the numbers of the classes are turned into probabilities.
    pub probabilities: bool,
    /// Input of the classifier's first matrix, and the function that follows it.
    pub classifier_form: ClassifierForm,
}

/// How a classifier's first matrix is used.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassifierForm {
    /// The input is the first hidden state, or the last one in a causal model. The results go through tanh.
    #[default]
    Tanh,
    /// The input is the mean of the hidden states. The results go through GELU with the error function, and a norm.
    Gelu,
}

/// How the results of the output matrix become logits.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Head {
    /// Name of the final norm.
    pub norm: FinalNorm,
    /// Factor of the logits.
    pub scale: f32,
    /// Cap of the logits after the factor: logit l becomes `cap * tanh(l / cap)`. 0 for no cap.
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
    /// `token_embd_norm`, the name of the embedding's norm.
    Embedding,
    /// `enc.output_norm`.
    Encoder,
    /// `nextn.shared_head_norm` of a layer that predicts further ahead.
    Predictor,
}

/// Whether a file may have a tensor.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The model is refused with the tensor.
    Never,
    /// The tensor is used if the file has it.
    Optional,
    /// The model is refused without the tensor.
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
    /// Returns the sets of frequencies. With each comes the number of elements of a head that it rotates, and whether
    /// it is divided.
    pub(crate) fn sets(&self) -> impl Iterator<Item = (Frequencies, usize, bool)> {
        let sets = self.frequencies.into_iter().zip(self.dims).zip(self.divided);
        sets.filter_map(|((set, dims), divided)| Some((set?, dims, divided)))
    }

    /// Returns the number of cosines and sines of a position in all sets.
    pub(crate) fn width(&self) -> usize {
        self.sets().map(|(_, dims, _)| dims).sum()
    }

    /// Returns the range of a layer's cosines and sines among those of a position. Empty if the layer rotates nothing.
    pub(crate) fn place(&self, layer: usize) -> Range<usize> {
        let group = self.groups.group(layer);
        let dims = |group: usize| match (self.frequencies.get(group), self.dims.get(group)) {
            (Some(Some(_)), Some(&dims)) => dims,
            _ => 0,
        };
        let start = (0..group).map(dims).sum();
        start..start + dims(group)
    }

    /// Returns the number of elements of a head to which the file's divisors apply.
    pub(crate) fn divided_dims(&self) -> usize {
        self.sets().filter(|&(_, _, divided)| divided).map(|(_, dims, _)| dims).max().unwrap_or(0)
    }

    /// Returns whether sequences of up to `context` tokens take the long divisors instead of the short ones. `None` if
    /// the file has neither.
    pub(crate) fn is_long(&self, context: usize) -> Option<bool> {
        (self.original_context > 0).then_some(context > self.original_context)
    }
}

impl Config {
    /// Returns the number of elements of a text's vector: the width of the model or of the matrices after the pooling,
    /// or the number of classes. `None` if the model has no head for [`Pooling::Rank`].
    pub fn embedding_len(&self, pooling: Pooling) -> Option<usize> {
        let Pooler { dense, classifier, classes, .. } = self.pooler;
        let last = |sizes: [usize; 2]| sizes.into_iter().rev().find(|&size| size > 0);
        match pooling {
            Pooling::Rank => last([classifier, classes]),
            Pooling::Mean | Pooling::Last | Pooling::Cls => Some(last(dense).unwrap_or(self.hidden)),
        }
    }

    /// Returns whether this is the configuration of a layer that predicts further ahead: see
    /// [`Model::predictor`](crate::Model::predictor).
    pub fn is_predictor(&self) -> bool {
        cfg!(feature = "predictor") && self.first_layer > 0
    }

    /// Returns the largest number of tokens of a sequence, which learned positions limit.
    pub fn longest(&self) -> usize {
        if self.embedding.positions > 0 { self.embedding.positions } else { usize::MAX }
    }

    /// Returns the largest number of elements per row that gate and up matrices produce, in a feed-forward layer or in
    /// all experts of a token.
    pub(crate) fn widest_ffn(&self) -> Option<usize> {
        let FeedForward { experts_used, expert_width, shared_width, other_width, .. } = self.feed_forward;
        let dense = self.ffn.max(other_width).max(self.embedding.per_layer);
        Some(experts_used.checked_mul(expert_width)?.max(shared_width).max(dense))
    }
}

/// Returns `1 / sqrt(n)`, rounded once from f64.
pub(crate) fn inverse_root(n: usize) -> f32 {
    (1.0 / libm::sqrt(n.max(1) as f64)) as f32
}
