//! Checkpoints of the states of recurrent layers, and what guesses cost there.

use super::{Engine, EngineError};
use crate::cache::{KvKind, SeqId};

impl Engine<'_, '_> {
    /// Keeps the state of a sequence's recurrent layers, so that a later [`Engine::rewind`] to its length of today
    /// computes nothing again. Checkpoints that the host asks for stay until the sequence is closed or rewound past
    /// them. Returns whether it was kept: false where there is no room, see `Limits::checkpoints`, and after a rewind
    /// whose rows are to be computed again ([`Engine::computed_at`]), since their state is not there. True where the
    /// model has no such layers.
    ///
    /// # Errors
    /// [`EngineError::Cache`]: unknown, or busy.
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

    /// Asks for a checkpoint where a sequence has `position` tokens: now, or when its tokens get there, for which a
    /// batch ends there. One position is asked for at a time, until the sequence is rewound or the work on it dropped.
    /// The checkpoint gives way to others as those of prompts do (`Limits::checkpoints`). Nothing happens where the
    /// model has no recurrent layers.
    ///
    /// # Errors
    /// [`EngineError::Cache`]: unknown, or busy.
    pub fn checkpoint_at(&mut self, seq: SeqId, position: usize) -> Result<(), EngineError> {
        self.check_quiet(seq)?;
        Ok(self.parts.cache.want_state(seq, position)?)
    }

    /// Returns how many tokens can be guessed behind the one that is to be at `position`, for all that the states say.
    pub(crate) fn room_for_guesses(&self, seq: SeqId, position: usize) -> Result<usize, EngineError> {
        let (cache, every) = (&self.parts.cache, self.parts.checkpoint_every);
        if !cache.has_states() {
            return Ok(usize::MAX);
        }
        if self.rows_again(seq)? > 0 {
            // After a wrong guess the tokens before it are computed again, once: a batch without guesses puts an end to
            // that.
            return Ok(0);
        }
        // A state of which nobody knows whether it stays is not kept.
        let len = position.saturating_add(1);
        let due = len.checked_next_multiple_of(every).unwrap_or(usize::MAX);
        let wanted = Some(cache.wanted_state(seq) as usize).filter(|&wanted| wanted >= len).unwrap_or(usize::MAX);
        // After a wrong guess this token is computed again, and sees what it sees now.
        let kept = cache.geometry().kept_behind(position).min(cache.geometry().rows);
        Ok(due.min(wanted).saturating_sub(len).min(kept).saturating_sub(1))
    }

    /// Returns how many tokens of a sequence are computed again with those that are queued next, because its state has
    /// gone back; without a cache that is always all, and not counted here.
    pub(crate) fn rows_again(&self, seq: SeqId) -> Result<usize, EngineError> {
        let (len, computed) = (self.seq_len(seq)?, self.parts.cache.computed(seq)?);
        Ok(if self.parts.cache.kind() == KvKind::Off { 0 } else { len.saturating_sub(computed) })
    }

    /// Ends the judgement of guesses: the first `keep` tokens stay.
    pub(crate) fn keep_guesses(&mut self, seq: SeqId, keep: usize) -> Result<(), EngineError> {
        self.check_quiet(seq)?;
        self.check_part(seq, keep)?;
        Ok(self.parts.cache.keep_guesses(seq, keep)?)
    }

    /// Returns how many tokens need not be computed again if the sequence is rewound to `keep` tokens: `keep`, or the
    /// last checkpoint before it in a model with recurrent layers.
    ///
    /// # Errors
    /// [`EngineError::Cache`].
    pub fn computed_at(&self, seq: SeqId, keep: usize) -> Result<usize, EngineError> {
        Ok(self.parts.cache.computed_at(seq, keep)?)
    }
}
