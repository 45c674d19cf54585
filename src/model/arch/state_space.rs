//! Models with Mamba-2 layers: Granite 4 H, Falcon-H1, Nemotron-H.

use super::{Architecture, DECODER, EXPERT_SCALE, FFN_WIDTHS, SHARED_COUNT, SHARED_WIDTH};
use crate::kernels::Activation;
use crate::kv::LayerSet;
use crate::model::keys::{GROUPS, Keys};
use crate::nn::{RopePairs, RouterScores, Routing};
use crate::ops::{Input, Source, Target};
use crate::program::lists::{
    ATTEND, ATTENTION, CONVOLVE, EXPERTS, FEED_FORWARD, FFN_NORM, MIXER_INPUT, NORM_ROTATE, NOT_ROTARY, PRE_NORM_LAYER,
    QKV, SCAN, SHARED_EXPERTS, STATE_SPACE, STORE, all, finished, layer, mixer_output, norm, output, quantize, uniform,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Mixer, ModelError, Recurrent, Role};

const GRANITE: Program = Program {
    kinds: &[
        LayerKind { name: "state space", steps: layer![STATE_SPACE, FFN_NORM, FEED_FORWARD] },
        LayerKind { name: "attention", steps: PRE_NORM_LAYER },
        LayerKind { name: "state space, experts", steps: layer![STATE_SPACE, FFN_NORM, SHARED_EXPERTS] },
        LayerKind { name: "attention, experts", steps: layer![ATTENTION, FFN_NORM, SHARED_EXPERTS] },
    ],
    kind_of: |config, layer| {
        usize::from(config.attention_layers.contains(layer)) + 2 * usize::from(config.feed_forward.experts > 0)
    },
    ..uniform(&[])
};

/// Granite 4 H: factors for embeddings, scores, branches and logits, as in Granite 3.
pub(super) const GRANITE_HYBRID: Architecture = Architecture {
    name: "granitehybrid",
    pairs: RopePairs::Adjacent,
    experts: true,
    reads: &[SHARED_WIDTH],
    finish: |keys, config| {
        config.head.scale = 1.0 / keys.factor("logit_scale", 1.0)?;
        // The state spaces depend on the order of tokens, so attention needs no positions.
        if !keys.flag("rope.scaling.finetuned", true)? {
            config.rope = keys.no_rope(config.rope.pairs);
        }
        if config.feed_forward.experts == 0 {
            // Without experts this is the width of the feed-forward layer.
            config.feed_forward.shared_width = 0;
        }
        let attention = config.attention_layers;
        config.recurrent = recurrent(keys, LayerSet::of(config.layers, |layer| !attention.contains(layer)))?;
        Ok(())
    },
    program: |_, config| {
        let begin = if config.rope.width() > 0 { GRANITE.begin } else { NOT_ROTARY };
        Ok(Program { begin, ..GRANITE })
    },
    ..DECODER
};

/// Falcon-H1: a state space and attention side by side in each layer. Both read the same input, and both results are
/// added.
const FALCON: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(QKV),
    all(NORM_ROTATE),
    all(STORE),
    all(MIXER_INPUT),
    all(CONVOLVE),
    all(SCAN),
    finished(ATTEND),
    finished(quantize(Source::Attention, Input::Output)),
    finished(output(Target::Residual)),
    finished(quantize(Source::Mixer, Input::Mixer)),
    finished(mixer_output(Role::MixerOut, Target::Residual)),
    finished(norm(Role::PlainFfnNorm, Input::FeedForward)),
];

pub(super) const FALCON_H1: Architecture = Architecture {
    name: "falcon-h1",
    finish: |keys, config| {
        let normed = keys.has("blk.0.ssm_norm.weight");
        config.recurrent = Recurrent { normed, ..recurrent(keys, config.attention_layers)? };
        Ok(())
    },
    program: |_, _| Ok(uniform(&[LayerKind { name: "layer", steps: layer![FALCON, FEED_FORWARD] }])),
    ..DECODER
};

/// A feed-forward layer alone, whose norm has the name of attention's norm.
const NEMOTRON_FFN: &[Step] = layer![NEMOTRON_FFN_NORM, FEED_FORWARD];
const NEMOTRON_FFN_NORM: &[Step] = &[finished(norm(Role::AttentionNorm, Input::FeedForward))];

const NEMOTRON: Program = Program {
    begin: NOT_ROTARY,
    kinds: &[
        LayerKind { name: "state space", steps: STATE_SPACE },
        LayerKind { name: "attention", steps: ATTENTION },
        LayerKind { name: "feed-forward", steps: NEMOTRON_FFN },
        LayerKind { name: "experts", steps: layer![NEMOTRON_FFN_NORM, EXPERTS] },
        LayerKind { name: "experts, a shared one", steps: layer![NEMOTRON_FFN_NORM, SHARED_EXPERTS] },
    ],
    kind_of: |config, layer| match (config.recurrent.layers.contains(layer), config.attention_layers.contains(layer)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) if config.feed_forward.experts == 0 => 2,
        (false, false) => 3 + usize::from(config.feed_forward.shared_width > 0),
    },
    ..uniform(&[])
};

/// Nemotron-H: each layer is a state space, attention without positions, or a feed-forward layer.
pub(super) const NEMOTRON_H: Architecture = Architecture {
    name: "nemotron_h",
    activation: Activation::SquaredRelu,
    gated: false,
    rotary: false,
    reads: &[FFN_WIDTHS],
    finish: |keys, config| {
        let wide = keys.sizes(FFN_WIDTHS, config.layers, None)?.present(config.layers);
        let attention = config.attention_layers;
        let neither = |layer| !attention.contains(layer) && !wide.contains(layer);
        config.recurrent = recurrent(keys, LayerSet::of(config.layers, neither))?;
        if (0..config.layers).any(|layer| attention.contains(layer) && wide.contains(layer)) {
            return Err(keys.unsupported(FFN_WIDTHS));
        }
        Ok(())
    },
    program: |_, _| Ok(NEMOTRON),
    ..DECODER
};

/// Nemotron 3 Nano: as Nemotron-H, with experts in the feed-forward layers, which are chosen by their sigmoids with
/// biases.
pub(super) const NEMOTRON_H_MOE: Architecture = Architecture {
    name: "nemotron_h_moe",
    experts: true,
    routing: Routing { scores: RouterScores::Sigmoid, ..Routing::SOFTMAX_OF_CHOSEN },
    reads: &[FFN_WIDTHS, SHARED_COUNT, SHARED_WIDTH, EXPERT_SCALE],
    ..NEMOTRON_H
};

/// Returns the description of the given layers, which are state spaces.
fn recurrent(keys: &Keys<'_>, layers: LayerSet) -> Result<Recurrent, ModelError> {
    keys.matrices(Mixer::StateSpace, layers, keys.size_or(GROUPS, 1)?)
}
