//! Apertus: a norm on each head, and xIELU without a gate. Each layer has its own numbers for xIELU.

use super::{Architecture, DECODER};
use crate::kernels::Activation;
use crate::weights::{QkNorm, xielu};

pub(super) const APERTUS: Architecture = Architecture {
    name: "apertus",
    qk_norm: QkNorm::Heads,
    gated: false,
    finish: |keys, config| {
        config.feed_forward.activation = Activation::Xielu(xielu(keys.files, 0)?);
        (1..config.layers).try_for_each(|layer| xielu(keys.files, layer).map(|_| ()))
    },
    ..DECODER
};
