//! The draw.

use super::Choice;
use super::candidates::Candidates;

/// Returns the first token by ascending id at which the running total of masses exceeds ⌊total · `uniform24` / 2^24⌋.
pub(super) fn apply(candidates: &Candidates<'_>, uniform24: u32) -> Choice {
    let (first, best) = candidates.best();
    let total = candidates.total(best);
    let threshold = ((u128::from(total) * u128::from(uniform24)) >> 24) as u64;
    let mut running = 0;
    let reached = candidates.masses(best).find(|&(_, mass)| {
        running += mass;
        running > threshold
    });
    // The threshold is below the total, so a token is always found, and the default is never used.
    let (token, mass) = reached.unwrap_or((first, total));
    Choice { token, probability: mass as f32 / total as f32 }
}
