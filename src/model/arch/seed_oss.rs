//! Seed-OSS: as Qwen 2, with another name for the norm of the feed-forward layer. Pangu Embedded: as Qwen 2, with a
//! bias of attention's output matrix.

use super::{Architecture, DECODER, OPTIONAL_BIASES};
use crate::program::LayerKind;
use crate::program::lists::{ATTENTION, FEED_FORWARD, LATE_FFN_NORM, layer, uniform};
use crate::weights::{Biases, Presence};

const LAYERS: &[LayerKind] = &[LayerKind { name: "layer", steps: layer![ATTENTION, LATE_FFN_NORM, FEED_FORWARD] }];

pub(super) const SEED_OSS: Architecture = Architecture {
    name: "seed_oss",
    biases: Biases { ffn: Presence::Never, ..OPTIONAL_BIASES },
    program: |_, _| Ok(uniform(LAYERS)),
    ..DECODER
};

pub(super) const PANGU_EMBEDDED: Architecture = Architecture {
    name: "pangu-embedded",
    biases: Biases { output: Presence::Always, ffn: Presence::Never, ..OPTIONAL_BIASES },
    ..DECODER
};
