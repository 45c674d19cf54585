//! Tokens that follow each other, each chosen after the one before: a device that can choose computes many of them
//! without the host.

use core::fmt;

use super::{Engine, EngineError};
use crate::cache::{CacheError, SeqId, Then};
use crate::device::{Choosing, Draws};
use crate::kernels::fpenv;
use crate::ops::Row;
use crate::sample::{SampleError, Sampler, SamplerParams, argmax};

/// Why tokens were not chosen one after the other.
///
/// [Example](crate::engine#example).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The engine did not compute a token.
    Engine(EngineError),
    /// The sampler did not choose one.
    Sample(SampleError),
}

impl<E: Into<EngineError>> From<E> for DecodeError {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Sample(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for DecodeError {}

impl Engine<'_, '_> {
    /// Appends `token` and then tokens that are chosen, all but the last of them: `ids` are the tokens chosen, each
    /// with the largest logit after those before it ([`argmax`]). So the next call begins with the last of `ids`.
    ///
    /// It is [`Engine::decode_step`] again and again, with the same results. But a device that can choose computes up
    /// to `Limits::rows` tokens at a time, and only their ids come back; nothing stops it meanwhile.
    /// [`Engine::results`] has nothing afterwards.
    ///
    /// After an error the sequence is as long as before, and `ids` are worth nothing, unless a window has already given
    /// back old blocks: then it keeps what was committed.
    ///
    /// # Errors
    /// As [`Engine::prefill`]; [`EngineError::NoLogits`].
    pub fn decode_greedy(&mut self, seq: SeqId, token: u32, ids: &mut [u32]) -> Result<(), EngineError> {
        self.decode_chosen(seq, token, ids, &mut Chooser::Largest).map_err(|error| match error {
            DecodeError::Engine(error) => error,
            DecodeError::Sample(_) => EngineError::Internal(site!()),
        })
    }

    /// [`Engine::decode_greedy`] with tokens that `sampler` chooses and accepts, one after the other. `scratch` is that
    /// of [`Sampler::sample`]. A device that can choose draws them itself where there are no penalties and no biases;
    /// otherwise the logits of each token come to the sampler. The tokens are the same, and so is the sampler
    /// afterwards.
    ///
    /// After an error the sampler is as before.
    ///
    /// # Errors
    /// [`DecodeError::Engine`] as [`Engine::decode_greedy`]; [`DecodeError::Sample`] as [`Sampler::sample`], with
    /// [`SampleError::ScratchTooSmall`] also where a device draws.
    pub fn decode_sampled(
        &mut self,
        seq: SeqId,
        token: u32,
        (sampler, scratch): (&mut Sampler, &mut [u64]),
        ids: &mut [u32],
    ) -> Result<(), DecodeError> {
        let (needed, given) = (self.model.config().vocab, scratch.len());
        if given < needed {
            return Err(DecodeError::Sample(SampleError::ScratchTooSmall { needed, given }));
        }
        let mut after = sampler.clone();
        self.decode_chosen(seq, token, ids, &mut Chooser::Sampler(&mut after, scratch))?;
        *sampler = after;
        Ok(())
    }

    fn decode_chosen(
        &mut self,
        seq: SeqId,
        token: u32,
        ids: &mut [u32],
        chooser: &mut Chooser<'_>,
    ) -> Result<(), DecodeError> {
        self.can_prefill(seq, ids.len())?;
        self.check_tokens(&[token])?;
        if !self.model.has_logits() {
            return Err(EngineError::NoLogits.into());
        }
        let length = self.seq_len(seq)?;
        let mut next = token;
        for part in ids.chunks_mut(self.parts.rows.len().max(1)) {
            if let Err(error) = self.decode_part(seq, next, part, chooser) {
                return match self.parts.cache.rewind(seq, length) {
                    Ok(()) | Err(CacheError::WindowGone { .. }) => Err(error),
                    Err(other) => Err(EngineError::from(other).into()),
                };
            }
            next = part.last().copied().unwrap_or(next);
        }
        self.drop_batch();
        Ok(())
    }

    /// As many tokens as a batch has rows.
    fn decode_part(
        &mut self,
        seq: SeqId,
        token: u32,
        ids: &mut [u32],
        chooser: &mut Chooser<'_>,
    ) -> Result<(), DecodeError> {
        if self.parts.cache.is_on_device()
            && let Some(choosing) = chooser.choosing()
            && fpenv::with_default(|| self.decode_there(seq, token, &choosing, ids))?
        {
            chooser.took(ids);
            return Ok(());
        }
        let mut next = token;
        for id in ids {
            next = chooser.choose(self.decode_step(seq, next)?)?;
            *id = next;
        }
        Ok(())
    }

    /// The same on the device. Returns whether it can do that.
    fn decode_there(
        &mut self,
        seq: SeqId,
        token: u32,
        choosing: &Choosing,
        ids: &mut [u32],
    ) -> Result<bool, EngineError> {
        self.drop_batch();
        // The others are not known yet.
        let tokens = (0..ids.len()).map(|index| if index == 0 { token } else { 0 });
        self.parts.recorder.resume();
        self.parts.cache.reserve(seq, tokens)?;
        let decoded = self.decode_reserved(seq, token, choosing, ids);
        if decoded != Ok(true) {
            self.parts.cache.release(seq)?;
        } else {
            self.note_decoded(ids.len());
        }
        decoded
    }

    fn decode_reserved(
        &mut self,
        seq: SeqId,
        token: u32,
        choosing: &Choosing,
        ids: &mut [u32],
    ) -> Result<bool, EngineError> {
        let (first, count, vocab) = (self.seq_len(seq)?, ids.len(), self.model.config().vocab);
        let rows = self.parts.rows.get_mut(..count).ok_or(EngineError::Internal(site!()))?;
        for (position, row) in (first..).zip(rows.iter_mut()) {
            *row = Row::new(seq, position, if position == first { token } else { 0 });
        }
        if !self.parts.cache.decode_on_device::<EngineError>(seq, rows, choosing, ids)? {
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

/// Who chooses.
enum Chooser<'s> {
    Largest,
    /// With its scratch.
    Sampler(&'s mut Sampler, &'s mut [u64]),
}

impl Chooser<'_> {
    /// How a device can do it.
    fn choosing(&self) -> Option<Choosing> {
        match self {
            Self::Largest => Some(Choosing::Largest),
            Self::Sampler(sampler, _) => {
                let (params, state) = sampler.without_text()?;
                let SamplerParams { temperature, top_k, top_p, min_p, .. } = params;
                let drawn = Choosing::Drawn(Draws { temperature, top_k, top_p, min_p, state });
                Some(if temperature == 0.0 { Choosing::Largest } else { drawn })
            }
        }
    }

    fn choose(&mut self, logits: &[f32]) -> Result<u32, DecodeError> {
        match self {
            // Logits are finite, or there was an error.
            Self::Largest => argmax(logits).map_err(|_| EngineError::Internal(site!()).into()),
            Self::Sampler(sampler, scratch) => {
                let token = sampler.sample(logits, scratch).map_err(DecodeError::Sample)?.token;
                sampler.accept(token);
                Ok(token)
            }
        }
    }

    /// A device has chosen these.
    fn took(&mut self, ids: &[u32]) {
        if let Self::Sampler(sampler, _) = self {
            sampler.took(ids);
        }
    }
}
