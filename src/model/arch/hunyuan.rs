//! Hunyuan, dense: each head of Q and K is normalized after its rotation. The rotary base of a file is the scaled one.

use super::{Architecture, DECODER};
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
