//! Models with Mamba-2 layers: Granite 4 H, Falcon-H1, Nemotron-H.

use super::{Architecture, DECODER};
use crate::model::keys::Keys;
use crate::ops::{Input, Source, Target};
use crate::program::lists::{
    ATTEND, CONVOLVE, GATE_UP, MIXER_INPUT, NORM_ROTATE, NOT_ROTARY, QKV, SCAN, STORE, all, down, finished,
    mixer_output, norm, output, quantize, uniform,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Config, LayerSet, Mixer, ModelError, Recurrent, Role};

/// A layer of Granite 4 H with a state space.
const GRANITE_SCAN: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(MIXER_INPUT),
    all(CONVOLVE),
    all(SCAN),
    finished(quantize(Source::Mixer, Input::Mixer)),
    finished(mixer_output(Role::MixerOut, Target::Residual)),
    finished(norm(Role::FfnNorm, Input::FeedForward)),
    finished(GATE_UP),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Residual)),
];

/// A layer of Granite 4 H with attention. Its queries and keys have no positions: the state spaces know the order.
const GRANITE_ATTENTION: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(QKV),
    all(NORM_ROTATE),
    all(STORE),
    finished(ATTEND),
    finished(quantize(Source::Attention, Input::Output)),
    finished(output(Target::Residual)),
    finished(norm(Role::FfnNorm, Input::FeedForward)),
    finished(GATE_UP),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Residual)),
];

/// Factors for embeddings, scores, branches and logits, as Granite 3 has.
pub(super) const GRANITE_HYBRID: Architecture = Architecture {
    name: "granitehybrid",
    finish: |keys, config| {
        config.head.scale = 1.0 / keys.factor("logit_scale", 1.0)?;
        if !keys.flag("rope.scaling.finetuned", true)? {
            config.rope = keys.no_rope(config.rope.pairs);
        }
        let attention = config.attention_layers;
        config.recurrent = recurrent(keys, LayerSet::of(config.layers, |layer| !attention.contains(layer)))?;
        Ok(())
    },
    program: |_, config| {
        let kinds = &[
            LayerKind { name: "state space", steps: GRANITE_SCAN },
            LayerKind { name: "attention", steps: GRANITE_ATTENTION },
        ];
        let begin = if config.rope.dims > 0 { uniform(&[]).begin } else { NOT_ROTARY };
        let kind_of = |config: &Config, layer| config.attention_layers.contains(layer).into();
        Ok(Program { begin, kinds, kind_of, ..uniform(&[]) })
    },
    ..DECODER
};

/// Falcon-H1: a state space and attention side by side in each layer. Both read the same input, and both are added.
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
    finished(GATE_UP),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Residual)),
];

pub(super) const FALCON_H1: Architecture = Architecture {
    name: "falcon-h1",
    finish: |keys, config| {
        config.recurrent = recurrent(keys, config.attention_layers)?;
        Ok(())
    },
    program: |_, _| Ok(uniform(&[LayerKind { name: "layer", steps: FALCON }])),
    ..DECODER
};

/// The state space of some layers.
fn recurrent(keys: &Keys<'_>, layers: LayerSet) -> Result<Recurrent, ModelError> {
    let [key_dim, heads, inner] = ["ssm.state_size", "ssm.time_step_rank", "ssm.inner_size"].map(|key| keys.size(key));
    let (key_dim, heads, inner, groups) = (key_dim?, heads?, inner?, keys.size_or("ssm.group_count", 1)?);
    if !inner.is_multiple_of(heads) {
        return Err(keys.bad("ssm.inner_size"));
    }
    if !heads.is_multiple_of(groups) {
        return Err(keys.bad("ssm.group_count"));
    }
    Ok(Recurrent {
        mixer: Mixer::StateSpace,
        layers,
        channels: groups.saturating_mul(key_dim).saturating_mul(2).saturating_add(inner),
        kernel: keys.size("ssm.conv_kernel")?,
        heads,
        key_dim,
        value_dim: inner / heads,
        groups,
    })
}
