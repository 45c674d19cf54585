//! StarCoder 2: rotations, LayerNorm and biases.

use super::{Architecture, DECODER, OPTIONAL_BIASES};
use crate::kernels::{Activation, NormKind};
use crate::weights::{Biases, Presence};

pub(super) const STARCODER2: Architecture = Architecture {
    name: "starcoder2",
    norm: NormKind::Layer,
    activation: Activation::GeluTanh,
    gated: false,
    biases: Biases { norm: Presence::Always, ..OPTIONAL_BIASES },
    ..DECODER
};
