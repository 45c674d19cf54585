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

/// The language part of Qwen 2 VL and 2.5 VL.
pub(super) const QWEN2VL: Architecture =
    Architecture { name: "qwen2vl", finish: |keys, _| keys.refuse_fourth_position(), ..QWEN2 };

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

/// The language part of Qwen 3 VL. What images add to the first layers is not there in a text.
pub(super) const QWEN3VL: Architecture =
    Architecture { name: "qwen3vl", finish: |keys, _| keys.refuse_fourth_position(), ..QWEN3 };

/// The same with experts.
pub(super) const QWEN3VLMOE: Architecture =
    Architecture { name: "qwen3vlmoe", finish: |keys, _| keys.refuse_fourth_position(), ..QWEN3MOE };
