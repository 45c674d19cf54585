//! OLMo 2: norms at the end of the branches and not before them, and over all heads of Q and of K. With a window in three
//! layers of four it is OLMo 3, which scales the frequencies of the others.

use super::{Architecture, DECODER, QkNorm};
use crate::cache::LayerGroups;
use crate::ops::Frequencies;

pub(super) const OLMO2: Architecture = Architecture {
    name: "olmo2",
    norm_before: false,
    norm_after: true,
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
    ..DECODER
};
