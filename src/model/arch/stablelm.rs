//! StableLM 2: rotations of a part of each head. The 12B model has a norm per head, and attention and the feed-forward
//! layer side by side after one norm.

use super::{Architecture, Biases, DECODER, NO_BIASES, Presence, QkNorm};
use crate::kernels::NormKind;

pub(super) const STABLELM: Architecture = Architecture {
    name: "stablelm",
    norm: NormKind::Layer,
    biases: Biases { qkv: Presence::Optional, norm: Presence::Always, ..NO_BIASES },
    finish: |keys, config| {
        if keys.has("blk.0.attn_q_norm.weight") {
            config.attention.qk_norm = QkNorm::EachHead;
        }
        // The key `use_parallel_residual` is not to be trusted: converters set it where models do not say.
        config.residual.parallel = !keys.has("blk.0.ffn_norm.weight");
        config.residual.shared_norm = config.residual.parallel;
        Ok(())
    },
    ..DECODER
};
