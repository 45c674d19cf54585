//! OLMo 2: norms at the end of the branches and not before them, and over all heads of Q and of K. With a window in
//! three layers of four it is OLMo 3, which scales the frequencies of the others.

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

/// OLMoE: norms before the branches. The weights of experts are the softmax over all of them.
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
