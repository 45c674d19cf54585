//! What a model makes of a text besides the next token: its hidden states, and how probable a text is.

use super::{Engine, EngineError, Logits};
use crate::cache::SeqId;
use crate::num::is_finite;
use crate::sample::log_prob;

/// How the hidden states of several tokens become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The last one.
    Last,
}

impl Engine<'_, '_> {
    /// Appends tokens to a sequence, usually an empty one, and pools their final hidden states, after the last norm, to
    /// `out`, `[hidden]`: an embedding of the text, not scaled to length 1. The sums of a mean are in the order of the
    /// tokens, so the bits do not depend on the size of batches.
    ///
    /// After an error the sequence is as long as before, as with [`Engine::prefill`], and `out` is unspecified.
    ///
    /// # Errors
    /// [`EngineError::OutputLength`]; as [`Engine::prefill`].
    pub fn embed(&mut self, seq: SeqId, tokens: &[u32], pooling: Pooling, out: &mut [f32]) -> Result<(), EngineError> {
        let (needed, given) = (self.model().config().hidden, out.len());
        if given != needed {
            return Err(EngineError::OutputLength { needed, given });
        }
        let length = self.seq_len(seq)?;
        out.fill(0.0);
        let wanted = if pooling == Pooling::Mean { Logits::Hidden } else { Logits::LastHidden };
        self.run_alone(seq, tokens, wanted, &mut |engine| {
            engine.hidden(|_, _, row| out.iter_mut().zip(row).for_each(|(out, x)| *out += x));
        })?;
        if pooling == Pooling::Mean {
            let count = tokens.len() as f32;
            out.iter_mut().for_each(|out| *out /= count);
        }
        if out.iter().all(|&x| is_finite(x)) {
            return Ok(());
        }
        self.rewind(seq, length)?;
        Err(EngineError::NonFinite { layer: self.model().config().layers })
    }

    /// Appends tokens to a sequence and says how probable each was after those before it: `out[i]` is the natural
    /// logarithm of the probability of `tokens[i + 1]`, so it has one element less than there are tokens. The first of them
    /// is not scored: to score a continuation, begin with the last token of what it continues.
    ///
    /// After an error the sequence is as long as before, as with [`Engine::prefill`], and `out` is unspecified.
    ///
    /// # Errors
    /// [`EngineError::OutputLength`]; as [`Engine::prefill`].
    pub fn log_probs(&mut self, seq: SeqId, tokens: &[u32], out: &mut [f32]) -> Result<(), EngineError> {
        let (needed, given) = (tokens.len().saturating_sub(1), out.len());
        if given != needed {
            return Err(EngineError::OutputLength { needed, given });
        }
        let first = self.seq_len(seq)?;
        self.prefill_rows(seq, tokens, |position, logits| {
            let index = position.saturating_sub(first);
            if let (Some(out), Some(&next)) = (out.get_mut(index), tokens.get(index + 1)) {
                *out = log_prob(logits, next).unwrap_or(f32::NEG_INFINITY);
            }
        })
    }
}
