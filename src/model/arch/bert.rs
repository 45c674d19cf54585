//! BERT, Nomic BERT and Jina BERT: encoders with a norm after each addition to the residual stream, and none after the
//! last layer. (Devlin et al., "BERT", 2018; Nussbaum et al., "Nomic Embed", 2024; Günther et al., "Jina Embeddings 2",
//! 2023; Sturua et al., "jina-embeddings-v3", 2024; Nussbaum and Duderstadt, "Training Sparse Mixture Of Experts Text
//! Embedding Models", 2025.)

use super::{Architecture, DECODER, OPTIONAL_BIASES};
use crate::kernels::{Activation, NormKind};
use crate::model::keys::Keys;
use crate::nn::{RouterScores, Routing};
use crate::ops::{Input, Source, Target};
use crate::program::lists::{
    self, EXPERTS, FEED_FORWARD, HEADS, add_sum_normed, all, finished, layer, output, quantize, renorm,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Biases, Config, ModelError, Presence, QkNorm, Role};

const ATTENTION: &[Step] = layer![
    &[all(quantize(Source::Residual, Input::Attention))],
    HEADS,
    &[
        finished(output(Target::Residual)),
        finished(renorm(Target::Residual, Role::AttentionOutputNorm)),
        finished(quantize(Source::Residual, Input::FeedForward)),
    ],
];

/// Attention of the model of code. The norm of the sum of its result and its input is added to its input.
const ATTENTION_OF_CODE: &[Step] = layer![
    &[all(quantize(Source::Residual, Input::Attention))],
    HEADS,
    &[
        finished(output(Target::Branch)),
        finished(add_sum_normed(Role::AttentionOutputNorm)),
        finished(renorm(Target::Residual, Role::SecondAttentionNorm)),
        finished(quantize(Source::Residual, Input::FeedForward)),
    ],
];

const NORM: &[Step] = &[finished(renorm(Target::Residual, Role::LayerOutputNorm))];

const PROGRAM: Program = Program {
    begin: lists::ROTARY,
    kinds: &[
        LayerKind { name: "layer", steps: layer![ATTENTION, FEED_FORWARD, NORM] },
        LayerKind { name: "experts", steps: layer![ATTENTION, EXPERTS, NORM] },
    ],
    kind_of: |config, layer| usize::from(config.feed_forward.has_experts(layer)),
    end: &[],
};

/// The program without rotations.
const NOT_ROTARY: Program = Program { begin: lists::NOT_ROTARY, ..PROGRAM };

/// The program of the model of code.
const OF_CODE: Program = Program {
    kinds: &[LayerKind { name: "layer", steps: layer![ATTENTION_OF_CODE, FEED_FORWARD, NORM] }],
    kind_of: |_, _| 0,
    ..NOT_ROTARY
};

/// BERT: learned positions.
pub(super) const BERT: Architecture = Architecture {
    name: "bert",
    activation: Activation::GeluErf,
    gated: false,
    rotary: false,
    finish: |keys, config| {
        config.embedding.positions = keys.rows_of(Role::Positions.name())?;
        types(keys, config)
    },
    program: |_, _| Ok(NOT_ROTARY),
    ..FAMILY
};

/// Nomic Embed 1 and 1.5: rotary positions, a gate with SiLU.
pub(super) const NOMIC_BERT: Architecture = Architecture { name: "nomic-bert", ..FAMILY };

/// Nomic Embed 2: rotary positions, no gate, experts in some layers at equal distances.
pub(super) const NOMIC_BERT_MOE: Architecture = Architecture {
    name: "nomic-bert-moe",
    activation: Activation::GeluErf,
    gated: false,
    experts: true,
    routing: Routing { scores: RouterScores::Softmax, ..Routing::SOFTMAX_OF_CHOSEN },
    finish: |keys, config| {
        const PERIOD: &str = "moe_every_n_layers";
        if config.feed_forward.experts > 0 {
            let period = keys.size(PERIOD)?;
            // With a period of 1 no layer would have experts.
            config.feed_forward.expert_period =
                u32::try_from(period).ok().filter(|&period| period > 1).ok_or(keys.bad(PERIOD))?;
            config.feed_forward.dense_layers = 1;
        }
        types(keys, config)
    },
    ..FAMILY
};

/// Jina Embeddings 2: scores decrease with the distance on both sides. The gate has GELU, and can be the first half of
/// the up matrix. The model of code has another norm in each layer, and norms of queries and keys.
pub(super) const JINA_BERT_V2: Architecture = Architecture {
    name: "jina-bert-v2",
    activation: Activation::GeluErf,
    rotary: false,
    finish: |keys, config| {
        // All these models have this value, and their files do not state it.
        config.attention.alibi = 8.0;
        if keys.has_in_layer(0, Role::QNorm.name()) {
            config.attention.qk_norm = QkNorm::Row;
        }
        types(keys, config)
    },
    program: |keys, _| Ok(if keys.has_in_layer(0, Role::SecondAttentionNorm.name()) { OF_CODE } else { NOT_ROTARY }),
    ..FAMILY
};

/// Jina Embeddings 3: rotary positions, no gate.
pub(super) const JINA_BERT_V3: Architecture =
    Architecture { name: "jina-bert-v3", activation: Activation::GeluErf, gated: false, ..FAMILY };

const FAMILY: Architecture = Architecture {
    norm: NormKind::Layer,
    embedding_norm: true,
    causal: false,
    biases: Biases { norm: Presence::Always, ..OPTIONAL_BIASES },
    finish: types,
    program: |_, _| Ok(PROGRAM),
    ..DECODER
};

/// Reads the number of types of tokens, if there are any.
fn types(keys: &Keys<'_>, config: &mut Config) -> Result<(), ModelError> {
    config.embedding.types = keys.rows_or_none(Role::TokenTypes.name())?;
    Ok(())
}
