//! Llama and what is built like it: Llama 1 to 3.x, SmolLM2, TinyLlama, the story models.
//!
//! The rows of Q and K are stored interleaved, so that the rotation takes adjacent pairs. Llama 3 files
//! have `rope_freqs.weight`, which divides the frequencies.

use super::Architecture;
use crate::model::config::Config;
use crate::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture =
    Architecture { name: "llama", config: |keys| Config::decoder(keys, "llama", RopePairs::Adjacent, false) };
