//! gpt-oss: experts and a sink score of each head, a window in every other layer, biases everywhere. The norm of the
//! feed-forward layer has another name.

use super::{ALL_BIASES, Architecture, DECODER};
use crate::kernels::Activation;
use crate::kv::LayerGroups;
use crate::ops::{Input, Source, Target};
use crate::program::lists::{
    ATTEND, CHOOSE_EXPERTS, EXPERT_DOWN, EXPERT_GATE_UP, GATHER, GROUP_ROWS, NORM_ROTATE, QKV, ROUTE, STORE,
    add_experts, all, finished, norm, output, quantize, uniform,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Biases, Presence, Role};

const LAYER: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(QKV),
    all(NORM_ROTATE),
    all(STORE),
    finished(ATTEND),
    finished(quantize(Source::Attention, Input::Output)),
    finished(output(Target::Residual)),
    finished(norm(Role::PostAttentionNorm, Input::FeedForward)),
    finished(ROUTE),
    finished(CHOOSE_EXPERTS),
    finished(GROUP_ROWS),
    finished(GATHER),
    finished(EXPERT_GATE_UP),
    finished(quantize(Source::FeedForward, Input::ExpertDown)),
    finished(EXPERT_DOWN),
    finished(add_experts(Target::Residual)),
];

/// The layers differ in their window only.
const ALTERNATING: Program = Program {
    kinds: &[LayerKind { name: "local", steps: LAYER }, LayerKind { name: "global", steps: LAYER }],
    kind_of: |config, layer| config.layer_groups.place(layer).0,
    ..uniform(&[])
};

pub(super) const GPT_OSS: Architecture = Architecture {
    name: "gpt-oss",
    activation: Activation::LimitedSilu,
    experts: true,
    window_period: 2,
    biases: Biases { norm: Presence::Never, ..ALL_BIASES },
    finish: |keys, config| {
        config.attention.sink_scores = true;
        if config.feed_forward.experts == 0 {
            return Err(keys.bad("expert_count"));
        }
        Ok(())
    },
    program: |_, config| {
        let alike = config.layer_groups == LayerGroups::ONE;
        Ok(if alike { uniform(&[LayerKind { name: "layer", steps: LAYER }]) } else { ALTERNATING })
    },
    ..DECODER
};
