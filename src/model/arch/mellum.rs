//! Mellum 2: experts in all layers, a norm on each head, a window in three layers of four. Only the layers without a
//! window scale their frequencies.

use super::{Architecture, DECODER};
use crate::kv::LayerGroups;
use crate::nn::Frequencies;
use crate::program::lists::{DECODER_OF_EXPERTS, PRE_NORM_EXPERTS_LAYER, uniform};
use crate::program::{LayerKind, Program};
use crate::weights::QkNorm;

const ALTERNATING: Program = Program {
    kinds: &[
        LayerKind { name: "local", steps: PRE_NORM_EXPERTS_LAYER },
        LayerKind { name: "global", steps: PRE_NORM_EXPERTS_LAYER },
    ],
    kind_of: |config, layer| config.layer_groups.place(layer).0,
    ..uniform(&[])
};

pub(super) const MELLUM: Architecture = Architecture {
    name: "mellum",
    qk_norm: QkNorm::Heads,
    experts: true,
    window_period: 4,
    finish: |keys, config| {
        if config.feed_forward.experts == 0 {
            return Err(keys.bad("expert_count"));
        }
        if let ([Some(scaled), _], true) = (config.rope.frequencies, config.layer_groups != LayerGroups::ONE) {
            config.rope.groups = config.layer_groups;
            let base = keys.positive("rope.freq_base_swa", Some(scaled.base))?;
            config.rope.frequencies = [Some(Frequencies::plain(base)), Some(scaled)];
        }
        Ok(())
    },
    program: |_, config| Ok(if config.layer_groups == LayerGroups::ONE { DECODER_OF_EXPERTS } else { ALTERNATING }),
    ..DECODER
};
