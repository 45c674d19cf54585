//! Llama and what is built like it. The rows of Q and K are stored interleaved, so that the rotation takes adjacent
//! pairs.

use super::{Architecture, DECODER, OPTIONAL_BIASES};
use crate::kv::LayerGroups;
use crate::nn::RopePairs;
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

const FAMILY: Architecture = Architecture { pairs: RopePairs::Adjacent, biases: OPTIONAL_BIASES, ..DECODER };
