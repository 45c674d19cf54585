//! GPT-NeoX and Pythia: attention and the feed-forward layer side by side, rotations of a part of each head.

use super::{ALL_BIASES, Architecture, DECODER};
use crate::kernels::{Activation, NormKind};

pub(super) const GPTNEOX: Architecture = Architecture {
    name: "gptneox",
    norm: NormKind::Layer,
    activation: Activation::GeluErf,
    gated: false,
    biases: ALL_BIASES,
    finish: |keys, config| {
        config.residual.parallel = keys.flag("use_parallel_residual", true)?;
        Ok(())
    },
    ..DECODER
};
