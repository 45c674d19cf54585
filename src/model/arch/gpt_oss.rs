//! gpt-oss: experts, a sink score of each head, a window in every other layer, biases everywhere. The norm of the
//! feed-forward layer has another name.

use super::{ALL_BIASES, Architecture, DECODER};
use crate::kernels::Activation;
use crate::kv::LayerGroups;
use crate::program::lists::{ATTENTION, EXPERTS, LATE_FFN_NORM, layer, uniform};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Biases, Presence};

const LAYER: &[Step] = layer![ATTENTION, LATE_FFN_NORM, EXPERTS];

/// The layers differ only in their window.
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
