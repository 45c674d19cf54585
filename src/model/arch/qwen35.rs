//! Qwen 3.5 (and Qwen 3 Next): the gated delta rule in most layers, gated attention in the others.

use super::{Architecture, DECODER};
use crate::model::keys::Keys;
use crate::ops::{Input, Source, Target};
use crate::program::lists::{
    ATTEND, CONVOLVE, DELTA_RULE, GATE_UP, MIXER_INPUT, NORM_ROTATE, QKV, STORE, all, down, finished, mixer_output,
    norm, output, quantize, uniform,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Config, LayerSet, Mixer, ModelError, QkNorm, Recurrent, Role};

/// A layer with the delta rule. The norm of the feed-forward layer has the name of another one.
const DELTA: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(MIXER_INPUT),
    all(CONVOLVE),
    all(DELTA_RULE),
    finished(quantize(Source::Mixer, Input::Mixer)),
    finished(mixer_output(Role::MixerOut, Target::Residual)),
    finished(norm(Role::PostAttentionNorm, Input::FeedForward)),
    finished(GATE_UP),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Residual)),
];

/// A layer with attention, whose result is gated.
const ATTENTION: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(QKV),
    all(NORM_ROTATE),
    all(STORE),
    finished(ATTEND),
    finished(quantize(Source::Attention, Input::Output)),
    finished(output(Target::Residual)),
    finished(norm(Role::PostAttentionNorm, Input::FeedForward)),
    finished(GATE_UP),
    finished(quantize(Source::FeedForward, Input::Down)),
    finished(down(Target::Residual)),
];

const PROGRAM: Program = Program {
    kinds: &[LayerKind { name: "delta rule", steps: DELTA }, LayerKind { name: "attention", steps: ATTENTION }],
    kind_of: |config, layer| config.attention_layers.contains(layer).into(),
    ..uniform(&[])
};

pub(super) const QWEN35: Architecture = Architecture {
    name: "qwen35",
    qk_norm: QkNorm::Heads,
    finish: |keys, config| {
        let layers = recurrent_layers(keys, config)?;
        config.attention_layers = LayerSet::of(config.layers, |layer| !layers.contains(layer));
        config.attention.gated = true;
        // The layers with a delta rule have a matrix of this name.
        config.attention.fused = false;
        config.recurrent = recurrent(keys, layers)?;
        Ok(())
    },
    program: |_, _| Ok(PROGRAM),
    ..DECODER
};

/// The layers with a delta rule: those that the file lists, or all but every so many-th.
fn recurrent_layers(keys: &Keys<'_>, config: &Config) -> Result<LayerSet, ModelError> {
    const LIST: &str = "attention.recurrent_layers";
    const INTERVAL: &str = "full_attention_interval";
    if keys.get(LIST).is_some() {
        return keys.flags(LIST, config.layers);
    }
    let interval = keys.size(INTERVAL)?;
    Ok(LayerSet::of(config.layers, |layer| !(layer + 1).is_multiple_of(interval)))
}

fn recurrent(keys: &Keys<'_>, layers: LayerSet) -> Result<Recurrent, ModelError> {
    let [key_dim, groups, heads, inner] =
        ["ssm.state_size", "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size"].map(|key| keys.size(key));
    let (key_dim, groups, heads, inner) = (key_dim?, groups?, heads?, inner?);
    if !inner.is_multiple_of(heads) {
        return Err(keys.bad("ssm.inner_size"));
    }
    if !heads.is_multiple_of(groups) {
        return Err(keys.bad("ssm.group_count"));
    }
    Ok(Recurrent {
        mixer: Mixer::DeltaRule,
        layers,
        channels: groups.saturating_mul(key_dim).saturating_mul(2).saturating_add(inner),
        kernel: keys.size("ssm.conv_kernel")?,
        heads,
        key_dim,
        value_dim: inner / heads,
        groups,
    })
}
