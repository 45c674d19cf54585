//! The fields of an architecture, and the values that most architectures share.

use crate::kernels::{Activation, NormKind};
use crate::model::keys::Keys;
use crate::nn::{RopePairs, Routing};
use crate::program::{Program, lists};
use crate::weights::{Biases, Config, FeedForward, ModelError, Presence, QkNorm};

/// Everything that the name of an architecture determines.
pub(in crate::model) struct Architecture {
    /// `general.architecture`.
    pub(in crate::model) name: &'static str,
    pub(in crate::model) norm: NormKind,
    /// Whether the embedding is normalized.
    pub(in crate::model) embedding_norm: bool,
    pub(in crate::model) qk_norm: QkNorm,
    pub(in crate::model) activation: Activation,
    /// Whether the feed-forward layer has a gate.
    pub(in crate::model) gated: bool,
    /// Whether the feed-forward layer can be one of several experts.
    pub(in crate::model) experts: bool,
    /// Whether layers with experts have a feed-forward layer beside them.
    pub(in crate::model) dense_beside_experts: bool,
    /// How experts are chosen and weighted if a file does not say it.
    pub(in crate::model) routing: Routing,
    /// Whether the router has an output for the shared expert.
    pub(in crate::model) shared_gate: bool,
    /// Whether a token sees no token after it, if a file does not say it.
    pub(in crate::model) causal: bool,
    /// Whether queries and keys are rotated.
    pub(in crate::model) rotary: bool,
    pub(in crate::model) pairs: RopePairs,
    /// Window of files that do not state one, or 0 for none.
    pub(in crate::model) window: usize,
    /// Period of the layers that see all positions, for files with a window and without a pattern. 0 if no layer does.
    pub(in crate::model) window_period: usize,
    pub(in crate::model) biases: Biases,
    /// Keys that the architecture reads, and that are refused in files of other architectures.
    pub(in crate::model) reads: &'static [&'static str],
    /// Reads the remaining keys and changes the configuration.
    pub(in crate::model) finish: fn(&Keys<'_>, &mut Config) -> Result<(), ModelError>,
    /// Returns the operations in their order.
    pub(in crate::model) program: fn(&Keys<'_>, &Config) -> Result<Program, ModelError>,
    /// Returns the operations of a layer that predicts further ahead, if it can be computed.
    pub(in crate::model) predictor: Option<fn(&Config) -> Program>,
}

/// The values that most architectures share: norms by the root mean square before the branches, a gate with SiLU,
/// rotary positions.
pub(super) const DECODER: Architecture = Architecture {
    name: "",
    norm: NormKind::Rms,
    embedding_norm: false,
    qk_norm: QkNorm::None,
    activation: Activation::Silu,
    gated: true,
    experts: false,
    dense_beside_experts: false,
    routing: Routing::SOFTMAX_OF_CHOSEN,
    shared_gate: false,
    causal: true,
    rotary: true,
    pairs: RopePairs::Halves,
    window: 0,
    window_period: 0,
    biases: NO_BIASES,
    reads: &[],
    finish: |_, _| Ok(()),
    program: |_, config| {
        Ok(match config.feed_forward {
            FeedForward { experts: 0, .. } => lists::DECODER,
            FeedForward { shared_width: 0, .. } => lists::DECODER_OF_EXPERTS,
            _ => lists::DECODER_OF_SHARED_EXPERTS,
        })
    },
    predictor: None,
};

/// Keys of experts that only some architectures read.
pub(super) const SHARED_COUNT: &str = "expert_shared_count";
pub(super) const SHARED_WIDTH: &str = "expert_shared_feed_forward_length";
pub(in crate::model) const DENSE_LAYERS: &str = "leading_dense_block_count";

/// The key of the factor for the weights of experts.
pub(super) const EXPERT_SCALE: &str = "expert_weights_scale";

/// The key of the width of feed-forward layers. An architecture that reads it allows a width of 0 in some layers.
pub(in crate::model) const FFN_WIDTHS: &str = "feed_forward_length";

pub(super) const NO_BIASES: Biases =
    Biases { qkv: Presence::Never, output: Presence::Never, ffn: Presence::Never, norm: Presence::Never };

pub(super) const ALL_BIASES: Biases =
    Biases { qkv: Presence::Always, output: Presence::Always, ffn: Presence::Always, norm: Presence::Always };

/// Optional biases in linear layers only.
pub(super) const OPTIONAL_BIASES: Biases =
    Biases { qkv: Presence::Optional, output: Presence::Optional, ffn: Presence::Optional, norm: Presence::Never };
