//! Trinity (Arcee): norms at both ends of each branch, a gate for each element of attention's result, windows in three
//! layers of four, and experts with a shared one. Only the layers with a window have positions.

use super::{Architecture, DECODER, DENSE_LAYERS, EXPERT_SCALE, SHARED_COUNT};
use crate::kv::LayerGroups;
use crate::nn::{RouterScores, Routing};
use crate::program::lists::{ATTENTION_BOTH_NORMS, BOTH_NORMS_LAYER, SHARED_EXPERTS_BOTH_NORMS, layer, uniform};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{HeadGates, QkNorm};

const EXPERTS: &[Step] = layer![ATTENTION_BOTH_NORMS, SHARED_EXPERTS_BOTH_NORMS];

const PROGRAM: Program = Program {
    kinds: &[
        LayerKind { name: "local", steps: BOTH_NORMS_LAYER },
        LayerKind { name: "global, no positions", steps: BOTH_NORMS_LAYER },
        LayerKind { name: "local, experts", steps: EXPERTS },
        LayerKind { name: "global, no positions, experts", steps: EXPERTS },
    ],
    kind_of: |config, layer| config.layer_groups.group(layer) + 2 * usize::from(config.feed_forward.has_experts(layer)),
    ..uniform(&[])
};

pub(super) const AFMOE: Architecture = Architecture {
    name: "afmoe",
    qk_norm: QkNorm::Heads,
    experts: true,
    routing: Routing { scores: RouterScores::Sigmoid, normalized: true, ..Routing::SOFTMAX_OF_CHOSEN },
    window_period: 4,
    reads: &[SHARED_COUNT, DENSE_LAYERS, EXPERT_SCALE],
    finish: |keys, config| {
        config.embedding.scale = libm::sqrt(config.hidden as f64) as f32;
        config.attention.gates = HeadGates::OwnElements;
        if config.layer_groups == LayerGroups::ONE {
            return Err(keys.unsupported("attention.sliding_window"));
        }
        config.rope.groups = config.layer_groups;
        if config.feed_forward.experts > 0 && config.feed_forward.shared_width == 0 {
            return Err(keys.bad(SHARED_COUNT));
        }
        Ok(())
    },
    program: |_, _| Ok(PROGRAM),
    ..DECODER
};
