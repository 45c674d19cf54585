//! Checkpoints of the states of recurrent layers, and how many guesses they allow.

use super::{Engine, EngineError};
use crate::cache::{KvCache, KvKind, SeqId};

impl Engine<'_, '_> {
    /// Keeps the state of a sequence's recurrent layers, so that a later [`Engine::rewind`] to the present length
    /// computes nothing again. A checkpoint that the host asks for stays until the sequence is closed or rewound past
    /// it. Returns whether the state was kept. It is not kept if there is no room (`Limits::checkpoints`), or after a
    /// rewind whose rows are still to be computed again ([`Engine::computed_at`]), since their state does not exist.
    /// Returns true if the model has no recurrent layers.
    ///
    /// # Errors
    /// [`EngineError::Cache`] if the sequence is unknown or busy.
    pub fn checkpoint(&mut self, seq: SeqId) -> Result<bool, EngineError> {
        self.check_quiet(seq)?;
        if !self.parts.cache.has_states() {
            self.seq_len(seq)?;
            return Ok(true);
        }
        if self.rows_again(seq)? > 0 {
            return Ok(false);
        }
        Ok(self.parts.cache.keep_state(seq, true)?)
    }

    /// Asks for a checkpoint at `position` tokens: now if the sequence has that length, or else when it gets there, by
    /// ending a batch at that position. A sequence has one such request at a time. A rewind drops it. After
    /// [`Engine::cancel`] and after a call that fails it stays, whatever tokens come next. The checkpoint gives way to
    /// others as the checkpoints of prompts do (`Limits::checkpoints`). Does nothing if the model has no recurrent
    /// layers.
    ///
    /// # Errors
    /// [`EngineError::Cache`] if the sequence is unknown or busy.
    pub fn checkpoint_at(&mut self, seq: SeqId, position: usize) -> Result<(), EngineError> {
        self.check_quiet(seq)?;
        Ok(self.parts.cache.want_state(seq, position)?)
    }

    /// Returns how many guesses the states allow behind a token that is to be at `position`.
    pub(crate) fn room_for_guesses(&self, seq: SeqId, position: usize) -> Result<usize, EngineError> {
        let (cache, every) = (&self.parts.cache, self.parts.checkpoint_every);
        if !cache.has_states() {
            return Ok(usize::MAX);
        }
        if self.rows_again(seq)? > 0 {
            // The tokens before a wrong guess are computed again with the next batch. Without guesses, that batch
            // commits them, so they are computed again only once.
            return Ok(0);
        }
        // A state after guesses may be dropped, so it cannot be a checkpoint: guesses end before the next one that is
        // due.
        let len = position.saturating_add(1);
        let due = len.checked_next_multiple_of(every).unwrap_or(usize::MAX);
        let wanted = Some(cache.wanted_state(seq) as usize).filter(|&wanted| wanted >= len).unwrap_or(usize::MAX);
        // After a wrong guess the token at `position` is computed again. A window must not have given back anything
        // that it sees.
        let kept = cache.geometry().kept_behind(position).min(cache.geometry().rows);
        Ok(due.min(wanted).saturating_sub(len).min(kept).saturating_sub(1))
    }

    /// Returns how many tokens of a sequence are computed again with the tokens that are queued next, because its state
    /// has gone back. Without a cache all tokens are always computed again: this is not counted, and the result is 0.
    pub(crate) fn rows_again(&self, seq: SeqId) -> Result<usize, EngineError> {
        let (len, computed) = (self.seq_len(seq)?, self.parts.cache.computed(seq)?);
        Ok(if self.parts.cache.kind() == KvKind::Off { 0 } else { len.saturating_sub(computed) })
    }

    /// Ends the judgement of guesses: the sequence keeps its first `keep` tokens.
    pub(crate) fn keep_guesses(&mut self, seq: SeqId, keep: usize) -> Result<(), EngineError> {
        self.check_quiet(seq)?;
        self.check_part(seq, keep)?;
        Ok(self.parts.cache.keep_guesses(seq, keep)?)
    }

    /// Returns how many tokens need not be computed again if the sequence is rewound to `keep` tokens: `keep`, or in a
    /// model with recurrent layers the position of the last checkpoint at or before `keep`.
    ///
    /// # Errors
    /// [`EngineError::Cache`].
    pub fn computed_at(&self, seq: SeqId, keep: usize) -> Result<usize, EngineError> {
        Ok(self.parts.cache.computed_at(seq, keep)?)
    }
}

/// Returns how many tokens a sequence may compute from position `next` on until a checkpoint is due or wanted, or `None`
/// if none is. A checkpoint is made only where a batch ends, so a batch ends there.
pub(super) fn rows_to_checkpoint(cache: &KvCache<'_>, every: usize, seq: SeqId, next: u32) -> Option<u32> {
    if !cache.has_states() {
        return None;
    }
    let wanted = cache.wanted_state(seq).checked_sub(next).filter(|&rows| rows > 0);
    let due = next.saturating_add(1).checked_next_multiple_of(every as u32).map(|at| at - next);
    wanted.into_iter().chain(due).min()
}

/// Returns whether a checkpoint is due or wanted where a sequence is `end` tokens long.
pub(super) fn is_checkpoint_due(cache: &KvCache<'_>, every: usize, seq: SeqId, end: u32) -> bool {
    let is_due = every > 0 && (end as usize).is_multiple_of(every);
    cache.has_states() && (is_due || cache.wanted_state(seq) == end)
}
