//! StableLM 2: rotations of a part of each head. The 12B model has a norm on each head, and attention and the
//! feed-forward layer side by side after one norm.

use super::{Architecture, DECODER, NO_BIASES};
use crate::kernels::NormKind;
use crate::program::LayerKind;
use crate::program::lists::{self, PARALLEL_LAYER, uniform};
use crate::weights::{Biases, Presence, QkNorm};

/// The layers of the 12B model.
const PARALLEL: &[LayerKind] = &[LayerKind { name: "layer", steps: PARALLEL_LAYER }];

pub(super) const STABLELM: Architecture = Architecture {
    name: "stablelm",
    norm: NormKind::Layer,
    biases: Biases { qkv: Presence::Optional, norm: Presence::Always, ..NO_BIASES },
    finish: |keys, config| {
        if keys.has("blk.0.attn_q_norm.weight") {
            config.attention.qk_norm = QkNorm::EachHead;
        }
        Ok(())
    },
    // The key `use_parallel_residual` is not reliable: converters set it for models that do not say it.
    program: |keys, _| Ok(if keys.has("blk.0.ffn_norm.weight") { lists::DECODER } else { uniform(PARALLEL) }),
    ..DECODER
};
