//! The GLM models: rotations of a part of each head, biases of Q, K and V.

use super::{Architecture, DECODER, DENSE_LAYERS, EXPERT_SCALE, OPTIONAL_BIASES, SHARED_COUNT};
use crate::nn::{RopePairs, RouterScores, Routing};
#[cfg(feature = "predictor")]
use crate::program::lists::predictor;
use crate::program::lists::{
    ATTENTION, BOTH_NORMS_LAYER, EXPERTS, FEED_FORWARD, LATE_FFN_NORM, SHARED_EXPERTS, layer, uniform,
};
use crate::program::{LayerKind, Program};
use crate::weights::{Biases, Presence, QkNorm};

const BIASES: Biases = Biases { output: Presence::Never, ffn: Presence::Never, ..OPTIONAL_BIASES };

/// ChatGLM 2 and 3, glm-4-9b, GLM Edge: adjacent pairs, gate and up in one matrix.
pub(super) const CHATGLM: Architecture =
    Architecture { name: "chatglm", pairs: RopePairs::Adjacent, biases: BIASES, ..DECODER };

/// GLM 4 (0414): as ChatGLM, with a norm at both ends of each branch.
pub(super) const GLM4: Architecture = Architecture {
    name: "glm4",
    program: |_, _| Ok(uniform(&[LayerKind { name: "layer", steps: BOTH_NORMS_LAYER }])),
    ..CHATGLM
};

/// GLM 4.5 to 4.7: a shared expert, and experts that are chosen with biases. The norm of the feed-forward layer has
/// another name. Larger models have a norm on each head.
pub(super) const GLM4_MOE: Architecture = Architecture {
    name: "glm4moe",
    experts: true,
    routing: Routing { scores: RouterScores::Sigmoid, ..Routing::SOFTMAX_OF_CHOSEN },
    biases: BIASES,
    reads: &[SHARED_COUNT, DENSE_LAYERS, EXPERT_SCALE],
    finish: |keys, config| {
        if keys.has("blk.0.attn_q_norm.weight") {
            config.attention.qk_norm = QkNorm::Heads;
        }
        keys.refuse_fourth_position()
    },
    program: |_, _| Ok(LATE_NORM_EXPERTS),
    #[cfg(feature = "predictor")]
    predictor: Some(|config| predictor(&LATE_NORM_EXPERTS, config)),
    ..DECODER
};

const LATE_NORM_EXPERTS: Program = Program {
    kinds: &[
        LayerKind { name: "dense", steps: layer![ATTENTION, LATE_FFN_NORM, FEED_FORWARD] },
        LayerKind { name: "experts", steps: layer![ATTENTION, LATE_FFN_NORM, EXPERTS] },
        LayerKind { name: "experts, a shared one", steps: layer![ATTENTION, LATE_FFN_NORM, SHARED_EXPERTS] },
    ],
    kind_of: |config, layer| match config.feed_forward.has_experts(layer) {
        false => 0,
        true => 1 + usize::from(config.feed_forward.shared_width > 0),
    },
    ..uniform(&[])
};
