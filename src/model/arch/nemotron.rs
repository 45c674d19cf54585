//! Nemotron, Minitron: norms with biases, squared ReLU without a gate, rotations of a part of each head. Orion: norms
//! with biases, too.

use super::{Architecture, DECODER, NO_BIASES, OPTIONAL_BIASES};
use crate::kernels::{Activation, NormKind};
use crate::weights::{Biases, Presence};

/// Nemotron 3 8B, Nemotron 4, Minitron.
pub(super) const NEMOTRON: Architecture = Architecture {
    name: "nemotron",
    norm: NormKind::Layer,
    activation: Activation::SquaredRelu,
    gated: false,
    biases: Biases { norm: Presence::Always, ..OPTIONAL_BIASES },
    ..DECODER
};

/// Orion 14B: a Llama with norms that have biases.
pub(super) const ORION: Architecture = Architecture {
    name: "orion",
    norm: NormKind::Layer,
    biases: Biases { norm: Presence::Always, ..NO_BIASES },
    ..DECODER
};
