//! Hidden states that are given with tokens, to a layer that predicts further ahead.

use super::{Engine, EngineError, Logits, Phase};
use crate::cache::SeqId;
use crate::kernels::fpenv;

impl Engine<'_, '_> {
    /// Returns how many hidden states of a sequence are kept at a time. They belong to the last positions for which one
    /// was given.
    pub(crate) fn given_rows(&self) -> usize {
        self.parts.rows.len().saturating_add(1)
    }

    /// Keeps the final hidden state of a row in the last batch of another engine. It is given with the token at
    /// position `at` of `seq` here. Returns false if that batch has no such row, or if the row did not go through all
    /// layers.
    pub(crate) fn give(
        &mut self,
        (seq, at): (SeqId, usize),
        from: &mut Engine<'_, '_>,
        (of, position): (SeqId, usize),
    ) -> Result<bool, EngineError> {
        if self.model.config().hidden != from.model.config().hidden {
            return Err(EngineError::Predictor);
        }
        let Some(hidden) = from.hidden_at(of, position) else { return Ok(false) };
        self.parts.forward.give(seq, at, hidden).ok_or(EngineError::Internal(site!()))?;
        Ok(true)
    }

    /// [`Engine::give`] with the hidden state of this engine's own row at position `from`, in its last batch.
    pub(crate) fn give_own(&mut self, seq: SeqId, at: usize, from: usize) -> Result<(), EngineError> {
        let row = self.finished_row(seq, from).ok_or(EngineError::Internal(site!()))?;
        let forward = &mut self.parts.forward;
        fpenv::with_default(|| forward.give_own(seq, at, row)).ok_or(EngineError::Internal(site!()))
    }

    /// Queues tokens whose hidden states were given, with logits for the last one.
    pub(crate) fn queue_given(&mut self, seq: SeqId, tokens: &[u32]) -> Result<(), EngineError> {
        self.check_tokens(tokens)?;
        self.check_quiet(seq)?;
        let expected = self.seq_len(seq)?;
        self.take_checked_tokens(seq, expected, tokens.iter().copied(), Logits::Last)
    }

    /// Returns the result of the final norm for a row of the last batch: `[hidden]`.
    fn hidden_at(&mut self, seq: SeqId, position: usize) -> Option<&[f32]> {
        let row = self.finished_row(seq, position)?;
        let forward = &mut self.parts.forward;
        fpenv::with_default(|| forward.hidden(row))
    }

    /// Returns the index of a row of the last batch that went through all layers.
    fn finished_row(&self, seq: SeqId, position: usize) -> Option<usize> {
        let finished = if self.phase == Phase::Idle { self.batch_finished } else { 0 };
        let mut rows = self.batch_rows().iter().take(finished);
        rows.position(|row| row.seq() == seq && row.position as usize == position)
    }
}
