//! OLMo 2: norms at the end of the branches instead of before them, and norms over all heads of Q and of K. OLMo 3 has
//! the same name and a window in three layers of four, and scales the frequencies of the other layers.

use super::{Architecture, DECODER};
use crate::kv::LayerGroups;
use crate::nn::{Frequencies, RouterScores, Routing};
use crate::program::lists::{POST_NORM_LAYER, uniform};
use crate::program::{LayerKind, Program};
use crate::weights::QkNorm;

/// The layers of OLMo 3.
const ALTERNATING: Program = Program {
    kinds: &[LayerKind { name: "local", steps: POST_NORM_LAYER }, LayerKind { name: "global", steps: POST_NORM_LAYER }],
    kind_of: |config, layer| config.layer_groups.place(layer).0,
    ..uniform(&[])
};

/// OLMoE: norms before the branches, and experts weighted by the softmax over all experts.
pub(super) const OLMOE: Architecture = Architecture {
    name: "olmoe",
    qk_norm: QkNorm::Row,
    experts: true,
    routing: Routing { scores: RouterScores::Softmax, ..Routing::SOFTMAX_OF_CHOSEN },
    ..DECODER
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
        Ok(if alike { uniform(&[LayerKind { name: "layer", steps: POST_NORM_LAYER }]) } else { ALTERNATING })
    },
    ..DECODER
};
