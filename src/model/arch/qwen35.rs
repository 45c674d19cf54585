//! Qwen 3.5 (and Qwen 3 Next): the gated delta rule in most layers, gated attention in the others.

use super::{Architecture, DECODER, SHARED_WIDTH};
use crate::kv::LayerSet;
use crate::model::keys::{GROUPS, Keys};
use crate::ops::{Input, Source, Target};
#[cfg(feature = "predictor")]
use crate::program::lists::predictor;
use crate::program::lists::{
    ATTENTION, CONVOLVE, DELTA_RULE, FEED_FORWARD, LATE_FFN_NORM, MIXER_INPUT, SHARED_EXPERTS, all, finished, layer,
    mixer_output, norm, quantize, uniform,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{Config, HeadGates, Mixer, ModelError, QkNorm, Role};

/// The delta rule in place of attention.
const DELTA: &[Step] = &[
    all(norm(Role::AttentionNorm, Input::Attention)),
    all(MIXER_INPUT),
    all(CONVOLVE),
    all(DELTA_RULE),
    finished(quantize(Source::Mixer, Input::Mixer)),
    finished(mixer_output(Role::MixerOut, Target::Residual)),
];

const PROGRAM: Program = Program {
    kinds: &[
        LayerKind { name: "delta rule", steps: layer![DELTA, LATE_FFN_NORM, FEED_FORWARD] },
        LayerKind { name: "attention", steps: layer![ATTENTION, LATE_FFN_NORM, FEED_FORWARD] },
        LayerKind { name: "delta rule, experts", steps: layer![DELTA, LATE_FFN_NORM, SHARED_EXPERTS] },
        LayerKind { name: "attention, experts", steps: layer![ATTENTION, LATE_FFN_NORM, SHARED_EXPERTS] },
    ],
    kind_of: |config, layer| {
        usize::from(config.attention_layers.contains(layer)) + 2 * usize::from(config.feed_forward.experts > 0)
    },
    ..uniform(&[])
};

/// Qwen 3.5, in which attention's result is gated.
pub(super) const QWEN35: Architecture = Architecture {
    name: "qwen35",
    qk_norm: QkNorm::Heads,
    finish: |keys, config| {
        let layers = recurrent_layers(keys, config)?;
        config.attention_layers = LayerSet::of(config.layers, |layer| !layers.contains(layer));
        config.attention.gates = HeadGates::Elements;
        // The layers with a delta rule have a matrix `attn_qkv`, which does not belong to attention.
        config.attention.fused = false;
        config.recurrent = keys.matrices(Mixer::DeltaRule, layers, keys.size(GROUPS)?)?;
        Ok(())
    },
    program: |_, _| Ok(PROGRAM),
    #[cfg(feature = "predictor")]
    predictor: Some(|config| predictor(&PROGRAM, config)),
    ..DECODER
};

/// Qwen 3.5 with experts and a shared expert.
pub(super) const QWEN35MOE: Architecture =
    Architecture { name: "qwen35moe", experts: true, shared_gate: true, reads: &[SHARED_WIDTH], ..QWEN35 };

/// Returns the layers with a delta rule: those that the file lists, or all but those at each multiple of an interval.
fn recurrent_layers(keys: &Keys<'_>, config: &Config) -> Result<LayerSet, ModelError> {
    const LIST: &str = "attention.recurrent_layers";
    const INTERVAL: &str = "full_attention_interval";
    if keys.get(LIST).is_some() {
        return keys.flags(LIST, config.layers);
    }
    let interval = keys.size(INTERVAL)?;
    Ok(LayerSet::of(config.layers, |layer| !(layer + 1).is_multiple_of(interval)))
}
