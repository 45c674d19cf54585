//! EXAONE 3 to 4. EXAONE 3 and 3.5 are a Llama that rotates halves of heads. EXAONE 4 has a norm on each head, and
//! norms at the end of the branches instead of before them. Its 32B model has a window in three layers of four, and no
//! positions in the other layers.

use super::{Architecture, DECODER};
use crate::kv::LayerGroups;
use crate::program::lists::{POST_NORM_LAYER, uniform};
use crate::program::{LayerKind, Program};
use crate::weights::QkNorm;

/// The layers of the 32B model.
const ALTERNATING: Program = Program {
    kinds: &[
        LayerKind { name: "local", steps: POST_NORM_LAYER },
        LayerKind { name: "global, no positions", steps: POST_NORM_LAYER },
    ],
    kind_of: |config, layer| config.layer_groups.place(layer).0,
    ..uniform(&[])
};

/// EXAONE 3, 3.5 and Deep.
pub(super) const EXAONE: Architecture = Architecture { name: "exaone", ..DECODER };

pub(super) const EXAONE4: Architecture = Architecture {
    name: "exaone4",
    qk_norm: QkNorm::Heads,
    window_period: 4,
    finish: |_, config| {
        // The layers without a window have no frequencies.
        config.rope.groups = config.layer_groups;
        Ok(())
    },
    program: |_, config| {
        let alike = config.layer_groups == LayerGroups::ONE;
        Ok(if alike { uniform(&[LayerKind { name: "layer", steps: POST_NORM_LAYER }]) } else { ALTERNATING })
    },
    ..DECODER
};
