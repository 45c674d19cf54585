//! Reservations: blocks are taken for rows to come, shared blocks are copied, and the rows are committed.

use super::block::BLOCK_TOKENS;
use super::error::CacheError;
use super::group::Group;
use super::kind::KvKind;
use super::kv_cache::KvCache;
use super::prefix::SALT;
use super::sequence::SeqId;

impl KvCache<'_> {
    /// Checks whether `rows` more tokens fit the sequence and the pool. The error says what is missing.
    ///
    /// # Errors
    /// As [`KvCache::reserve`].
    pub fn can_extend(&self, seq: SeqId, rows: usize) -> Result<(), CacheError> {
        self.check_extent(seq, rows, false)?;
        let len = self.seq_len(seq)?;
        self.check_room(|group| group.needed(seq.slot(), len, len.saturating_add(rows)))
    }

    /// Checks whether `rows` more tokens fit the sequence or, with `replace`, whether `rows` tokens fit in place of its
    /// own. The sequence must have no unfinished work.
    pub(super) fn check_extent(&self, seq: SeqId, rows: usize, replace: bool) -> Result<(), CacheError> {
        let len = if replace { self.idle(seq).map(|_| 0)? } else { self.idle(seq)? };
        let (needed, context) = (len.saturating_add(rows), self.geometry.context);
        if needed > context {
            return Err(CacheError::ContextFull { needed, context });
        }
        if !replace {
            return self.check_steps(seq, rows);
        }
        let tables = (0..self.groups.len()).map(|group| self.geometry.table_len(group));
        match tables.min().map(|blocks| blocks.saturating_mul(BLOCK_TOKENS)) {
            Some(limit) if rows > limit => Err(CacheError::TooMany { given: rows, limit }),
            _ => Ok(()),
        }
    }

    /// Checks whether `rows` more tokens fit if they are reserved and committed `step` at a time, so that a window
    /// passes over the tokens before them.
    ///
    /// # Errors
    /// As [`KvCache::reserve`].
    pub fn can_extend_in_steps(&self, seq: SeqId, rows: usize, step: usize) -> Result<(), CacheError> {
        let len = self.idle(seq)?;
        let (needed, context) = (len.saturating_add(rows), self.geometry.context);
        if needed > context {
            return Err(CacheError::ContextFull { needed, context });
        }
        self.check_steps(seq, step.min(rows))?;
        self.check_room(|group| group.needed_in_steps(seq.slot(), len, needed, step))
    }

    /// Takes the blocks for tokens that follow the committed ones, including the copy of a shared block, and notes the
    /// tokens. After that, nothing can run out of blocks.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::ContextFull`], [`CacheError::TooMany`],
    /// [`CacheError::OutOfBlocks`], [`CacheError::PolicyBlock`].
    pub fn reserve(&mut self, seq: SeqId, tokens: impl ExactSizeIterator<Item = u32>) -> Result<(), CacheError> {
        let count = tokens.len();
        self.can_extend(seq, count)?;
        let len = self.seq_len(seq)?;
        self.begin_choice();
        // Without tokens no block is taken, as a copy of a shared block would belong to no reservation.
        self.choose_blocks(seq, |group| if count > 0 { group.needed(seq.slot(), len, len + count) } else { 0 })?;
        self.take(seq, tokens)
    }

    /// [`KvCache::reserve`] after the check for room and after the choices of the host's policy.
    pub(super) fn take(&mut self, seq: SeqId, tokens: impl ExactSizeIterator<Item = u32>) -> Result<(), CacheError> {
        let (slot, len, reserved) = (seq.slot(), self.seq_len(seq)?, tokens.len());
        if reserved == 0 {
            return Ok(());
        }
        self.touch(seq);
        for group in &mut self.groups {
            group.extend(slot, len, len + reserved, self.policy)?;
        }
        for (position, token) in (len..).zip(tokens) {
            self.queue_token(seq, position, token)?;
        }
        if self.kind() == KvKind::Off {
            self.states.restart(slot)?;
        }
        self.states.reserve(slot)?;
        self.sequence_mut(seq)?.reserved = reserved as u32;
        Ok(())
    }

    /// Notes the id of the token at a reserved position.
    pub(crate) fn queue_token(&mut self, seq: SeqId, position: usize, token: u32) -> Result<(), CacheError> {
        for group in &mut self.groups {
            let (block, place) = group.table(seq.slot()).locate(position).ok_or(CacheError::Internal(site!()))?;
            group.allocator.queue_token(block, place, token)?;
        }
        Ok(())
    }

    /// Gives back the blocks that [`KvCache::reserve`] took and [`KvCache::commit`] has not used. Committed tokens
    /// stay.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`].
    pub fn release(&mut self, seq: SeqId) -> Result<(), CacheError> {
        let sequence = self.sequence_mut(seq)?;
        (sequence.reserved, sequence.next_layer) = (0, 0);
        let len = sequence.len as usize;
        for group in &mut self.groups {
            group.shrink(seq.slot(), len)?;
        }
        self.states.release(seq.slot())
    }

    /// Copies one layer of a shared partial block that a reservation has replaced. Returns whether there was one.
    ///
    /// This is a unit of work. [`KvCache::write_row`] and [`KvCache::commit`] copy all layers that are left.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::OnDevice`].
    pub fn copy_unit(&mut self, seq: SeqId) -> Result<bool, CacheError> {
        self.sequence(seq)?;
        self.check_here()?;
        for group in &mut self.groups {
            if group.copy_unit(seq.slot())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies the layers that [`KvCache::copy_unit`] has not copied yet. On a device, the device copies them.
    pub(super) fn copy_rest(&mut self, seq: SeqId) -> Result<(), CacheError> {
        while !self.is_on_device() && self.copy_unit(seq)? {}
        Ok(())
    }

    /// Returns how many calls of [`KvCache::copy_unit`] a sequence still needs, or 0 if it is not open.
    pub fn copy_units(&self, seq: SeqId) -> usize {
        if self.sequence(seq).is_err() {
            return 0;
        }
        self.groups.iter().map(|group| group.copy_units(seq.slot())).sum()
    }

    /// Makes the next `rows` reserved rows part of the sequence. They count as imported: neither they nor the rows
    /// after them ever become a cached prefix.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Position`] if fewer rows are reserved.
    pub fn commit(&mut self, seq: SeqId, rows: usize) -> Result<(), CacheError> {
        self.copy_rest(seq)?;
        self.commit_rows(seq, rows, false)
    }

    /// [`KvCache::commit`] for rows that the model computed from the reserved tokens. Full blocks of them become cached
    /// prefixes if the geometry says so.
    ///
    /// # Errors
    /// As [`KvCache::commit`].
    pub fn commit_computed(&mut self, seq: SeqId, rows: usize) -> Result<(), CacheError> {
        self.commit_rows(seq, rows, true)
    }

    fn commit_rows(&mut self, seq: SeqId, rows: usize, computed: bool) -> Result<(), CacheError> {
        let sequence = self.sequence(seq)?;
        let (len, reserved) = (sequence.len as usize, sequence.reserved as usize);
        if rows > reserved {
            return Err(CacheError::Position { expected: len + reserved, given: len.saturating_add(rows) });
        }
        for group in &mut self.groups {
            if rows > 0 {
                group.commit_copy(seq.slot())?;
            }
            for position in len..len + rows {
                let (block, slot) = group.table(seq.slot()).locate(position).ok_or(CacheError::Internal(site!()))?;
                let token = group.allocator.meta(block).and_then(|meta| meta.tokens().get(slot).copied());
                group.allocator.append_token_slot(block, token.ok_or(CacheError::Internal(site!()))?)?;
                if !computed {
                    group.allocator.set_imported(block)?;
                } else if slot + 1 == BLOCK_TOKENS {
                    group.publish(seq.slot(), position / BLOCK_TOKENS, SALT)?;
                }
            }
            group.forget(seq.slot(), len + rows)?;
        }
        let sequence = self.sequence_mut(seq)?;
        sequence.len += rows as u32;
        sequence.reserved -= rows as u32;
        Ok(())
    }

    /// Checks that every group has as many available blocks as `needed` says.
    pub(super) fn check_room(&self, needed: impl Fn(&Group<'_>) -> usize) -> Result<(), CacheError> {
        for group in &self.groups {
            let (needed, free) = (needed(group), group.allocator.available_blocks());
            if needed > free {
                return Err(CacheError::OutOfBlocks { needed, free });
            }
        }
        Ok(())
    }

    /// Checks whether a sequence's tables take `given` tokens at a time.
    fn check_steps(&self, seq: SeqId, given: usize) -> Result<(), CacheError> {
        let len = self.seq_len(seq)?;
        match self.groups.iter().map(|group| group.room(seq.slot(), len)).min() {
            Some(limit) if given > limit => Err(CacheError::TooMany { given, limit }),
            _ => Ok(()),
        }
    }
}
