//! Guesses of a second model, smaller than the first and with the same tokens: Leviathan, Kalman, Matias, "Fast
//! Inference from Transformers via Speculative Decoding", 2023. Here the first model's own choice decides, so the text
//! is its own.

use super::second::{CHUNK, batch, close, is_end, same_places};
use super::{Guess, GuessError, Text};
use crate::cache::{CacheError, SeqId};
use crate::engine::{Engine, EngineError, Logits};
use crate::par::Budget;
use crate::sample::argmax;

/// Guesses what a second model finds most probable. Its sequence follows the text by rewinds.
///
/// It guesses less, or nothing, where its context or pool is full, where a token of the text is not in its vocabulary,
/// and where its logits are not finite. A budget of units is kept: at most one batch is computed within it.
///
/// [Example](crate::guess#a-second-model).
#[derive(Debug)]
pub struct Draft<'e, 'm, 'a> {
    engine: &'e mut Engine<'m, 'a>,
    seq: SeqId,
    /// Number of first tokens that the sequence and the text had in common.
    same: usize,
    /// The length and the last token of the text that guesses are being made for.
    text: Option<(usize, u32)>,
    /// The last guess, which is not part of the sequence.
    last: u32,
}

impl<'e, 'm, 'a> Draft<'e, 'm, 'a> {
    /// Returns a source of guesses of the engine's model, in a new sequence of the engine. The engine has no other work
    /// meanwhile.
    ///
    /// # Errors
    /// [`GuessError::Draft`]: all sequences are open, or the model has no logits.
    pub fn new(engine: &'e mut Engine<'m, 'a>) -> Result<Self, GuessError> {
        if !engine.model().has_logits() {
            return Err(GuessError::Draft(EngineError::NoLogits));
        }
        let seq = engine.open().map_err(GuessError::Draft)?;
        Ok(Self { engine, seq, same: 0, text: None, last: 0 })
    }

    /// Closes the sequence.
    ///
    /// # Errors
    /// [`GuessError::Draft`]: the sequence is closed already.
    pub fn close(self) -> Result<(), GuessError> {
        close(self.engine, self.seq)
    }

    /// Rewinds the sequence to a beginning of the text that is at least one token shorter than the text.
    fn follow(&mut self, text: &Text<'_>) -> Result<(), EngineError> {
        self.engine.cancel(self.seq)?;
        let len = self.engine.seq_len(self.seq)?.min(text.len());
        let cache = self.engine.cache();
        let is_same = |at: &usize| cache.token(self.seq, *at).is_some_and(|token| text.token(*at) == Some(token));
        let same = same_places(self.same.min(len), len, is_same);
        let keep = same.min(text.len().saturating_sub(1));
        match self.engine.rewind(self.seq, keep) {
            Err(EngineError::Cache(CacheError::WindowGone { .. })) => self.engine.reset(self.seq)?,
            other => other?,
        }
        self.same = self.engine.seq_len(self.seq)?;
        Ok(())
    }

    /// Goes on until there are `most` guesses. Returns the number of guesses, or `None` if the budget is used up.
    fn advance(&mut self, text: &Text<'_>, budget: &mut Budget<'_>, most: usize) -> Result<Option<usize>, EngineError> {
        loop {
            while self.engine.progress(self.seq)?.queued > 0 {
                if !batch(self.engine, budget)? {
                    return Ok(None);
                }
                let len = self.engine.seq_len(self.seq)?;
                self.same = len.min(text.len());
                if len >= text.len() {
                    let logits = self.engine.logits(self.seq).ok_or(EngineError::Internal(site!()))?;
                    self.last = argmax(logits).map_err(|_| EngineError::Internal(site!()))?;
                }
            }
            let len = self.engine.seq_len(self.seq)?;
            let made = len.saturating_add(1).saturating_sub(text.len());
            if made >= most {
                return Ok(Some(made));
            }
            if let Err(error) = self.feed(text, len) {
                return if is_end(&error) { Ok(Some(made)) } else { Err(error) };
            }
        }
    }

    /// Queues the next tokens of the text, or the last guess.
    fn feed(&mut self, text: &Text<'_>, len: usize) -> Result<(), EngineError> {
        let mut tokens = [self.last; CHUNK];
        let mut count = 1;
        if len < text.len() {
            let chunk = CHUNK.min(self.engine.cache().geometry().rows);
            let known = (len..text.len()).map_while(|at| text.token(at));
            count = tokens.iter_mut().zip(known).take(chunk).map(|(place, token)| *place = token).count();
        }
        // A text whose tokens are gone cannot be read.
        let tokens = tokens.get(..count).filter(|tokens| !tokens.is_empty()).ok_or(EngineError::Empty)?;
        self.engine.queue(self.seq, len, tokens, Logits::Last)
    }
}

impl Guess for Draft<'_, '_, '_> {
    fn guess(
        &mut self,
        text: &Text<'_>,
        budget: &mut Budget<'_>,
        out: &mut [u32],
    ) -> Result<Option<usize>, GuessError> {
        let Some(end) = text.len().checked_sub(1) else { return Ok(Some(0)) };
        let Some(last) = text.token(end) else { return Ok(Some(0)) };
        if self.text != Some((text.len(), last)) {
            self.text = None;
            self.follow(text).map_err(GuessError::Draft)?;
            self.text = Some((text.len(), last));
        }
        let made = match self.advance(text, budget, out.len()) {
            Ok(None) => return Ok(None),
            Ok(Some(made)) => made,
            Err(EngineError::NonFinite { .. }) => 0,
            Err(error) => return Err(GuessError::Draft(error)),
        };
        self.text = None;
        let cache = self.engine.cache();
        for (index, place) in out.iter_mut().enumerate().take(made) {
            let kept = cache.token(self.seq, text.len().saturating_add(index));
            *place = kept.filter(|_| index.saturating_add(1) < made).unwrap_or(self.last);
        }
        Ok(Some(made))
    }
}
