//! The states of recurrent layers, as the engine uses them.

use super::block::BLOCK_TOKENS;
use super::error::CacheError;
use super::kind::KvKind;
use super::kv_cache::KvCache;
use super::prefix::Chain;
use super::sequence::SeqId;
use super::state::Then;
use super::state_tiles::StateTiles;

impl KvCache<'_> {
    /// Returns whether the model has recurrent layers.
    pub fn has_states(&self) -> bool {
        self.states.are_there()
    }

    /// Returns how many tokens of a sequence need not be computed again: all of them, unless the sequence was rewound
    /// to a position between two checkpoints, and none for the kind `off`.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn computed(&self, seq: SeqId) -> Result<usize, CacheError> {
        let len = self.seq_len(seq)?;
        Ok(if self.kind() == KvKind::Off { 0 } else { self.states.position(seq.slot()).unwrap_or(len).min(len) })
    }

    /// Returns how many tokens would not have to be computed again if a sequence were rewound to `keep` tokens.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::TooShort`].
    pub fn computed_at(&self, seq: SeqId, keep: usize) -> Result<usize, CacheError> {
        let length = self.seq_len(seq)?;
        if keep > length {
            return Err(CacheError::TooShort { keep, length });
        }
        Ok(if self.has_states() { self.states.found(seq.slot(), keep) } else { keep })
    }

    /// Returns whether the keys and values of a position are stored already, so that they are not stored again.
    pub(crate) fn is_stored(&self, seq: SeqId, position: usize) -> bool {
        self.kind() != KvKind::Off && self.seq_len(seq).is_ok_and(|len| position < len)
    }

    /// Makes the state that a batch has written the state of a sequence, after its first `position` tokens.
    pub(crate) fn commit_state(&mut self, seq: SeqId, position: usize, then: Then) -> Result<(), CacheError> {
        self.sequence(seq)?;
        self.states.commit(seq.slot(), position, then)
    }

    /// Ends the judgement of guesses: the sequence keeps its first `keep` tokens.
    pub(crate) fn keep_guesses(&mut self, seq: SeqId, keep: usize) -> Result<(), CacheError> {
        if keep < self.idle(seq)? {
            self.take_back(seq, keep)?;
        }
        self.states.forget_before(seq.slot())
    }

    /// [`KvCache::rewind`] for tokens of guesses that were wrong, or of a call that failed. It keeps the position at
    /// which the host wants a checkpoint.
    pub(crate) fn take_back(&mut self, seq: SeqId, keep: usize) -> Result<(), CacheError> {
        let wanted = self.states.wanted(seq.slot());
        self.rewind(seq, keep)?;
        self.states.want(seq.slot(), wanted as usize);
        Ok(())
    }

    /// Keeps the state of a sequence as a checkpoint, if there is room. Returns whether there was. `asked` says that
    /// the host asked for it: then it stays until the sequence is closed or rewound past it.
    pub(crate) fn keep_state(&mut self, seq: SeqId, asked: bool) -> Result<bool, CacheError> {
        self.sequence(seq)?;
        let position = self.states.position(seq.slot()).unwrap_or(0);
        let serial = self.serial_at(seq, position).unwrap_or(0);
        self.states.keep(seq.slot(), asked, serial)
    }

    /// Keeps the state of a sequence as a checkpoint that gives way to others: now, or when it has `position` tokens.
    pub(crate) fn want_state(&mut self, seq: SeqId, position: usize) -> Result<(), CacheError> {
        let is_here = self.computed(seq)? == position;
        self.states.want(seq.slot(), if is_here { 0 } else { position });
        if is_here { self.keep_state(seq, false).map(drop) } else { Ok(()) }
    }

    /// Returns the position at which a checkpoint is wanted, or 0 for none.
    pub(crate) fn wanted_state(&self, seq: SeqId) -> u32 {
        self.states.wanted(seq.slot())
    }

    /// Returns the states of a layer's convolution, cut into tiles of `width` channels. (`layer` counts only layers
    /// that have a state.)
    pub(crate) fn tails(&mut self, layer: usize, width: usize, kernel: usize) -> Option<StateTiles<'_>> {
        self.states.tails(layer, width, kernel)
    }

    /// Returns the matrices of a layer, one tile for each head.
    pub(crate) fn matrices(&mut self, layer: usize) -> Option<StateTiles<'_>> {
        self.states.matrices(layer)
    }

    /// Returns the serial number of the cached block of a sequence that ends at a position.
    fn serial_at(&self, seq: SeqId, position: usize) -> Option<u64> {
        let group = self.groups.first()?;
        let index = (position / BLOCK_TOKENS).checked_sub(1).filter(|_| position.is_multiple_of(BLOCK_TOKENS))?;
        let meta = group.allocator.meta(*group.table(seq.slot()).blocks().get(index)?)?;
        Some(Chain::after(meta).filter(|_| meta.is_cached())?.parent)
    }
}
