//! Qwen 2 to 3.

use super::{Architecture, DECODER, NO_BIASES};
use crate::weights::{Biases, Presence, QkNorm};

/// Biases on Q, K and V only.
pub(super) const QWEN2: Architecture =
    Architecture { name: "qwen2", biases: Biases { qkv: Presence::Always, ..NO_BIASES }, ..DECODER };

/// Each head of Q and K is normalized; the heads' width is independent of the hidden size.
pub(super) const QWEN3: Architecture = Architecture { name: "qwen3", qk_norm: QkNorm::Heads, ..DECODER };

/// The same with experts.
pub(super) const QWEN3MOE: Architecture =
    Architecture { name: "qwen3moe", qk_norm: QkNorm::Heads, experts: true, ..DECODER };
