//! Top-p, nucleus sampling: Holtzman et al., "The curious case of neural text degeneration", 2019.

use super::candidates::Candidates;

const TWO_32: f32 = 4_294_967_296.0;

/// Keeps the shortest prefix of the sort order that has at least `p` of the mass at temperature 1, but
/// at least one token; 1 keeps all.
pub(super) fn apply(candidates: &mut Candidates<'_>, p: f32) {
    if p >= 1.0 {
        return;
    }
    let (_, best) = candidates.best();
    let share = u128::from(candidates.total(best)) * u128::from((p * TWO_32) as u64);
    // p < 1, so this is at most the total.
    let needed = share.div_ceil(1 << 32) as u64;
    candidates.keep_mass(needed.max(1), best);
}
