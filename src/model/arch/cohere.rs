//! Command R and Command R7B: norms without biases, attention and the feed-forward layer side by side after one norm,
//! logits that are multiplied by a factor.

use super::{Architecture, DECODER};
use crate::kernels::NormKind;
use crate::kv::LayerGroups;
use crate::nn::RopePairs;
use crate::program::lists::{PARALLEL_LAYER, uniform};
use crate::program::{LayerKind, Program};
use crate::weights::QkNorm;

/// Command R, Aya. Command R+ has norms on each head of Q and of K.
pub(super) const COMMAND_R: Architecture = Architecture {
    name: "command-r",
    norm: NormKind::Layer,
    pairs: RopePairs::Adjacent,
    finish: |keys, config| {
        config.head.scale = keys.factor("logit_scale", 1.0)?;
        if keys.has("blk.0.attn_q_norm.weight") {
            config.attention.qk_norm = QkNorm::EachHead;
        }
        Ok(())
    },
    program: |_, _| Ok(uniform(ALIKE)),
    ..DECODER
};

/// Command R7B, Command A: a window in three layers of four, and no positions in the others.
pub(super) const COHERE2: Architecture = Architecture {
    name: "cohere2",
    window_period: 4,
    finish: |keys, config| {
        config.head.scale = keys.factor("logit_scale", 1.0)?;
        // The layers without a window have no frequencies.
        config.rope.groups = config.layer_groups;
        Ok(())
    },
    program: |_, config| Ok(if config.layer_groups == LayerGroups::ONE { uniform(ALIKE) } else { ALTERNATING }),
    ..COMMAND_R
};

const ALIKE: &[LayerKind] = &[LayerKind { name: "layer", steps: PARALLEL_LAYER }];

const ALTERNATING: Program = Program {
    kinds: &[
        LayerKind { name: "local", steps: PARALLEL_LAYER },
        LayerKind { name: "global, no positions", steps: PARALLEL_LAYER },
    ],
    kind_of: |config, layer| config.layer_groups.place(layer).0,
    ..uniform(&[])
};
