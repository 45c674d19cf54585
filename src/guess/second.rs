//! Functions for all sources that compute in an engine of their own.

use super::GuessError;
use crate::cache::{CacheError, SeqId};
use crate::engine::{Engine, EngineError, Step};
use crate::par::Budget;

/// Number of tokens of the text that are queued at a time.
pub(super) const CHUNK: usize = 64;

/// Number of tokens that are compared again: the last ones that are known to be the same.
const OVERLAP: usize = 8;

/// Closes the sequence of a source.
pub(super) fn close(engine: &mut Engine<'_, '_>, seq: SeqId) -> Result<(), GuessError> {
    engine.cancel(seq).and_then(|()| engine.close(seq)).map_err(GuessError::Draft)
}

/// Computes a batch. Returns whether it came to its end. It does not if the budget is used up.
pub(super) fn batch(engine: &mut Engine<'_, '_>, budget: &mut Budget<'_>) -> Result<bool, EngineError> {
    match engine.step(*budget)? {
        Step::Yielded | Step::Cancelled => return Ok(false),
        Step::Ready | Step::Idle => {}
    }
    if budget.units < usize::MAX {
        // The engine does not say how many units are left.
        budget.units = 0;
    }
    Ok(true)
}

/// Returns how many of the first `len` places are still the same. The first `known` places were the same before. Of
/// these only the last ones are compared, unless one of them is different now.
pub(super) fn same_places(known: usize, len: usize, is_same: impl Fn(&usize) -> bool) -> usize {
    let same_from = |begin: usize| begin.saturating_add((begin..len).take_while(&is_same).count());
    let same = same_from(known.saturating_sub(OVERLAP));
    // The host has gone back, perhaps further than that.
    if same < known { same_from(0) } else { same }
}

/// Returns whether an error only ends the guesses, because the engine can take no more tokens, or not this one.
pub(super) fn is_end(error: &EngineError) -> bool {
    use CacheError::{ContextFull, OutOfBlocks, TooMany};
    matches!(
        error,
        EngineError::Cache(ContextFull { .. } | OutOfBlocks { .. } | TooMany { .. })
            | EngineError::Token { .. }
            | EngineError::Empty
    )
}
