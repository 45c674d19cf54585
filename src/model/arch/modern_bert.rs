//! ModernBERT and NeoBERT: encoders with norms before their branches. ModernBERT has windows in most layers. (Warner et
//! al., "Smarter, Better, Faster, Longer", 2024; Le Breton et al., "NeoBERT", 2025.)

use gguf_rs_lite::Value;

use super::{Architecture, DECODER};
use crate::kernels::{Activation, NormKind};
use crate::kv::{LayerGroups, LayerSet, MAX_GROUPS};
use crate::model::keys::{Keys, PATTERN};
use crate::nn::{Frequencies, RopePairs};
use crate::ops::{Input, Source, Target};
use crate::program::lists::{
    self, FEED_FORWARD, FFN_NORM, HEADS, PRE_NORM_LAYER, all, finished, layer, logits, norm, output, quantize,
};
use crate::program::{LayerKind, Program, Step};
use crate::weights::{ClassifierForm, Config, FinalNorm, ModelError, Role};

/// Attention of the first layer. The norm of the embedding replaces the norm before it.
const FIRST_ATTENTION: &[Step] =
    layer![&[all(quantize(Source::Residual, Input::Attention))], HEADS, &[finished(output(Target::Residual))],];

const PROGRAM: Program = Program {
    begin: lists::ROTARY,
    kinds: &[
        LayerKind { name: "first", steps: layer![FIRST_ATTENTION, FFN_NORM, FEED_FORWARD] },
        LayerKind { name: "local", steps: PRE_NORM_LAYER },
        LayerKind { name: "global", steps: PRE_NORM_LAYER },
    ],
    kind_of: |config, layer| if layer == 0 { 0 } else { 1 + config.rope.groups.group(layer) },
    end: lists::LOGITS,
};

pub(super) const MODERN_BERT: Architecture = Architecture {
    name: "modern-bert",
    norm: NormKind::Layer,
    embedding_norm: true,
    activation: Activation::GeluErf,
    causal: false,
    finish: |keys, config| {
        config.pooler.classifier_form = ClassifierForm::Gelu;
        windows(keys, config)
    },
    program: |_, _| Ok(PROGRAM),
    ..DECODER
};

/// NeoBERT: a Llama without a mask, whose final norm has another name.
pub(super) const NEO_BERT: Architecture = Architecture {
    name: "neo-bert",
    pairs: RopePairs::Adjacent,
    causal: false,
    finish: |_, config| {
        config.head.norm = FinalNorm::Encoder;
        Ok(())
    },
    program: |_, _| {
        const END: &[Step] = &[logits(norm(Role::EncoderNorm, Input::Head)), logits(lists::HEAD)];
        Ok(Program { end: END, ..lists::DECODER })
    },
    ..DECODER
};

/// Reads the windows. By default the first of every three layers sees all positions. The others have a window and
/// frequencies of their own.
fn windows(keys: &Keys<'_>, config: &mut Config) -> Result<(), ModelError> {
    let seeing = if let Some(Value::Array(_)) = keys.get(PATTERN) {
        let sliding = keys.flags(PATTERN, config.layers)?;
        LayerSet::of(config.layers, |layer| !sliding.contains(layer))
    } else {
        let period = keys.size_or(PATTERN, 3)?;
        LayerSet::of(config.layers, |layer| layer.checked_rem(period) == Some(0))
    };
    let window = keys.size("attention.sliding_window")?;
    (config.layer_groups, config.windows) = match seeing.before(config.layers) {
        0 => (LayerGroups::ONE, [window; MAX_GROUPS]),
        all if all == config.layers => (LayerGroups::ONE, [0; MAX_GROUPS]),
        _ => (LayerGroups::with_second(seeing), [window, 0]),
    };
    config.rope.groups = LayerGroups::with_second(seeing);
    let [global, _] = config.rope.frequencies;
    let local = keys.positive("rope.freq_base_swa", Some(10_000.0))?;
    config.rope.frequencies = [Some(Frequencies::plain(local)), global];
    Ok(())
}
