//! Tokens that follow each other, each with the largest logit: a device that can choose computes many of them without the host.

use super::{Engine, EngineError};
use crate::cache::{CacheError, SeqId, Then};
use crate::kernels::fpenv;
use crate::ops::Row;
use crate::sample::argmax;

impl Engine<'_, '_> {
    /// Appends `token` and then tokens that are chosen, all but the last of them: `ids` are the tokens chosen, each with the largest
    /// logit after those before it ([`argmax`]). So the next call begins with the last of `ids`.
    ///
    /// It is [`Engine::decode_step`] again and again, with the same results. But a device that can choose computes up to
    /// `Limits::rows` tokens at a time, and only their ids come back; nothing stops it meanwhile. [`Engine::results`] has nothing
    /// afterwards.
    ///
    /// After an error the sequence is as long as before, and `ids` are worth nothing, unless a window has already given back old
    /// blocks: then it keeps what was committed.
    ///
    /// # Errors
    /// As [`Engine::prefill`]; [`EngineError::NoLogits`].
    pub fn decode_greedy(&mut self, seq: SeqId, token: u32, ids: &mut [u32]) -> Result<(), EngineError> {
        self.can_prefill(seq, ids.len())?;
        self.check_tokens(&[token])?;
        if !self.model.has_logits() {
            return Err(EngineError::NoLogits);
        }
        let length = self.seq_len(seq)?;
        let mut next = token;
        for part in ids.chunks_mut(self.parts.rows.len().max(1)) {
            if let Err(error) = self.decode_part(seq, next, part) {
                return match self.parts.cache.rewind(seq, length) {
                    Ok(()) | Err(CacheError::WindowGone { .. }) => Err(error),
                    Err(other) => Err(other.into()),
                };
            }
            next = part.last().copied().unwrap_or(next);
        }
        self.drop_batch();
        Ok(())
    }

    /// As many tokens as a batch has rows.
    fn decode_part(&mut self, seq: SeqId, token: u32, ids: &mut [u32]) -> Result<(), EngineError> {
        if self.parts.cache.is_on_device() && fpenv::with_default(|| self.decode_there(seq, token, ids))? {
            return Ok(());
        }
        let mut next = token;
        for id in ids {
            // Logits are finite, or there was an error.
            next = argmax(self.decode_step(seq, next)?).map_err(|_| EngineError::Internal(site!()))?;
            *id = next;
        }
        Ok(())
    }

    /// The same on the device. Returns whether it can do that.
    fn decode_there(&mut self, seq: SeqId, token: u32, ids: &mut [u32]) -> Result<bool, EngineError> {
        self.drop_batch();
        // The others are not known yet.
        let tokens = (0..ids.len()).map(|index| if index == 0 { token } else { 0 });
        self.parts.recorder.resume();
        self.parts.cache.reserve(seq, tokens)?;
        let decoded = self.decode_reserved(seq, token, ids);
        if decoded != Ok(true) {
            self.parts.cache.release(seq)?;
        } else {
            self.note_decoded(ids.len());
        }
        decoded
    }

    fn decode_reserved(&mut self, seq: SeqId, token: u32, ids: &mut [u32]) -> Result<bool, EngineError> {
        let (first, count, vocab) = (self.seq_len(seq)?, ids.len(), self.model.config().vocab);
        let rows = self.parts.rows.get_mut(..count).ok_or(EngineError::Internal(site!()))?;
        for (position, row) in (first..).zip(rows.iter_mut()) {
            *row = Row::new(seq, position, if position == first { token } else { 0 });
        }
        if !self.parts.cache.decode_on_device::<EngineError>(seq, rows, ids)? {
            return Ok(false);
        }
        if ids.iter().any(|&id| id as usize >= vocab) {
            return Err(EngineError::Internal(site!()));
        }
        // The last one is not part of the sequence.
        for (position, &id) in (first + 1..first + count).zip(ids.iter()) {
            self.parts.cache.queue_token(seq, position, id)?;
        }
        self.parts.cache.commit_computed(seq, count)?;
        self.parts.cache.commit_state(seq, first + count, Then::Nothing)?;
        Ok(true)
    }
}
