//! StarCoder 2: rotations, LayerNorm and biases.

use super::{Architecture, Biases, DECODER, OPTIONAL_BIASES, Presence};
use crate::kernels::{Activation, NormKind};

pub(super) const STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    norm: NormKind::Layer,
    activation: Activation::GeluTanh,
    gated: false,
    biases: Biases { norm: Presence::Always, ..OPTIONAL_BIASES },
    ..DECODER
};
