//! Qwen 2 to 3.

use super::{Architecture, DECODER, NO_BIASES, SHARED_WIDTH};
use crate::nn::{RouterScores, Routing};
use crate::weights::{Biases, Presence, QkNorm};

/// Qwen 1.5 to 2.5: biases on Q, K and V only.
pub(super) const QWEN2: Architecture =
    Architecture { name: "qwen2", biases: Biases { qkv: Presence::Always, ..NO_BIASES }, ..DECODER };

/// Qwen 1.5 and 2 with experts, weighted by the softmax over all experts, and a shared expert with a gate.
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

/// Qwen 3: each head of Q and K is normalized. The width of heads does not depend on the hidden size.
pub(super) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    qk_norm: QkNorm::Heads,
    finish: |_, config| {
        // The rerankers of this architecture are trained to answer yes or no.
        config.pooler.probabilities = true;
        Ok(())
    },
    ..DECODER
};

/// Qwen 3 with experts.
pub(super) const QWEN3MOE: Architecture =
    Architecture { name: "qwen3moe", qk_norm: QkNorm::Heads, experts: true, ..DECODER };

/// The language part of Qwen 3 VL. Texts have nothing of what images add to the first layers.
pub(super) const QWEN3VL: Architecture =
    Architecture { name: "qwen3vl", finish: |keys, _| keys.refuse_fourth_position(), ..QWEN3 };

/// The language part of Qwen 3 VL with experts.
pub(super) const QWEN3VLMOE: Architecture =
    Architecture { name: "qwen3vlmoe", finish: |keys, _| keys.refuse_fourth_position(), ..QWEN3MOE };
