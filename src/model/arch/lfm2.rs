//! LFM2 and LFM2.5: gated short convolutions, and attention in some layers. (Liquid AI, "LFM2 Technical Report", 2025.)

use super::{Architecture, DECODER, DENSE_LAYERS};
use crate::kv::LayerSet;
use crate::nn::{RouterScores, Routing};
use crate::ops::{Input, Source, Target};
use crate::program::lists::{
    self, EXPERTS, FEED_FORWARD, FFN_NORM, MIXER_INPUT, PRE_NORM_EXPERTS_LAYER, PRE_NORM_LAYER, SHORT_CONVOLUTION, all,
    finished, layer, logits, mixer_output, norm, quantize,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Config, FinalNorm, Mixer, QkNorm, Recurrent, Role};

/// A convolution in place of attention.
const CONVOLUTION: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(MIXER_INPUT),
    all(SHORT_CONVOLUTION),
    finished(quantize(Source::Mixer, Input::Mixer)),
    finished(mixer_output(Role::ShortConvOut, Target::Residual)),
];

const PROGRAM: Program = Program {
    begin: lists::ROTARY,
    kinds: &[
        LayerKind { name: "convolution", steps: layer![CONVOLUTION, FFN_NORM, FEED_FORWARD] },
        LayerKind { name: "attention", steps: PRE_NORM_LAYER },
        LayerKind { name: "convolution, experts", steps: layer![CONVOLUTION, FFN_NORM, EXPERTS] },
        LayerKind { name: "attention, experts", steps: PRE_NORM_EXPERTS_LAYER },
    ],
    kind_of: |config, layer| {
        let experts = config.feed_forward.has_experts(layer);
        usize::from(config.attention_layers.contains(layer)) + 2 * usize::from(experts)
    },
    // The final norm has the name of the embedding's norm.
    end: &[logits(norm(Role::EmbeddingNorm, Input::Head)), logits(lists::HEAD)],
};

pub(super) const LFM2: Architecture = Architecture {
    name: "lfm2",
    qk_norm: QkNorm::Heads,
    finish: |keys, config| {
        config.recurrent = recurrent(config, keys.size("shortconv.l_cache")?);
        config.head.norm = FinalNorm::Embedding;
        Ok(())
    },
    program: |_, _| Ok(PROGRAM),
    ..DECODER
};

/// LFM2 with experts in all layers but the first ones.
pub(super) const LFM2MOE: Architecture = Architecture {
    name: "lfm2moe",
    experts: true,
    routing: Routing { scores: RouterScores::Sigmoid, normalized: true, epsilon: 1e-6, ..Routing::SOFTMAX_OF_CHOSEN },
    reads: &[DENSE_LAYERS, "expert_weights_scale"],
    ..LFM2
};

/// Returns the description of the layers without attention.
fn recurrent(config: &Config, kernel: usize) -> Recurrent {
    Recurrent {
        mixer: Mixer::ShortConvolution,
        layers: LayerSet::of(config.layers, |layer| !config.attention_layers.contains(layer)),
        channels: config.hidden,
        kernel,
        ..Recurrent::default()
    }
}
