//! Several tokens in one call, each chosen from the logits of the one before. A device that can choose tokens computes
//! many of them without the host.

use core::fmt;

use super::checkpoint::{is_checkpoint_due, rows_to_checkpoint};
use super::{Engine, EngineError, Parts};
use crate::cache::{CacheError, SeqId, Then};
use crate::device::{Choosing, Draws};
use crate::kernels::fpenv;
use crate::ops::Row;
use crate::sample::{SampleError, Sampler, SamplerParams, argmax};

/// Why a call did not choose its tokens.
///
/// [Example](crate::engine#example).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The engine failed to compute a token.
    Engine(EngineError),
    /// The sampler failed to choose a token.
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
    /// Appends `token` and then chosen tokens, all but the last of them, and writes the chosen tokens to `ids`. Each of
    /// these has the largest logit after the tokens before it ([`argmax`]). So the next call begins with the last of
    /// `ids`.
    ///
    /// The results are those of [`Engine::decode_step`], called once per token. But a device that can choose computes
    /// up to `Limits::rows` tokens at a time, in a model with recurrent layers at most up to the next position that needs
    /// a checkpoint. Only their ids come back, and nothing stops the device meanwhile. [`Engine::results`] is empty
    /// afterwards.
    ///
    /// After an error the contents of `ids` mean nothing, and the sequence is as long as before. If a window has
    /// already given back old blocks, the sequence keeps the tokens that were committed.
    ///
    /// # Errors
    /// As [`Engine::prefill`]; [`EngineError::NoLogits`].
    pub fn decode_greedy(&mut self, seq: SeqId, token: u32, ids: &mut [u32]) -> Result<(), EngineError> {
        self.decode_chosen(seq, token, ids, &mut Chooser::Largest).map_err(|error| match error {
            DecodeError::Engine(error) => error,
            DecodeError::Sample(_) => EngineError::Internal(site!()),
        })
    }

    /// [`Engine::decode_greedy`] with tokens that `sampler` chooses and accepts, one after the other. `scratch` is as
    /// for [`Sampler::sample`]. A device that can choose draws the tokens itself if there are no penalties and no
    /// biases. Otherwise the sampler gets the logits of each token. The tokens are the same either way, and so is the
    /// sampler afterwards.
    ///
    /// After an error the sampler is unchanged.
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
        let (mut next, mut rest) = (token, ids);
        while !rest.is_empty() {
            let (part, after) = rest.split_at_mut(self.together(seq)?.min(rest.len()));
            rest = after;
            if let Err(error) = self.decode_part(seq, next, part, chooser) {
                return match self.parts.cache.take_back(seq, length) {
                    Ok(()) | Err(CacheError::WindowGone { .. }) => Err(error),
                    Err(other) => Err(EngineError::from(other).into()),
                };
            }
            next = part.last().copied().unwrap_or(next);
        }
        self.drop_batch();
        Ok(())
    }

    /// Returns how many tokens can be computed together: the next one alone if tokens before it are computed again, or
    /// else up to the next checkpoint, and at most as many as a batch has rows.
    fn together(&self, seq: SeqId) -> Result<usize, EngineError> {
        if self.rows_again(seq)? > 0 {
            return Ok(1);
        }
        let Parts { cache, rows, checkpoint_every, .. } = &self.parts;
        let until = rows_to_checkpoint(cache, *checkpoint_every, seq, self.seq_len(seq)? as u32);
        Ok(until.map_or(rows.len(), |until| rows.len().min(until as usize)).max(1))
    }

    /// Decodes tokens that can be computed [`Engine::together`].
    fn decode_part(
        &mut self,
        seq: SeqId,
        token: u32,
        ids: &mut [u32],
        chooser: &mut Chooser<'_>,
    ) -> Result<(), DecodeError> {
        if self.parts.cache.is_on_device()
            && self.rows_again(seq)? == 0
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

    /// [`Engine::decode_part`] on the device. Returns whether the device can do that.
    fn decode_there(
        &mut self,
        seq: SeqId,
        token: u32,
        choosing: &Choosing,
        ids: &mut [u32],
    ) -> Result<bool, EngineError> {
        self.drop_batch();
        // The tokens after the first one are not known yet: 0 stands for them.
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
        // The last id is not part of the sequence.
        for (position, &id) in (first + 1..first + count).zip(ids.iter()) {
            self.parts.cache.queue_token(seq, position, id)?;
        }
        self.parts.cache.commit_computed(seq, count)?;
        self.parts.cache.commit_state(seq, first + count, Then::Nothing)?;
        let Parts { cache, checkpoint_every, .. } = &mut self.parts;
        if is_checkpoint_due(cache, *checkpoint_every, seq, (first + count) as u32) {
            cache.keep_state(seq, false)?;
        }
        Ok(true)
    }
}

/// The chooser of tokens: the largest logit, or a sampler.
enum Chooser<'s> {
    Largest,
    /// A sampler and its scratch.
    Sampler(&'s mut Sampler, &'s mut [u64]),
}

impl Chooser<'_> {
    /// Returns how a device can choose in the same way, or `None` if it cannot.
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
            // Logits are finite here: others were an error before.
            Self::Largest => argmax(logits).map_err(|_| EngineError::Internal(site!()).into()),
            Self::Sampler(sampler, scratch) => {
                let token = sampler.sample(logits, scratch).map_err(DecodeError::Sample)?.token;
                sampler.accept(token);
                Ok(token)
            }
        }
    }

    /// Notes that a device has chosen these tokens.
    fn took(&mut self, ids: &[u32]) {
        if let Self::Sampler(sampler, _) = self {
            sampler.took(ids);
        }
    }
}
