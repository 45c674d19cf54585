//! BLOOM and MPT: attention scores decrease with the distance, in place of rotations.

use super::{ALL_BIASES, Architecture, DECODER, OPTIONAL_BIASES};
use crate::kernels::{Activation, NormKind};
use crate::program::Program;
use crate::program::lists::{DECODER as PROGRAM, NOT_ROTARY};
use crate::weights::{Biases, Presence, QkNorm};

/// BLOOM: the embedding is normalized.
pub(super) const BLOOM: Architecture = Architecture {
    name: "bloom",
    embedding_norm: true,
    activation: Activation::GeluTanh,
    biases: ALL_BIASES,
    finish: |_, config| {
        // All these models have this value, and their files do not state it.
        config.attention.alibi = 8.0;
        Ok(())
    },
    ..FAMILY
};

/// MPT: usually without biases. Queries, keys and values may be clamped.
pub(super) const MPT: Architecture = Architecture {
    name: "mpt",
    activation: Activation::GeluErf,
    biases: Biases { norm: Presence::Optional, ..OPTIONAL_BIASES },
    finish: |keys, config| {
        if keys.has("blk.0.attn_q_norm.weight") {
            config.attention.qk_norm = QkNorm::Row;
        }
        Ok(())
    },
    ..FAMILY
};

const FAMILY: Architecture = Architecture {
    norm: NormKind::Layer,
    gated: false,
    rotary: false,
    program: |_, _| Ok(Program { begin: NOT_ROTARY, ..PROGRAM }),
    ..DECODER
};
