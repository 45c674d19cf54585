//! Top-k.

use super::candidates::Candidates;

/// Keeps the first `k` tokens of the sort order; 0 keeps all.
pub(super) fn apply(candidates: &mut Candidates<'_>, k: usize) {
    if (1..candidates.len()).contains(&k) {
        candidates.keep_count(k);
    }
}
