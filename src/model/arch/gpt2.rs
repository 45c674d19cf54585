//! GPT-2: learned positions.

use super::{ALL_BIASES, Architecture, DECODER};
use crate::kernels::{Activation, NormKind};
use crate::model::weights::POSITIONS;

pub(super) const GPT2: Architecture = Architecture {
    name: "gpt2",
    norm: NormKind::Layer,
    activation: Activation::GeluTanh,
    gated: false,
    rotary: false,
    biases: ALL_BIASES,
    finish: |keys, config| {
        config.embedding.positions = keys.rows_of(POSITIONS)?;
        Ok(())
    },
    ..DECODER
};
