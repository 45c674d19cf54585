//! LFM2 and LFM2.5: gated short convolutions, and attention in some layers. (Liquid AI, "LFM2 Technical Report", 2025.)

use super::{Architecture, DECODER};
use crate::ops::{Input, Source, Target};
use crate::program::lists::{
    self, GATE_UP, MIXER_INPUT, PRE_NORM_LAYER, SHORT_CONVOLUTION, all, down, finished, logits, mixer_output, norm,
    quantize,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Config, LayerSet, Mixer, QkNorm, Recurrent, Role};

/// A layer with a convolution in place of attention.
const CONVOLUTION: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(MIXER_INPUT),
    all(SHORT_CONVOLUTION),
    finished(quantize(Source::Mixer, Input::Mixer)),
    finished(mixer_output(Role::ShortConvOut, Target::Residual)),
    finished(norm(Role::FfnNorm, Input::FeedForward)),
    finished(GATE_UP),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Residual)),
];

const PROGRAM: Program = Program {
    begin: lists::ROTARY,
    kinds: &[
        LayerKind { name: "convolution", steps: CONVOLUTION },
        LayerKind { name: "attention", steps: PRE_NORM_LAYER },
    ],
    kind_of: |config, layer| config.attention_layers.contains(layer).into(),
    // The final norm has the name of the embedding's.
    end: &[logits(norm(Role::EmbeddingNorm, Input::Head)), logits(lists::HEAD)],
};

pub(super) const LFM2: Architecture = Architecture {
    name: "lfm2",
    qk_norm: QkNorm::Heads,
    finish: |keys, config| {
        config.recurrent = recurrent(config, keys.size("shortconv.l_cache")?);
        config.head.embedding_norm = true;
        Ok(())
    },
    program: |_, _| Ok(PROGRAM),
    ..DECODER
};

/// The layers without attention.
fn recurrent(config: &Config, kernel: usize) -> Recurrent {
    Recurrent {
        mixer: Mixer::ShortConvolution,
        layers: LayerSet::of(config.layers, |layer| !config.attention_layers.contains(layer)),
        channels: config.hidden,
        kernel,
        ..Recurrent::default()
    }
}
