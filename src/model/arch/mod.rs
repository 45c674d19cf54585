//! The architectures: each is a value in a file, with what GGUF files do not say about it, and a row here.

mod alibi;
mod gemma;
mod gpt2;
mod gptneox;
mod llama;
mod olmo2;
mod phi3;
mod qwen;
mod stablelm;
mod starcoder2;

use super::keys::Keys;
use crate::kernels::{Activation, NormKind};
use crate::nn::RopePairs;
use crate::program::{Program, lists};
use crate::weights::{Biases, Config, ModelError, Presence, QkNorm};

/// What the name of an architecture stands for.
pub(super) struct Architecture {
    /// `general.architecture`.
    pub(super) name: &'static str,
    pub(super) norm: NormKind,
    /// Whether the embedding is normalized.
    pub(super) embedding_norm: bool,
    pub(super) qk_norm: QkNorm,
    pub(super) activation: Activation,
    /// Whether the feed-forward layer has a gate.
    pub(super) gated: bool,
    /// Whether it may be one of several experts.
    pub(super) experts: bool,
    /// Whether queries and keys are rotated.
    pub(super) rotary: bool,
    pub(super) pairs: RopePairs,
    /// The window of files that do not say; 0 for none.
    pub(super) window: usize,
    /// Where a file has a window and no pattern, every so many-th layer sees everything; 0 if none does.
    pub(super) window_period: usize,
    pub(super) biases: Biases,
    /// What is left to read or to change.
    pub(super) finish: fn(&Keys<'_>, &mut Config) -> Result<(), ModelError>,
    /// The order of the operations.
    pub(super) program: fn(&Keys<'_>, &Config) -> Result<Program, ModelError>,
}

/// What most have in common: norms by the root mean square before the branches, a gate with SiLU, rotary positions.
const DECODER: Architecture = Architecture {
    name: "",
    norm: NormKind::Rms,
    embedding_norm: false,
    qk_norm: QkNorm::None,
    activation: Activation::Silu,
    gated: true,
    experts: false,
    rotary: true,
    pairs: RopePairs::Halves,
    window: 0,
    window_period: 0,
    biases: NO_BIASES,
    finish: |_, _| Ok(()),
    program: |_, config| Ok(if config.feed_forward.experts > 0 { lists::DECODER_OF_EXPERTS } else { lists::DECODER }),
};

const NO_BIASES: Biases =
    Biases { qkv: Presence::Never, output: Presence::Never, ffn: Presence::Never, norm: Presence::Never };

const ALL_BIASES: Biases =
    Biases { qkv: Presence::Always, output: Presence::Always, ffn: Presence::Always, norm: Presence::Always };

/// In linear layers.
const OPTIONAL_BIASES: Biases =
    Biases { qkv: Presence::Optional, output: Presence::Optional, ffn: Presence::Optional, norm: Presence::Never };

/// Those of this build.
pub(super) const ARCHITECTURES: &[Architecture] = &[
    #[cfg(feature = "arch-llama")]
    llama::LLAMA,
    #[cfg(feature = "arch-smollm3")]
    llama::SMOLLM3,
    #[cfg(feature = "arch-granite")]
    llama::GRANITE,
    #[cfg(feature = "arch-qwen2")]
    qwen::QWEN2,
    #[cfg(feature = "arch-qwen3")]
    qwen::QWEN3,
    #[cfg(feature = "arch-qwen3moe")]
    qwen::QWEN3MOE,
    #[cfg(feature = "arch-gemma")]
    gemma::GEMMA,
    #[cfg(feature = "arch-gemma2")]
    gemma::GEMMA2,
    #[cfg(feature = "arch-gemma3")]
    gemma::GEMMA3,
    #[cfg(feature = "arch-phi3")]
    phi3::PHI3,
    #[cfg(feature = "arch-gpt2")]
    gpt2::GPT2,
    #[cfg(feature = "arch-bloom")]
    alibi::BLOOM,
    #[cfg(feature = "arch-mpt")]
    alibi::MPT,
    #[cfg(feature = "arch-gptneox")]
    gptneox::GPTNEOX,
    #[cfg(feature = "arch-stablelm")]
    stablelm::STABLELM,
    #[cfg(feature = "arch-olmo2")]
    olmo2::OLMO2,
    #[cfg(feature = "arch-starcoder2")]
    starcoder2::STARCODER2,
];
