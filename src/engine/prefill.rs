//! Calls that append tokens and return when all of them are computed.

use super::{Engine, EngineError, Logits, Step};
use crate::cache::{CacheError, SeqId};
use crate::par::Budget;

impl Engine<'_, '_> {
    /// Appends tokens to a sequence, in chunks of at most `Limits::rows`, and returns the logits of the last token:
    /// `[vocab]`, valid until the next call that changes the engine.
    ///
    /// After an error the sequence is as long as before. If a window has already given back old blocks, the sequence
    /// keeps the chunks that were committed.
    ///
    /// # Errors
    /// As [`Engine::queue`] and [`Engine::step`]; [`EngineError::Busy`] while any sequence has unfinished
    /// work.
    pub fn prefill(&mut self, seq: SeqId, tokens: &[u32]) -> Result<&[f32], EngineError> {
        self.run_alone(seq, tokens, Logits::Last, &mut |_| {})?;
        self.logits(seq).ok_or(EngineError::Internal(site!()))
    }

    /// [`Engine::prefill`] with the logits of every token: it calls `on_row(position, logits)` in order.
    ///
    /// # Errors
    /// As [`Engine::prefill`].
    pub fn prefill_rows(
        &mut self,
        seq: SeqId,
        tokens: &[u32],
        mut on_row: impl FnMut(usize, &[f32]),
    ) -> Result<(), EngineError> {
        self.run_alone(seq, tokens, Logits::All, &mut |engine| {
            engine.results().for_each(|(_, position, logits)| on_row(position, logits));
        })
    }

    /// Appends one token to a sequence and returns its logits: `[vocab]`, valid until the next call that
    /// changes the engine.
    ///
    /// # Errors
    /// As [`Engine::prefill`].
    pub fn decode_step(&mut self, seq: SeqId, token: u32) -> Result<&[f32], EngineError> {
        self.prefill(seq, &[token])
    }

    pub(super) fn run_alone(
        &mut self,
        seq: SeqId,
        tokens: &[u32],
        logits: Logits,
        on_batch: &mut dyn FnMut(&mut Self),
    ) -> Result<(), EngineError> {
        self.run_within(seq, tokens, logits, Budget::default(), on_batch).map(|_| ())
    }

    /// Appends tokens and computes them. Returns false if the budget's flag was set before the end. Tokens that were
    /// queued by then stay queued: see [`Engine::cancel`].
    pub(crate) fn run_within(
        &mut self,
        seq: SeqId,
        tokens: &[u32],
        logits: Logits,
        budget: Budget<'_>,
        on_batch: &mut dyn FnMut(&mut Self),
    ) -> Result<bool, EngineError> {
        self.can_prefill(seq, tokens.len())?;
        self.check_tokens(tokens)?;
        let length = self.seq_len(seq)?;
        for chunk in tokens.chunks(self.chunk()) {
            if !self.run_queued(seq, length, chunk, logits, budget, on_batch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns how many tokens a call that computes at once queues at a time.
    pub(super) fn chunk(&self) -> usize {
        // Blocks that a window evicts make room for the next chunk.
        if self.parts.cache.geometry().any_forgets() { self.parts.rows.len().max(1) } else { usize::MAX }
    }

    /// Queues one chunk and runs it, as [`Engine::run_within`]. After an error it rewinds the sequence to `length`
    /// tokens, if a window has not given back the blocks that this needs.
    fn run_queued(
        &mut self,
        seq: SeqId,
        length: usize,
        tokens: &[u32],
        logits: Logits,
        budget: Budget<'_>,
        on_batch: &mut dyn FnMut(&mut Self),
    ) -> Result<bool, EngineError> {
        let position = self.seq_len(seq)?;
        if let Err(error) = self.queue(seq, position, tokens, logits) {
            return Err(if position > length { self.undo(seq, length, error) } else { error });
        }
        loop {
            match self.step(budget) {
                Ok(Step::Idle) => return Ok(true),
                Ok(Step::Cancelled) => return Ok(false),
                Ok(_) => {
                    on_batch(self);
                    if !self.is_busy() {
                        return Ok(true);
                    }
                }
                Err(error) => return Err(self.undo(seq, length, error)),
            }
        }
    }

    /// Drops the chunks that were committed before an error, if a window allows it. Returns that error, or the error of
    /// the rewind if the rewind fails for another reason.
    fn undo(&mut self, seq: SeqId, length: usize, error: EngineError) -> EngineError {
        match self.parts.cache.take_back(seq, length) {
            Ok(()) | Err(CacheError::WindowGone { .. }) => error,
            Err(other) => other.into(),
        }
    }
}
