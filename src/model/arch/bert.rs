//! BERT and Nomic BERT: encoders, in which a norm follows each addition to the residual stream, and none the last layer.
//! (Devlin et al., "BERT", 2018; Nussbaum et al., "Nomic Embed", 2024.)

use super::{Architecture, DECODER, OPTIONAL_BIASES};
use crate::kernels::{Activation, NormKind};
use crate::ops::{Input, Source, Target};
use crate::program::lists::{self, FEED_FORWARD, HEADS, all, finished, layer, output, quantize, renorm};
use crate::program::{LayerKind, Program};
use crate::weights::{Biases, Presence, Role};

const PROGRAM: Program = Program {
    begin: lists::ROTARY,
    kinds: &[LayerKind {
        name: "layer",
        steps: layer![
            &[all(quantize(Source::Residual, Input::Attention))],
            HEADS,
            &[
                finished(output(Target::Residual)),
                finished(renorm(Target::Residual, Role::AttentionOutputNorm)),
                finished(quantize(Source::Residual, Input::FeedForward)),
            ],
            FEED_FORWARD,
            &[finished(renorm(Target::Residual, Role::LayerOutputNorm))],
        ],
    }],
    kind_of: |_, _| 0,
    end: &[],
};

/// Learned positions.
pub(super) const BERT: Architecture = Architecture {
    name: "bert",
    activation: Activation::GeluErf,
    gated: false,
    rotary: false,
    finish: |keys, config| {
        config.embedding.positions = keys.rows_of(Role::Positions.name())?;
        config.embedding.types = keys.rows_or_none(Role::TokenTypes.name())?;
        Ok(())
    },
    program: |_, _| Ok(Program { begin: lists::NOT_ROTARY, ..PROGRAM }),
    ..FAMILY
};

/// Rotary positions, a gate with SiLU.
pub(super) const NOMIC_BERT: Architecture = Architecture {
    name: "nomic-bert",
    finish: |keys, config| {
        config.embedding.types = keys.rows_or_none(Role::TokenTypes.name())?;
        Ok(())
    },
    program: |_, _| Ok(PROGRAM),
    ..FAMILY
};

const FAMILY: Architecture = Architecture {
    norm: NormKind::Layer,
    embedding_norm: true,
    causal: false,
    biases: Biases { norm: Presence::Always, ..OPTIONAL_BIASES },
    ..DECODER
};
