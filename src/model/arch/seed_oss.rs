//! Seed-OSS: as Qwen 2, but the norm of the feed-forward layer has another name.

use super::{Architecture, DECODER, OPTIONAL_BIASES};
use crate::ops::{Input, Source, Target};
use crate::program::LayerKind;
use crate::program::lists::{
    ATTEND, GATE_UP, NORM_ROTATE, QKV, STORE, all, down, finished, norm, output, quantize, uniform,
};
use crate::weights::{Biases, Presence, Role};

const LAYERS: &[LayerKind] = &[LayerKind {
    name: "layer",
    steps: &[
        all(norm(Role::AttentionNorm, Input::Attention)),
        all(QKV),
        all(NORM_ROTATE),
        all(STORE),
        finished(ATTEND),
        finished(quantize(Source::Attention, Input::Output)),
        finished(output(Target::Residual)),
        finished(norm(Role::PostAttentionNorm, Input::FeedForward)),
        finished(GATE_UP),
        finished(quantize(Source::FeedForward, Input::Down)),
        finished(down(Target::Residual)),
    ],
}];

pub(super) const SEED_OSS: Architecture = Architecture {
    name: "seed_oss",
    biases: Biases { ffn: Presence::Never, ..OPTIONAL_BIASES },
    program: |_, _| Ok(uniform(LAYERS)),
    ..DECODER
};
