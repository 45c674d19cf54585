//! What sequences share, seen from the engine: cached prefixes, room in the pool, statistics.

use super::{Engine, EngineError, Logits};
use crate::cache::{CacheError, CacheStats, SeqId, SequenceStats};

impl Engine<'_, '_> {
    /// Starts an empty sequence with the cached prefix of a prompt. Returns how many tokens the sequence then has.
    /// Queue or prefill the rest of the prompt, which is at least one token. The logits have the same bits as without
    /// reuse.
    ///
    /// A cached prefix is a number of full blocks of 16 tokens, from the start of the prompt on. The engine computed
    /// these blocks for any sequence, open or closed, and has not had to hand them out again since. Imported keys and
    /// values are never part of a cached prefix. Returns 0 if `Limits::prefix_cache` is off, and for a sequence with
    /// adapters.
    ///
    /// # Errors
    /// [`EngineError::Cache`] if the sequence is unknown, busy, or not empty.
    pub fn reuse(&mut self, seq: SeqId, prompt: &[u32]) -> Result<usize, EngineError> {
        self.check_quiet(seq)?;
        let prompt = if self.parts.forward.context.adapters.change(seq) { &[] } else { prompt };
        let found = self.parts.cache.reuse(seq, prompt)?;
        self.note_reuse(found);
        Ok(found)
    }

    /// [`Engine::reuse`], then [`Engine::prefill`] of the rest: fills an empty sequence with a prompt and returns the
    /// logits of the last token. After an error the sequence is empty.
    ///
    /// # Errors
    /// As [`Engine::reuse`] and [`Engine::prefill`].
    pub fn prefill_prompt(&mut self, seq: SeqId, prompt: &[u32]) -> Result<&[f32], EngineError> {
        self.can_prefill_prompt(seq, prompt.len())?;
        self.check_logits(Logits::Last)?;
        self.check_tokens(prompt)?;
        let reused = self.reuse(seq, prompt)?;
        let rest = prompt.get(reused..).unwrap_or_default();
        if let Err(error) = self.prefill(seq, rest).map(drop) {
            self.parts.cache.take_back(seq, 0)?;
            return Err(error);
        }
        self.logits(seq).ok_or(EngineError::Internal(site!()))
    }

    /// Checks whether a prompt of `tokens` tokens can be given to [`Engine::prefill_prompt`], as far as that depends on
    /// the number alone. (How many blocks the prompt needs depends on its cached prefix.)
    ///
    /// # Errors
    /// [`EngineError::Busy`], [`EngineError::Empty`], [`EngineError::Cache`] if the sequence is unknown or not empty,
    /// or if the prompt exceeds the context.
    pub fn can_prefill_prompt(&self, seq: SeqId, tokens: usize) -> Result<(), EngineError> {
        self.check_idle()?;
        self.can_reuse(seq, tokens)?;
        if tokens == 0 { Err(EngineError::Empty) } else { Ok(()) }
    }

    /// Checks whether [`Engine::reuse`] can begin this sequence with a prompt of `tokens` tokens. ([`Engine::reuse`]
    /// itself also takes a prompt that is longer than the context. Its cached prefix is at most as long as the
    /// context.)
    ///
    /// # Errors
    /// [`EngineError::Cache`] if the sequence is unknown, busy or not empty, or if the prompt exceeds the context.
    pub fn can_reuse(&self, seq: SeqId, tokens: usize) -> Result<(), EngineError> {
        let given = self.seq_len(seq)?;
        if given != 0 {
            return Err(CacheError::Position { expected: 0, given }.into());
        }
        // Not even 0 tokens fit a sequence with unfinished work.
        self.can_extend(seq, 0)?;
        self.check_context(tokens)
    }

    /// Checks whether a sequence can have `needed` tokens.
    ///
    /// # Errors
    /// [`EngineError::Cache`] if they exceed the context.
    pub fn check_context(&self, needed: usize) -> Result<(), EngineError> {
        let context = self.parts.cache.geometry().context;
        if needed > context { Err(CacheError::ContextFull { needed, context }.into()) } else { Ok(()) }
    }

    /// Keeps the cached prefix of a prompt until [`Engine::unpin`], even if no sequence holds it any more. Returns the
    /// number of the prompt's tokens in it. Pinned blocks are never evicted and count as used. Pins are counted: unpin
    /// once per pin.
    ///
    /// # Errors
    /// [`EngineError::Cache`].
    pub fn pin(&mut self, prompt: &[u32]) -> Result<usize, EngineError> {
        Ok(self.parts.cache.pin(prompt)?)
    }

    /// Undoes [`Engine::pin`]. `prompt` is as many tokens of the prompt as that call returned. Returns how many tokens
    /// lost a pin.
    ///
    /// # Errors
    /// [`EngineError::Cache`].
    pub fn unpin(&mut self, prompt: &[u32]) -> Result<usize, EngineError> {
        Ok(self.parts.cache.unpin(prompt)?)
    }

    /// Closes idle sequences, the least recently used first, until `tokens` more tokens fit sequence `seq`. Returns how
    /// many were closed. It asks `consent` for each sequence. If the sequences with consent do not give enough room, it
    /// closes none. See [`KvCache::make_room`](crate::cache::KvCache::make_room).
    ///
    /// # Errors
    /// [`EngineError::Cache`].
    pub fn make_room(
        &mut self,
        seq: SeqId,
        tokens: usize,
        mut consent: impl FnMut(SeqId, &SequenceStats) -> bool,
    ) -> Result<usize, EngineError> {
        self.check_quiet(seq)?;
        Ok(self.parts.cache.make_room(seq, tokens, &mut consent)?)
    }

    /// Returns the statistics of the pools and of the prefix cache: blocks used, free, reclaimable and pinned, the
    /// high-water mark, and hits of cached prefixes.
    pub fn stats(&self) -> CacheStats {
        self.parts.cache.stats()
    }

    /// Returns the statistics of a sequence: tokens, own and shared blocks, bytes.
    ///
    /// # Errors
    /// [`EngineError::Cache`] for an unknown sequence.
    pub fn sequence_stats(&self, seq: SeqId) -> Result<SequenceStats, EngineError> {
        Ok(self.parts.cache.sequence_stats(seq)?)
    }
}
