//! Checkpoints of the states of recurrent layers.

use super::{Engine, EngineError};
use crate::cache::SeqId;

impl Engine<'_, '_> {
    /// Keeps the state of a sequence's recurrent layers, so that a later [`Engine::rewind`] to its length of today
    /// computes nothing again. Checkpoints that the host asks for stay until the sequence is closed or rewound past them.
    /// Returns whether there was room, see `Limits::checkpoints`; true where the model has no such layers.
    ///
    /// # Errors
    /// [`EngineError::Cache`]: unknown, or busy.
    pub fn checkpoint(&mut self, seq: SeqId) -> Result<bool, EngineError> {
        self.check_quiet(seq)?;
        if !self.parts.cache.has_states() {
            self.seq_len(seq)?;
            return Ok(true);
        }
        Ok(self.parts.cache.keep_state(seq, true)?)
    }

    /// Asks for a checkpoint where a sequence has `position` tokens: now, or when its tokens get there, for which a batch ends
    /// there. One position is asked for at a time, until the sequence is rewound or the work on it dropped. The checkpoint gives way to others
    /// as those of prompts do (`Limits::checkpoints`). Nothing happens where the model has no recurrent layers.
    ///
    /// # Errors
    /// [`EngineError::Cache`]: unknown, or busy.
    pub fn checkpoint_at(&mut self, seq: SeqId, position: usize) -> Result<(), EngineError> {
        self.check_quiet(seq)?;
        Ok(self.parts.cache.want_state(seq, position)?)
    }

    /// Returns how many tokens need not be computed again if the sequence is rewound to `keep` tokens: `keep`, or the last
    /// checkpoint before it in a model with recurrent layers.
    ///
    /// # Errors
    /// [`EngineError::Cache`].
    pub fn computed_at(&self, seq: SeqId, keep: usize) -> Result<usize, EngineError> {
        Ok(self.parts.cache.computed_at(seq, keep)?)
    }
}
