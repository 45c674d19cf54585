//! What a model makes of a text besides the next token: its hidden states, and how probable a text is.

use super::{Engine, EngineError, Logits};
use crate::cache::SeqId;
use crate::num::is_finite;
use crate::sample::log_prob;

/// How the hidden states of several tokens become one.
///
/// ```
/// use gleed::{Engine, EngineError, Pooling, SeqId};
///
/// /// Returns the embedding of a text.
/// fn embedding(engine: &mut Engine<'_, '_>, seq: SeqId, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
///     let mut out = vec![0.0; engine.model().config().hidden];
///     engine.embed(seq, tokens, Pooling::Mean, &mut out)?;
///     Ok(out)
/// }
/// ```
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
    /// tokens, so the bits do not depend on the size of batches. A mean never overflows: where a sum is beyond f32, all
    /// sums are kept in units of 2^32 from there on.
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
        let mut sums = Sums::new(out);
        let (wanted, count) = match pooling {
            Pooling::Mean => (Logits::Hidden, tokens.len()),
            Pooling::Last => (Logits::LastHidden, 1),
        };
        self.run_alone(seq, tokens, wanted, &mut |engine| engine.hidden(|_, _, row| sums.add(row)))?;
        sums.divide(count);
        Ok(())
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

/// Sums of finite rows, fewer than 2^32.
struct Sums<'o> {
    sums: &'o mut [f32],
    /// What rows are multiplied by: 1, or [`Self::SMALL`] once a sum was beyond f32.
    factor: f32,
}

impl<'o> Sums<'o> {
    /// 2^-32: as many rows, multiplied by it, have finite sums.
    const SMALL: f32 = 1.0 / 4_294_967_296.0;

    fn new(sums: &'o mut [f32]) -> Self {
        sums.fill(0.0);
        Self { sums, factor: 1.0 }
    }

    fn add(&mut self, row: &[f32]) {
        if !self.sums.iter().zip(row).all(|(sum, x)| is_finite(sum + x * self.factor)) {
            self.sums.iter_mut().for_each(|sum| *sum *= Self::SMALL);
            self.factor = Self::SMALL;
        }
        self.sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x * self.factor);
    }

    /// Makes means of them.
    fn divide(self, count: usize) {
        let count = count as f32;
        // Rounded up, the mean of numbers near the largest one could be beyond it.
        self.sums.iter_mut().for_each(|sum| *sum = (*sum / count / self.factor).clamp(f32::MIN, f32::MAX));
    }
}
