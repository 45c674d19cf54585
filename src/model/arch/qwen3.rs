//! Qwen3: each head of Q and K is normalized before the rotation; the head's width is independent of the
//! hidden size.

use super::Architecture;
use crate::model::config::Config;
use crate::ops::RopePairs;

pub(super) const ARCHITECTURE: Architecture =
    Architecture { name: "qwen3", config: |keys| Config::decoder(keys, "qwen3", RopePairs::Halves, true) };
