//! Results of a text besides the next token: how probable its tokens are, and its vector.

use super::{Engine, EngineError, Logits};
use crate::cache::{CacheError, SeqId};
use crate::kernels::fpenv;
use crate::ops::{Pooled, Row};
use crate::sample::log_prob;
use crate::weights::{ClassifierForm, Pooling};

/// Largest number of texts that are embedded together.
const TOGETHER: usize = 64;

impl Engine<'_, '_> {
    /// Appends tokens to a sequence, usually an empty one, and pools their final hidden states, after the last norm,
    /// into `out`. The result is an embedding of the text, not scaled to length 1.
    /// [`Model::pooling`](crate::Model::pooling) says which pooling the model wants. `Config::embedding_len` says how
    /// long the result is: `[hidden]`, unless the model has matrices behind the pooling. With [`Pooling::Rank`] the
    /// result is one number for each class of the model, usually one class.
    ///
    /// A mean is summed in the order of the tokens, so the bits do not depend on the size of batches. A mean never
    /// overflows: once a sum is beyond f32, all sums are kept in units of 2^32.
    ///
    /// After an error the sequence is as long as before, as with [`Engine::prefill`], and `out` is unspecified.
    ///
    /// # Errors
    /// [`EngineError::OutputLength`]; [`EngineError::NoClasses`]; [`EngineError::OnDevice`] if the engine has a device;
    /// as [`Engine::prefill`].
    pub fn embed(&mut self, seq: SeqId, tokens: &[u32], pooling: Pooling, out: &mut [f32]) -> Result<(), EngineError> {
        self.check_pooled(pooling, 1, out.len())?;
        let (first, wanted) = (self.seq_len(seq)?, self.rows_wanted(pooling));
        let mut pooled = Pooled::EMPTY;
        self.run_alone(seq, tokens, wanted, &mut |engine| engine.pool(seq, first, pooling, &mut pooled, out))?;
        let finished = fpenv::with_default(|| self.parts.forward.finish_pooled(&pooled, pooling, out));
        let Err(fault) = finished else { return Ok(()) };
        match self.parts.cache.take_back(seq, first) {
            // If a window has given back earlier blocks, the sequence keeps the new tokens.
            Ok(()) | Err(CacheError::WindowGone { .. }) => {
                Err(EngineError::from_fault(fault, self.model.config().layers))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Embeds several texts, as many at a time as fit a batch. `out` is `[texts, embedding_len]`, in the order of the
    /// texts, with the bits of [`Engine::embed`]. During the call each text has a sequence of its own, so
    /// `Limits::sequences` bounds how many texts run together. Adapters have no effect.
    ///
    /// After an error no sequence is left, and `out` is unspecified.
    ///
    /// # Errors
    /// As [`Engine::embed`], where the index of a token counts from the first token of all texts;
    /// [`EngineError::Cache`] if no sequence is free.
    pub fn embed_all<'t, I>(&mut self, texts: I, pooling: Pooling, out: &mut [f32]) -> Result<(), EngineError>
    where
        I: IntoIterator<Item = &'t [u32]>,
        I::IntoIter: Clone + ExactSizeIterator,
    {
        let mut texts = texts.into_iter();
        let width = self.check_pooled(pooling, texts.len(), out.len())?;
        self.check_idle()?;
        texts.clone().try_fold(0, |first, text| self.check_tokens_from(first, text))?;
        let mut left = out;
        while texts.len() > 0 {
            let mut seqs = heapless::Vec::<SeqId, TOGETHER>::new();
            let done = self.embed_some(&mut seqs, &mut texts.clone(), pooling, left);
            for &seq in &seqs {
                self.cancel(seq)?;
                self.close(seq)?;
            }
            self.drop_batch();
            let done = done?;
            texts.nth(done.saturating_sub(1));
            left = left.get_mut(done * width..).ok_or(EngineError::Internal(site!()))?;
        }
        Ok(())
    }

    /// Embeds the first texts: as many as fit a batch, at least one. Returns the number of texts that it embedded.
    /// `seqs` receives the sequences that it opens.
    fn embed_some(
        &mut self,
        seqs: &mut heapless::Vec<SeqId, TOGETHER>,
        texts: &mut dyn Iterator<Item = &[u32]>,
        pooling: Pooling,
        out: &mut [f32],
    ) -> Result<usize, EngineError> {
        let (wanted, width) = (self.rows_wanted(pooling), self.embedding_len(pooling)?);
        let mut free = self.parts.rows.len();
        for text in texts {
            // A text that needs several batches goes alone. So does every text of a model whose batches end at
            // checkpoints.
            if seqs.is_empty() && (text.len() > free || self.parts.cache.has_states()) {
                let seq = self.open()?;
                seqs.push(seq).map_err(|_| EngineError::Internal(site!()))?;
                let out = out.get_mut(..width).ok_or(EngineError::Internal(site!()))?;
                return self.embed(seq, text, pooling, out).map(|()| 1);
            }
            if text.len() > free || seqs.is_full() {
                break;
            }
            match self.open_with(text, wanted) {
                Ok(seq) => seqs.push(seq).map_err(|_| EngineError::Internal(site!()))?,
                // There is no room for this text now: it is the first of the next group.
                Err(EngineError::Cache(_)) if !seqs.is_empty() => break,
                Err(error) => return Err(error),
            }
            free -= text.len();
        }
        while self.is_busy() {
            let _ = self.step(usize::MAX)?;
        }
        for (&seq, out) in seqs.iter().zip(out.chunks_exact_mut(width.max(1))) {
            let mut pooled = Pooled::EMPTY;
            self.pool(seq, 0, pooling, &mut pooled, out);
            let rows = if self.rows_wanted(pooling) == Logits::Hidden && !self.takes_first(pooling) {
                self.seq_len(seq)?
            } else {
                1
            };
            if pooled.rows() != rows {
                return Err(EngineError::Internal(site!()));
            }
            let finished = fpenv::with_default(|| self.parts.forward.finish_pooled(&pooled, pooling, out));
            finished.map_err(|fault| EngineError::from_fault(fault, self.model.config().layers))?;
        }
        Ok(seqs.len())
    }

    /// Opens a sequence and queues a text for it.
    fn open_with(&mut self, text: &[u32], wanted: Logits) -> Result<SeqId, EngineError> {
        let seq = self.open()?;
        match self.queue(seq, 0, text, wanted) {
            Ok(()) => Ok(seq),
            Err(error) => {
                self.close(seq)?;
                Err(error)
            }
        }
    }

    /// Adds the rows of the last batch that the vector of a sequence is made of. `first` is the position where its text
    /// begins.
    fn pool(&mut self, seq: SeqId, first: usize, pooling: Pooling, pooled: &mut Pooled, out: &mut [f32]) {
        let only_first = self.takes_first(pooling);
        for place in self.batch_logits..self.batch_finished {
            let is_wanted = |row: &Row| row.seq() == seq && (!only_first || row.position as usize == first);
            if self.parts.rows.get(place).is_some_and(is_wanted) {
                // This cannot fail: the batch has just ended, so the row is there.
                let _ = fpenv::with_default(|| self.parts.forward.pool(pooled, place, out));
            }
        }
    }

    /// Returns the rows whose hidden states a pooling needs.
    fn rows_wanted(&self, pooling: Pooling) -> Logits {
        match pooling {
            Pooling::Last => Logits::LastHidden,
            Pooling::Rank if self.model.config().attention.causal => Logits::LastHidden,
            Pooling::Mean | Pooling::Cls | Pooling::Rank => Logits::Hidden,
        }
    }

    /// Returns whether the vector is made of the first row alone. Most classifiers read the row that has seen all
    /// others. With causal attention that is the last row.
    fn takes_first(&self, pooling: Pooling) -> bool {
        let config = self.model.config();
        let ranks_first = !config.attention.causal && config.pooler.classifier_form == ClassifierForm::Tanh;
        pooling == Pooling::Cls || pooling == Pooling::Rank && ranks_first
    }

    fn embedding_len(&self, pooling: Pooling) -> Result<usize, EngineError> {
        self.model.config().embedding_len(pooling).ok_or(EngineError::NoClasses)
    }

    /// Checks that `given` elements are the vectors of `texts` texts. Returns the number of elements of each vector.
    fn check_pooled(&self, pooling: Pooling, texts: usize, given: usize) -> Result<usize, EngineError> {
        let width = self.embedding_len(pooling)?;
        let needed = width.saturating_mul(texts);
        if given == needed { Ok(width) } else { Err(EngineError::OutputLength { needed, given }) }
    }

    /// Appends tokens to a sequence and computes how probable each token was after those before it. `out[i]` is the
    /// natural logarithm of the probability of `tokens[i + 1]`, so `out` has one element less than `tokens`. The first
    /// token is not scored: to score a continuation, begin with the last token of the text that it continues.
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
