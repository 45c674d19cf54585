//! Hunyuan: each head of Q and K is normalized after its rotation. The rotary base in a file is already scaled.

use super::{Architecture, DECODER, FFN_WIDTHS, SHARED_COUNT, SHARED_WIDTH};
use crate::nn::RopePairs;
use crate::weights::QkNorm;

pub(super) const HUNYUAN: Architecture = Architecture {
    name: "hunyuan-dense",
    qk_norm: QkNorm::Heads,
    finish: |_, config| {
        config.attention.norm_after_rotation = true;
        Ok(())
    },
    ..DECODER
};

/// Hunyuan A13B: experts and a shared expert in all layers.
pub(super) const HUNYUAN_MOE: Architecture = Architecture {
    name: "hunyuan-moe",
    experts: true,
    reads: &[SHARED_COUNT, SHARED_WIDTH],
    finish: |keys, config| {
        config.attention.norm_after_rotation = true;
        if config.feed_forward.experts == 0 {
            return Err(keys.bad("expert_count"));
        }
        if config.feed_forward.shared_width == 0 {
            config.feed_forward.shared_width = keys.size(FFN_WIDTHS)?;
        }
        Ok(())
    },
    ..HUNYUAN
};

/// Maincoder: the same norms, with rotations of adjacent pairs.
pub(super) const MAINCODER: Architecture = Architecture { name: "maincoder", pairs: RopePairs::Adjacent, ..HUNYUAN };
