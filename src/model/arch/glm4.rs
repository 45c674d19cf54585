//! GLM 4 (0414): a norm at both ends of each branch, rotations of adjacent pairs in a part of each head, gate and up in one
//! matrix.

use super::{Architecture, DECODER, OPTIONAL_BIASES};
use crate::nn::RopePairs;
use crate::program::LayerKind;
use crate::program::lists::{BOTH_NORMS_LAYER, uniform};
use crate::weights::{Biases, Presence};

pub(super) const GLM4: Architecture = Architecture {
    name: "glm4",
    pairs: RopePairs::Adjacent,
    biases: Biases { output: Presence::Never, ffn: Presence::Never, ..OPTIONAL_BIASES },
    program: |_, _| Ok(uniform(&[LayerKind { name: "layer", steps: BOTH_NORMS_LAYER }])),
    ..DECODER
};
