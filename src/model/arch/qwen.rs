//! Qwen 2 to 3.

use super::{Architecture, DECODER, NO_BIASES, SHARED_WIDTH};
use crate::nn::{RouterScores, Routing};
use crate::weights::{Biases, Presence, QkNorm};

/// Biases on Q, K and V only.
pub(super) const QWEN2: Architecture =
    Architecture { name: "qwen2", biases: Biases { qkv: Presence::Always, ..NO_BIASES }, ..DECODER };

/// The same with experts, and a shared one with a gate. The weights of experts are the softmax over all of them.
pub(super) const QWEN2MOE: Architecture = Architecture {
    name: "qwen2moe",
    experts: true,
    routing: Routing { scores: RouterScores::Softmax, ..Routing::SOFTMAX_OF_CHOSEN },
    shared_gate: true,
    reads: &[SHARED_WIDTH],
    ..QWEN2
};

/// Each head of Q and K is normalized; the heads' width is independent of the hidden size.
pub(super) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    qk_norm: QkNorm::Heads,
    finish: |_, config| {
        // What its rerankers are trained to say is yes or no.
        config.pooler.probabilities = true;
        Ok(())
    },
    ..DECODER
};

/// The same with experts.
pub(super) const QWEN3MOE: Architecture =
    Architecture { name: "qwen3moe", qk_norm: QkNorm::Heads, experts: true, ..DECODER };
