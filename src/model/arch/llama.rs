//! Llama and what is built like it. The rows of Q and K are stored interleaved, so that the rotation takes adjacent
//! pairs.

use super::{Architecture, DECODER, DENSE_LAYERS, OPTIONAL_BIASES, SHARED_COUNT, SHARED_WIDTH};
use crate::kernels::Activation;
use crate::kv::LayerGroups;
use crate::model::keys::ORIGINAL;
use crate::nn::{RopePairs, RouterScores, Routing, Temperature};
use crate::program::lists::{PRE_NORM_LAYER, uniform};
use crate::program::{LayerKind, Program};

/// Llama 1 to 3.x, Mistral and Mixtral, SmolLM2, TinyLlama, the story models. Llama 3 files have `rope_freqs.weight`, which
/// divides the frequencies.
pub(super) const LLAMA: Architecture = Architecture { name: "llama", experts: true, ..FAMILY };

/// Every fourth layer is without positions; nothing in the file says so.
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

/// EuroBERT: a Llama without a mask, whose rows of Q and K are not interleaved. (Boizard et al., "EuroBERT", 2025.)
pub(super) const EUROBERT: Architecture =
    Architecture { name: "eurobert", causal: false, pairs: RopePairs::Halves, ..FAMILY };

/// ERNIE 4.5, dense.
pub(super) const ERNIE4_5: Architecture = Architecture { name: "ernie4_5", ..FAMILY };

/// The same with experts, of which some are chosen with the help of biases, and shared ones. Every layer after the first ones
/// has them.
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

/// Ministral 3 and Devstral 2: the further a query is, the larger.
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

const LAYER_STEP: &str = "interleave_moe_layer_step";
const TEMPERATURE: &str = "attention.temperature_scale";

const FAMILY: Architecture = Architecture { pairs: RopePairs::Adjacent, biases: OPTIONAL_BIASES, ..DECODER };
