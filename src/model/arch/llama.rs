//! Llama and models with the same structure. The rows of Q and K are stored interleaved, so the rotation takes adjacent
//! pairs.

use super::{Architecture, DECODER, DENSE_LAYERS, EXPERT_SCALE, OPTIONAL_BIASES, SHARED_COUNT, SHARED_WIDTH};
use crate::kernels::Activation;
use crate::kv::{LayerGroups, LayerSet};
use crate::model::keys::ORIGINAL;
use crate::nn::{RopePairs, RouterScores, Routing, Temperature};
use crate::program::lists::{NOT_ROTARY, PRE_NORM_EXPERTS_LAYER, PRE_NORM_LAYER, ROTARY, uniform};
use crate::program::{LayerKind, Program};
use crate::weights::{QkNorm, inverse_root};

/// Llama 1 to 3.x, Mistral and Mixtral, SmolLM2, TinyLlama, the story models. Files of Llama 3 have
/// `rope_freqs.weight`, the divisors of the frequencies.
pub(super) const LLAMA: Architecture = Architecture { name: "llama", experts: true, ..FAMILY };

/// SmolLM3: every fourth layer has no positions. The file does not state it.
pub(super) const SMOLLM3: Architecture = Architecture {
    name: "smollm3",
    finish: |_, config| {
        config.rope.groups = LayerGroups::alternating(4);
        Ok(())
    },
    program: |_, _| {
        Ok(Program {
            kinds: &[
                LayerKind { name: "rotary", steps: PRE_NORM_LAYER },
                LayerKind { name: "no positions", steps: PRE_NORM_LAYER },
            ],
            kind_of: |config, layer| config.rope.groups.place(layer).0,
            ..uniform(&[])
        })
    },
    ..FAMILY
};

/// Granite 3: factors for embeddings, scores, branches and logits.
pub(super) const GRANITE: Architecture = Architecture {
    name: "granite",
    finish: |keys, config| {
        config.head.scale = 1.0 / keys.factor("logit_scale", 1.0)?;
        Ok(())
    },
    ..FAMILY
};

/// Granite 3 with experts and, in some models, a shared expert.
pub(super) const GRANITE_MOE: Architecture =
    Architecture { name: "granitemoe", experts: true, reads: &[SHARED_WIDTH], ..GRANITE };

/// Granite with a window in some layers, and a sink score of each head. A file can list layers without positions.
pub(super) const GRANITE_SWA: Architecture = Architecture {
    name: "granite_swa",
    experts: true,
    finish: |keys, config| {
        (GRANITE.finish)(keys, config)?;
        config.attention.sink_scores = true;
        if keys.get(ROTARY_LAYERS).is_some() {
            let rotary = keys.flags(ROTARY_LAYERS, config.layers)?;
            let others = LayerSet::of(config.layers, |layer| !rotary.contains(layer));
            config.rope.groups = LayerGroups::with_second(others);
            if rotary.before(config.layers) == 0 {
                config.rope = keys.no_rope(config.rope.pairs);
            }
        }
        Ok(())
    },
    program: |keys, config| {
        let alike = (GRANITE.program)(keys, config)?;
        let kinds = if config.layer_groups == LayerGroups::ONE { alike } else { LOCAL_AND_GLOBAL };
        Ok(Program { begin: if config.rope.width() > 0 { ROTARY } else { NOT_ROTARY }, ..kinds })
    },
    ..GRANITE
};

const LOCAL_AND_GLOBAL: Program = Program {
    kinds: &[
        LayerKind { name: "local", steps: PRE_NORM_LAYER },
        LayerKind { name: "global", steps: PRE_NORM_LAYER },
        LayerKind { name: "local, experts", steps: PRE_NORM_EXPERTS_LAYER },
        LayerKind { name: "global, experts", steps: PRE_NORM_EXPERTS_LAYER },
    ],
    kind_of: |config, layer| config.layer_groups.group(layer) + 2 * usize::from(config.feed_forward.experts > 0),
    ..uniform(&[])
};

/// MiniCPM 1 to 4: factors as in Granite, with defaults for older files without the keys. (Hu et al., "MiniCPM", 2024,
/// section 4.1: embeddings by 12, branches by 1.4 / sqrt(layers), logits by 256 / width.)
pub(super) const MINICPM: Architecture = Architecture {
    name: "minicpm",
    finish: |keys, config| {
        config.embedding.scale = keys.factor("embedding_scale", 12.0)?;
        config.residual_scale = keys.factor("residual_scale", 1.4 * inverse_root(config.layers))?;
        config.head.scale = 1.0 / keys.factor("logit_scale", config.hidden as f32 / 256.0)?;
        Ok(())
    },
    ..FAMILY
};

/// InternLM 2 and 2.5.
pub(super) const INTERNLM2: Architecture = Architecture { name: "internlm2", ..FAMILY };

/// XVERSE.
pub(super) const XVERSE: Architecture = Architecture { name: "xverse", ..FAMILY };

/// Ling and Ring, the first generation: shared experts, and experts weighted by the softmax over all experts.
pub(super) const BAILING_MOE: Architecture = Architecture {
    name: "bailingmoe",
    experts: true,
    routing: Routing { scores: RouterScores::Softmax, ..Routing::SOFTMAX_OF_CHOSEN },
    reads: &[SHARED_COUNT, DENSE_LAYERS, EXPERT_SCALE],
    ..FAMILY
};

/// Ling and Ring 2.0: some groups of experts are chosen first, by the sigmoids of the experts with biases. Each head
/// has a norm, and half of it is rotated.
pub(super) const BAILING_MOE_2: Architecture = Architecture {
    name: "bailingmoe2",
    qk_norm: QkNorm::Heads,
    pairs: RopePairs::Halves,
    routing: Routing { scores: RouterScores::Sigmoid, ..Routing::SOFTMAX_OF_CHOSEN },
    reads: &[SHARED_COUNT, SHARED_WIDTH, DENSE_LAYERS, EXPERT_SCALE],
    finish: |keys, config| {
        // The width in the file is the width of one shared expert.
        if keys.count(SHARED_WIDTH)? > 0 {
            let width = config.feed_forward.shared_width;
            config.feed_forward.shared_width = width.saturating_mul(keys.count(SHARED_COUNT)?);
        }
        Ok(())
    },
    ..BAILING_MOE
};

/// DeepSeek MoE 16B: as the first generation of Ling.
pub(super) const DEEPSEEK: Architecture = Architecture { name: "deepseek", ..BAILING_MOE };

/// dots.llm1: a norm on each head, and rotations of halves of heads.
pub(super) const DOTS1: Architecture =
    Architecture { name: "dots1", qk_norm: QkNorm::Heads, pairs: RopePairs::Halves, ..BAILING_MOE };

/// Embedding models that are a Llama without a mask.
pub(super) const LLAMA_EMBED: Architecture = Architecture { name: "llama-embed", causal: false, ..FAMILY };

/// EuroBERT: a Llama without a mask, whose rows of Q and K are not interleaved. (Boizard et al., "EuroBERT", 2025.)
pub(super) const EUROBERT: Architecture =
    Architecture { name: "eurobert", causal: false, pairs: RopePairs::Halves, ..FAMILY };

/// ERNIE 4.5, dense.
pub(super) const ERNIE4_5: Architecture = Architecture { name: "ernie4_5", ..FAMILY };

/// ERNIE 4.5 with experts, which are chosen with the help of biases, and shared experts. Every layer after the first
/// ones has experts.
pub(super) const ERNIE4_5_MOE: Architecture = Architecture {
    name: "ernie4_5-moe",
    experts: true,
    routing: Routing { scores: RouterScores::Softmax, normalized: true, ..Routing::SOFTMAX_OF_CHOSEN },
    reads: &[SHARED_COUNT, SHARED_WIDTH, DENSE_LAYERS, LAYER_STEP],
    finish: |keys, _| match keys.count(LAYER_STEP)? {
        0 | 1 => Ok(()),
        _ => Err(keys.unsupported(LAYER_STEP)),
    },
    ..FAMILY
};

/// Arcee (AFM): squared ReLU without a gate.
pub(super) const ARCEE: Architecture =
    Architecture { name: "arcee", activation: Activation::SquaredRelu, gated: false, ..FAMILY };

/// Ministral 3 and Devstral 2: queries are multiplied by a factor that grows with their position.
pub(super) const MISTRAL3: Architecture = Architecture {
    name: "mistral3",
    reads: &[TEMPERATURE],
    finish: |keys, config| {
        let scale = keys.not_negative(TEMPERATURE)?;
        if scale > 0.0 {
            config.attention.temperature = Some(Temperature { scale, length: keys.size(ORIGINAL)? });
        }
        Ok(())
    },
    ..FAMILY
};

const ROTARY_LAYERS: &str = "attention.rope_pattern";
const LAYER_STEP: &str = "interleave_moe_layer_step";
const TEMPERATURE: &str = "attention.temperature_scale";

const FAMILY: Architecture = Architecture { pairs: RopePairs::Adjacent, biases: OPTIONAL_BIASES, ..DECODER };
