//! The shapes that tensors have in a model.

use super::config::{ClassifierForm, Config, Gate, Presence, QkNorm};
use super::layer::{HeadGates, LayerShape};
use super::recurrent::{Mixer, Recurrent};
use crate::kernels::NormKind;
use crate::nn::RouterScores;

/// The shape of a tensor. Vectors are f32, and matrices are of any supported type.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// `[rows, cols]`.
    Matrix(usize, usize),
    /// `[experts, rows, cols]`.
    Matrices(usize, usize, usize),
    /// `[n]` of f32.
    Vector(usize),
    /// `[rows, n]` of f32.
    Vectors(usize, usize),
    /// `[n]` of f32, and the file may leave it out.
    OptionalVector(usize),
    /// `[rows, n]` of f32, and the file may leave it out.
    OptionalVectors(usize, usize),
    /// `[rows, cols]`, and the file may leave it out.
    OptionalMatrix(usize, usize),
}

impl Shape {
    pub(super) fn is_optional(self) -> bool {
        matches!(self, Self::OptionalVector(_) | Self::OptionalVectors(..) | Self::OptionalMatrix(..))
    }
}

pub(super) fn bias(presence: Presence, width: usize) -> Option<Shape> {
    match presence {
        Presence::Never => None,
        Presence::Optional => Some(Shape::OptionalVector(width)),
        Presence::Always => Some(Shape::Vector(width)),
    }
}

/// Returns a matrix, if it has rows.
pub(super) fn rows(rows: usize, cols: usize) -> Option<Shape> {
    (rows > 0).then_some(Shape::Matrix(rows, cols))
}

/// Returns a vector that the file may leave out, if it has elements.
pub(super) fn optional(width: usize) -> Option<Shape> {
    (width > 0).then_some(Shape::OptionalVector(width))
}

/// Returns the shape of the norm after the classifier's first matrix.
pub(super) fn classifier_norm(config: &Config) -> Option<Shape> {
    match config.pooler.classifier_form {
        ClassifierForm::Tanh => None,
        ClassifierForm::Gelu => optional(config.pooler.classifier),
    }
}

/// Returns whether experts are chosen by other numbers than their logits.
pub(super) fn selects(config: &Config) -> bool {
    config.feed_forward.routing.scores != RouterScores::SoftmaxOfChosen
}

pub(super) fn shared(config: &Config) -> bool {
    config.feed_forward.shared_width > 0
}

/// Returns the shape of the experts' biases: one row for each expert.
pub(super) fn biases(config: &Config, width: usize) -> Option<Shape> {
    let experts = config.feed_forward.experts;
    match config.biases.ffn {
        Presence::Never => None,
        Presence::Optional => Some(Shape::OptionalVectors(experts, width)),
        Presence::Always => Some(Shape::Vectors(experts, width)),
    }
}

/// Returns whether the gates of attention are in a matrix of their own.
pub(super) fn own_gates(config: &Config) -> bool {
    matches!(config.attention.gates, HeadGates::Heads | HeadGates::OwnElements)
}

/// Returns whether Q, K and V are separate matrices.
pub(super) fn separate(config: &Config) -> bool {
    !config.attention.fused
}

/// Returns the shape of a tensor that only models with this mixer have.
pub(super) fn of(config: &Config, mixer: Mixer, shape: Shape) -> Option<Shape> {
    (config.recurrent.mixer == mixer).then_some(shape)
}

/// Returns the shape of the weights of the causal convolution.
pub(super) fn kernel(config: &Config) -> Shape {
    Shape::Vectors(config.recurrent.channels, config.recurrent.kernel)
}

pub(super) fn per_head(config: &Config) -> Option<Shape> {
    match config.recurrent.mixer {
        Mixer::DeltaRule => Some(Shape::Vector(config.recurrent.heads)),
        Mixer::StateSpace => Some(Shape::Vectors(config.recurrent.heads, 1)),
        Mixer::None | Mixer::ShortConvolution => None,
    }
}

pub(super) fn mixer_norm(config: &Config) -> Option<Shape> {
    let Recurrent { mixer, groups, value_dim, normed, .. } = config.recurrent;
    match mixer {
        Mixer::DeltaRule => Some(Shape::Vector(value_dim)),
        Mixer::StateSpace if normed => Some(Shape::Vectors(groups, config.recurrent.inner().checked_div(groups)?)),
        Mixer::None | Mixer::ShortConvolution | Mixer::StateSpace => None,
    }
}

/// Returns the shape of the matrix of keys or of values. Layers that read the keys and values of
/// another layer may have a matrix that is not used.
pub(super) fn kv_matrix(config: &Config, layer: &LayerShape) -> Shape {
    let (rows, cols) = (layer.kv.width(), config.hidden);
    if layer.has_kv { Shape::Matrix(rows, cols) } else { Shape::OptionalMatrix(rows, cols) }
}

pub(super) fn k_norm(config: &Config, layer: &LayerShape) -> Option<Shape> {
    let shape = qk_norm(config, layer, layer.kv.heads)?;
    Some(match shape {
        Shape::Vector(n) if !layer.has_kv => Shape::OptionalVector(n),
        Shape::Vectors(rows, n) if !layer.has_kv => Shape::OptionalVectors(rows, n),
        shape => shape,
    })
}

pub(super) fn qk_norm(config: &Config, layer: &LayerShape, heads: usize) -> Option<Shape> {
    let head_dim = layer.kv.head_dim;
    match config.attention.qk_norm {
        QkNorm::None => None,
        QkNorm::Heads => Some(Shape::Vector(head_dim)),
        QkNorm::EachHead => Some(Shape::Vectors(heads, head_dim)),
        QkNorm::Row => Some(Shape::Vector(heads * head_dim)),
    }
}

pub(super) fn qk_norm_bias(config: &Config, width: usize) -> Option<Shape> {
    let possible = config.norm == NormKind::Layer && config.attention.qk_norm == QkNorm::Row;
    if possible { bias(config.biases.norm, width) } else { None }
}

pub(super) fn gate(config: &Config) -> bool {
    config.feed_forward.gate == Gate::Separate
}

/// Returns the number of rows of the up matrix.
pub(super) fn up_width(config: &Config, layer: &LayerShape) -> usize {
    if config.feed_forward.gate == Gate::Fused { 2 * layer.ffn } else { layer.ffn }
}

pub(super) fn fused_experts(config: &Config) -> bool {
    config.feed_forward.fused_experts
}

/// Returns whether experts have a separate gate matrix.
pub(super) fn gated_experts(config: &Config) -> bool {
    config.feed_forward.gate != Gate::None && !fused_experts(config)
}

/// Returns the number of elements of a layer's input besides the residual stream.
pub(super) fn per_layer(config: &Config) -> Option<usize> {
    Some(config.embedding.per_layer).filter(|&n| n > 0)
}

/// Returns the number of divisors of frequencies.
pub(super) fn divisors(config: &Config, wanted: bool) -> Option<usize> {
    Some(config.rope.divided_dims() / 2).filter(|&n| n > 0 && wanted)
}

pub(super) fn long_rope(config: &Config) -> bool {
    config.rope.original_context > 0
}
