//! Temperature.

use super::candidates::Candidates;

/// Divides the logits' distances to the largest one by `t`, which is finite and above 0.
pub(super) fn apply(candidates: &mut Candidates<'_>, t: f32) {
    let (_, best) = candidates.best();
    candidates.rescale(|logit| (logit - best) / t);
}
