//! Gemma 1 to 3: embeddings multiplied by the root of their width, and a gate with GELU. The stored weights of the
//! norms contain the 1 that the models add to them.

use super::{Architecture, DECODER};
use crate::kernels::Activation;
use crate::kv::LayerGroups;
use crate::nn::Frequencies;
use crate::program::lists::{BOTH_NORMS_LAYER, uniform};
use crate::program::{LayerKind, Program};
use crate::weights::{Config, QkNorm, inverse_root};

/// Layers with a window, and layers that see everything. They differ in their window and their rotary frequencies only.
const ALTERNATING: Program = Program {
    kinds: &[
        LayerKind { name: "local", steps: BOTH_NORMS_LAYER },
        LayerKind { name: "global", steps: BOTH_NORMS_LAYER },
    ],
    kind_of: |config, layer| config.rope.groups.place(layer).0.max(config.layer_groups.place(layer).0),
    ..uniform(&[])
};

/// Gemma 1.
pub(super) const GEMMA: Architecture = Architecture {
    name: "gemma",
    finish: |_, config| {
        scale_embedding(config);
        Ok(())
    },
    ..FAMILY
};

/// Gemma 2: capped scores and logits, norms at both ends of the branches, a window in every other layer.
pub(super) const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    // Early files have neither window nor caps.
    window: 4096,
    window_period: 2,
    finish: |keys, config| {
        scale_embedding(config);
        for (key, cap, default) in [
            ("attn_logit_softcapping", &mut config.attention.soft_cap, 50.0),
            ("final_logit_softcapping", &mut config.head.soft_cap, 30.0),
        ] {
            *cap = if keys.get(key).is_some() { *cap } else { default };
        }
        // The file of the 27B model does not state its scale. Only the number of layers identifies the model.
        if config.layers == 46 {
            config.attention.scale = inverse_root(config.hidden / config.heads.max(1));
        }
        Ok(())
    },
    program: |_, config| Ok(alternating(config)),
    ..FAMILY
};

/// Gemma 3: norms on Q and K, a window in five layers of six, and two sets of frequencies. The scaling factor applies
/// to the layers without a window.
pub(super) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    qk_norm: QkNorm::Heads,
    window_period: GEMMA3_PERIOD,
    finish: |keys, config| {
        scale_embedding(config);
        if config.layers == 62 {
            config.attention.scale = inverse_root(config.hidden / config.heads.max(1));
        }
        let local = keys.positive("rope.freq_base_swa", Some(10_000.0))?;
        // The pattern decides which layers have local frequencies, even if the file has no window.
        config.rope.groups = match config.layer_groups {
            LayerGroups::ONE => LayerGroups::alternating(GEMMA3_PERIOD),
            groups => groups,
        };
        let [global, _] = config.rope.frequencies;
        config.rope.frequencies = [Some(Frequencies::plain(local)), global];
        Ok(())
    },
    program: |_, config| Ok(alternating(config)),
    ..FAMILY
};

/// Gemma 3 in which a token also sees the tokens after it. Windows reach to both sides.
pub(super) const GEMMA_EMBEDDING: Architecture = Architecture { name: "gemma-embedding", causal: false, ..GEMMA3 };

const GEMMA3_PERIOD: usize = 6;

const FAMILY: Architecture = Architecture { activation: Activation::GeluTanh, ..DECODER };

fn scale_embedding(config: &mut Config) {
    config.embedding.scale = libm::sqrt(config.hidden as f64) as f32;
}

/// Returns the program of Gemma 2 and 3. In early files no layer has a window, and all layers are alike.
fn alternating(config: &Config) -> Program {
    match (config.layer_groups, config.rope.groups) {
        (LayerGroups::ONE, LayerGroups::ONE) => uniform(&[LayerKind { name: "layer", steps: BOTH_NORMS_LAYER }]),
        _ => ALTERNATING,
    }
}
