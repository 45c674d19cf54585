//! OLMo 2: norms at the end of the branches and not before them, and over all heads of Q and of K. With a window in three
//! layers of four it is OLMo 3, which scales the frequencies of the others.

use super::{Architecture, DECODER, QkNorm};
use crate::kv::LayerGroups;
use crate::nn::Frequencies;
use crate::ops::{Input, Source, Target};
use crate::program::lists::{
    ATTEND, GATE_UP, NORM_ROTATE, QKV, STORE, add_normed, all, down, finished, output, quantize, uniform,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::Role;

/// A layer: a norm at the end of each branch only.
const LAYER: &[Step] = &[
    all(quantize(Source::Residual, Input::Attention)),
    all(QKV),
    all(NORM_ROTATE),
    all(STORE),
    finished(ATTEND),
    finished(quantize(Source::Attention, Input::Output)),
    finished(output(Target::Branch)),
    finished(add_normed(Role::PostAttentionNorm)),
    finished(quantize(Source::Residual, Input::FeedForward)),
    finished(GATE_UP),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Branch)),
    finished(add_normed(Role::PostFfnNorm)),
];

/// The layers of OLMo 3.
const ALTERNATING: Program = Program {
    kinds: &[LayerKind { name: "local", steps: LAYER }, LayerKind { name: "global", steps: LAYER }],
    kind_of: |config, layer| config.layer_groups.place(layer).0,
    ..uniform(&[])
};

pub(super) const OLMO2: Architecture = Architecture {
    name: "olmo2",
    qk_norm: QkNorm::Row,
    window_period: 4,
    finish: |_, config| {
        if let ([Some(scaled), _], true) = (config.rope.frequencies, config.windows != [0; 2]) {
            config.rope.groups = config.layer_groups;
            let global = (config.layer_groups != LayerGroups::ONE).then_some(scaled);
            config.rope.frequencies = [Some(Frequencies::plain(scaled.base)), global];
        }
        Ok(())
    },
    program: |_, config| {
        let alike = config.layer_groups == LayerGroups::ONE;
        Ok(if alike { uniform(&[LayerKind { name: "layer", steps: LAYER }]) } else { ALTERNATING })
    },
    ..DECODER
};
