//! Min-p: Nguyen et al., "Turning up the heat: min-p sampling for creative and coherent LLM outputs", 2024.

use super::candidates::Candidates;
use crate::num;

/// Keeps the tokens that are at least `p` times as probable as the most probable one at temperature 1; 0 keeps all.
pub(super) fn apply(candidates: &mut Candidates<'_>, p: f32) {
    if p > 0.0 {
        let (_, best) = candidates.best();
        candidates.retain(|logit| num::exp(logit - best) >= p);
    }
}
