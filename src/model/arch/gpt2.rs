//! GPT-2 and StarCoder: learned positions.

use super::{ALL_BIASES, Architecture, DECODER};
use crate::kernels::{Activation, NormKind};
use crate::program::Program;
use crate::program::lists::{DECODER as PROGRAM, NOT_ROTARY};
use crate::weights::Role;

pub(super) const GPT2: Architecture = Architecture {
    name: "gpt2",
    norm: NormKind::Layer,
    activation: Activation::GeluTanh,
    gated: false,
    rotary: false,
    biases: ALL_BIASES,
    finish: |keys, config| {
        config.embedding.positions = keys.rows_of(Role::Positions.name())?;
        Ok(())
    },
    program: |_, _| Ok(Program { begin: NOT_ROTARY, ..PROGRAM }),
    ..DECODER
};

/// StarCoder: one KV head for all query heads.
pub(super) const STARCODER: Architecture = Architecture { name: "starcoder", ..GPT2 };
