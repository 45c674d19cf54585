//! Checks for encoders, whose tokens see those after them: a text is computed at once, and nothing can follow it.

use super::{Engine, EngineError, Logits};
use crate::cache::SeqId;

impl Engine<'_, '_> {
    /// Checks whether a sequence of `length` tokens can take `tokens` more.
    pub(super) fn check_whole(&self, length: usize, tokens: usize) -> Result<(), EngineError> {
        let rows = self.parts.rows.len();
        match self.model.config().attention.causal {
            true => Ok(()),
            false if length > 0 => Err(EngineError::Whole { length }),
            false if tokens > rows => Err(EngineError::TextRows { tokens, rows }),
            false => Ok(()),
        }
    }

    /// Checks whether the first `keep` tokens of a sequence are worth anything without the others.
    pub(super) fn check_part(&self, seq: SeqId, keep: usize) -> Result<(), EngineError> {
        let length = self.seq_len(seq)?;
        let is_part = keep > 0 && keep < length;
        if is_part && !self.model.config().attention.causal { Err(EngineError::Whole { length }) } else { Ok(()) }
    }

    /// Checks whether rows can have the results that are wanted.
    pub(super) fn check_logits(&self, wanted: Logits) -> Result<(), EngineError> {
        let refused = matches!(wanted, Logits::Last | Logits::All) && !self.model.has_logits();
        let hidden = matches!(wanted, Logits::LastHidden | Logits::Hidden);
        match self.parts.cache.is_on_device() && hidden {
            true => Err(EngineError::OnDevice { what: "hidden states" }),
            false if refused => Err(EngineError::NoLogits),
            false => Ok(()),
        }
    }
}
