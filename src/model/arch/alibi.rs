//! BLOOM and MPT: scores fall with the distance instead of rotations.

use super::{ALL_BIASES, Architecture, DECODER, OPTIONAL_BIASES};
use crate::kernels::{Activation, NormKind};
use crate::program::Program;
use crate::program::lists::{DECODER as PROGRAM, NOT_ROTARY};
use crate::weights::{Biases, Presence, QkNorm};

/// The embedding is normalized.
pub(super) const BLOOM: Architecture = Architecture {
    name: "bloom",
    embedding_norm: true,
    activation: Activation::GeluTanh,
    biases: ALL_BIASES,
    finish: |_, config| {
        // As all these models have it; their files do not say so.
        config.attention.alibi = 8.0;
        Ok(())
    },
    ..FAMILY
};

/// Without biases, as a rule. Queries, keys and values may be clamped.
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
