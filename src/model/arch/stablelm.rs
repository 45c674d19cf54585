//! StableLM 2: rotations of a part of each head. The 12B model has a norm per head, and attention and the feed-forward
//! layer side by side after one norm.

use super::{Architecture, DECODER, NO_BIASES};
use crate::kernels::NormKind;
use crate::ops::{Input, Source, Target};
use crate::program::LayerKind;
use crate::program::lists::{
    self, ATTEND, GATE_UP, NORM_ROTATE, QKV, STORE, all, down, finished, norm, output, quantize, uniform,
};
use crate::weights::{Biases, Presence, QkNorm, Role};

/// The layers of the 12B model: both branches read the same norm.
const PARALLEL: &[LayerKind] = &[LayerKind {
    name: "layer",
    steps: &[
        all(norm(Role::AttentionNorm, Input::Attention)),
        all(QKV),
        all(NORM_ROTATE),
        all(STORE),
        finished(ATTEND),
        finished(norm(Role::AttentionNorm, Input::FeedForward)),
        finished(GATE_UP),
        finished(quantize(Source::Attention, Input::Output)),
        finished(output(Target::Residual)),
        finished(quantize(Source::FeedForward, Input::Down)),
        finished(down(Target::Residual)),
    ],
}];

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
    // The key `use_parallel_residual` is not to be trusted: converters set it where models do not say.
    program: |keys, _| Ok(if keys.has("blk.0.ffn_norm.weight") { lists::DECODER } else { uniform(PARALLEL) }),
    ..DECODER
};
