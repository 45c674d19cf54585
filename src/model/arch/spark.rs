//! Spark X2.5: a gate for each head of attention. Layers with a window and layers without one rotate parts of different
//! size of their heads, with different frequencies.

use super::{Architecture, DECODER};
use crate::kernels::Activation;
use crate::kv::{LayerGroups, MAX_GROUPS};
use crate::nn::Frequencies;
use crate::program::lists::{PRE_NORM_LAYER, uniform};
use crate::program::{LayerKind, Program};
use crate::weights::HeadGates;

const ALTERNATING: Program = Program {
    kinds: &[LayerKind { name: "local", steps: PRE_NORM_LAYER }, LayerKind { name: "global", steps: PRE_NORM_LAYER }],
    kind_of: |config, layer| config.layer_groups.place(layer).0,
    ..uniform(&[])
};

pub(super) const SPARK: Architecture = Architecture {
    name: "spark2_5",
    activation: Activation::GeluErf,
    finish: |keys, config| {
        config.attention.gates = HeadGates::Heads;
        let ([dims, _], [Some(global), _]) = (config.rope.dims, config.rope.frequencies) else { return Ok(()) };
        let local = Frequencies { base: keys.positive("rope.freq_base_swa", Some(global.base))?, ..global };
        let local_dims = keys.size_or("rope.dimension_count_swa", dims)?;
        if config.layer_groups != LayerGroups::ONE {
            config.rope.groups = config.layer_groups;
            (config.rope.frequencies, config.rope.dims) = ([Some(local), Some(global)], [local_dims, dims]);
        } else if config.windows != [0; MAX_GROUPS] {
            (config.rope.frequencies, config.rope.dims) = ([Some(local), None], [local_dims; MAX_GROUPS]);
        }
        Ok(())
    },
    program: |_, config| {
        let alike = config.layer_groups == LayerGroups::ONE;
        Ok(if alike { uniform(&[LayerKind { name: "layer", steps: PRE_NORM_LAYER }]) } else { ALTERNATING })
    },
    ..DECODER
};
