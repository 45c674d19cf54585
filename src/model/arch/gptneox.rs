//! GPT-NeoX and Pythia: attention and the feed-forward layer side by side, rotations of a part of each head.

use super::{ALL_BIASES, Architecture, DECODER};
use crate::kernels::{Activation, NormKind};
use crate::ops::{Input, Source, Target};
use crate::program::LayerKind;
use crate::program::lists::{
    self, ATTEND, GATE_UP, NORM_ROTATE, QKV, STORE, all, down, finished, norm, output, quantize, uniform,
};
use crate::weights::Role;

/// Both branches read the same residual stream: the feed-forward layer runs up to its activation before the result of
/// attention is added.
const PARALLEL: &[LayerKind] = &[LayerKind {
    name: "layer",
    steps: &[
        all(norm(Role::AttentionNorm, Input::Attention)),
        all(QKV),
        all(NORM_ROTATE),
        all(STORE),
        finished(ATTEND),
        finished(norm(Role::FfnNorm, Input::FeedForward)),
        finished(GATE_UP),
        finished(quantize(Source::Attention, Input::Output)),
        finished(output(Target::Residual)),
        finished(quantize(Source::FeedForward, Input::Down)),
        finished(down(Target::Residual)),
    ],
}];

pub(super) const GPTNEOX: Architecture = Architecture {
    name: "gptneox",
    norm: NormKind::Layer,
    activation: Activation::GeluErf,
    gated: false,
    biases: ALL_BIASES,
    program: |keys, _| {
        let parallel = keys.flag("use_parallel_residual", true)?;
        Ok(if parallel { uniform(PARALLEL) } else { lists::DECODER })
    },
    ..DECODER
};
