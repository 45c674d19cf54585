//! Use of cached prefixes: a new sequence starts with blocks that another one computed.

use super::block::{AllocError, BLOCK_TOKENS, BlockId};
use super::error::CacheError;
use super::group::Group;
use super::kv_cache::KvCache;
use super::prefix::{Chain, SALT};
use super::sequence::SeqId;

impl KvCache<'_> {
    /// Starts an empty sequence with the cached blocks of these tokens. Returns how many tokens the sequence then has:
    /// a multiple of 16, and less than the number given, since the last token has to run to give logits. Returns 0 if
    /// nothing is cached, or if the geometry caches no prefixes.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::Position`] if the sequence is not empty.
    pub fn reuse(&mut self, seq: SeqId, tokens: &[u32]) -> Result<usize, CacheError> {
        let given = self.idle(seq)?;
        if given != 0 {
            return Err(CacheError::Position { expected: 0, given });
        }
        let most = tokens.len().saturating_sub(1).min(self.geometry().context);
        let tokens_to_find = tokens.get(..most).unwrap_or_default();
        let slot = seq.slot();
        let point = self.cached_state(tokens_to_find)?;
        let tokens_to_find = point.map_or(tokens_to_find, |(end, _)| tokens_to_find.get(..end).unwrap_or_default());
        let found =
            self.for_cached(tokens_to_find, |_, _| true, |group, block, index| group.attach(slot, index, block))?;
        if let Some((position, serial)) = point.filter(|&(position, _)| position > 0) {
            self.states.begin_cached(slot, position, serial)?;
        }
        self.sequence_mut(seq)?.len = found as u32;
        self.touch(seq);
        let prefix = &mut self.prefix;
        prefix.lookups = prefix.lookups.saturating_add(1);
        prefix.hits = prefix.hits.saturating_add(u64::from(found > 0));
        prefix.hit_tokens = prefix.hit_tokens.saturating_add(found as u64);
        prefix.missed_tokens = prefix.missed_tokens.saturating_add(tokens.len().saturating_sub(found) as u64);
        Ok(found)
    }

    /// Returns where the prefix to reuse ends in a model with states: the position of the last checkpoint in the cached
    /// blocks of these tokens, and the serial number of its block. Both are 0 if there is none. Returns `None` if the
    /// model has no states.
    fn cached_state(&mut self, tokens: &[u32]) -> Result<Option<(usize, u64)>, CacheError> {
        let (Some(group), true) = (self.groups.first_mut(), self.states.are_there()) else { return Ok(None) };
        let (states, mut point) = (&self.states, (0, 0));
        group.walk(tokens, SALT, |group, block, index| {
            let end = (index + 1) * BLOCK_TOKENS;
            let serial = group.allocator.meta(block).and_then(Chain::after).map_or(0, |chain| chain.parent);
            if states.is_cached(end, serial) {
                point = (end, serial);
            }
            Ok(true)
        })?;
        Ok(Some(point))
    }

    /// Pins the cached blocks of these tokens: they stay cached until [`KvCache::unpin`], whatever becomes of the
    /// sequences that hold them. Returns the number of tokens in these blocks, a multiple of 16. Pins are counted:
    /// unpin once per pin.
    ///
    /// # Errors
    /// [`CacheError::Internal`].
    pub fn pin(&mut self, tokens: &[u32]) -> Result<usize, CacheError> {
        self.for_cached(tokens, |_, _| true, |group, block, _| group.allocator.pin(block))
    }

    /// Takes one pin from each pinned block of these tokens. Returns the number of tokens in these blocks. With as many
    /// of the pinned tokens as [`KvCache::pin`] returned, it undoes that call exactly.
    ///
    /// # Errors
    /// [`CacheError::Internal`].
    pub fn unpin(&mut self, tokens: &[u32]) -> Result<usize, CacheError> {
        let pinned = |group: &Group<'_>, block| group.allocator.meta(block).is_some_and(|meta| meta.pins() > 0);
        self.for_cached(tokens, pinned, |group, block, _| group.allocator.unpin(block))
    }

    /// Calls `act` with each cached block of these tokens and its index, up to the first block that is not `wanted` in
    /// some layer group. Returns the number of tokens in these blocks.
    fn for_cached(
        &mut self,
        tokens: &[u32],
        wanted: impl Fn(&Group<'_>, BlockId) -> bool,
        mut act: impl FnMut(&mut Group<'_>, BlockId, usize) -> Result<(), AllocError>,
    ) -> Result<usize, CacheError> {
        let mut blocks = usize::MAX;
        for group in &mut self.groups {
            blocks = blocks.min(group.walk(tokens, SALT, |group, block, _| Ok(wanted(group, block)))?);
        }
        for group in &mut self.groups {
            group.walk(tokens, SALT, |group, block, index| match index < blocks {
                true => act(group, block, index).map(|()| true),
                false => Ok(false),
            })?;
        }
        Ok(blocks.saturating_mul(BLOCK_TOKENS))
    }
}

impl Group<'_> {
    /// Caches block `index` of a sequence, if the block is full and follows a cached one. If the same prefix is cached
    /// already, the sequence goes on with that cached block, which has the same bits, and gives its own back. So
    /// whoever holds a cached block also holds the cached blocks before it.
    pub(super) fn publish(&mut self, slot: usize, index: usize, salt: u64) -> Result<(), AllocError> {
        if self.forgets {
            // The block before this one may be gone.
            return Ok(());
        }
        let block = self.block(slot, index)?;
        let before = index.checked_sub(1).map(|before| self.block(slot, before)).transpose()?;
        let chain = match before {
            None => Some(Chain::root(salt)),
            Some(before) => self.allocator.meta(before).and_then(Chain::after),
        };
        match chain.and_then(|chain| self.allocator.publish(block, chain)) {
            Some(cached) if cached != block => {
                self.allocator.hold(cached)?;
                self.set(slot, index, cached)?;
                self.allocator.free(block)
            }
            _ => Ok(()),
        }
    }

    /// Calls `visit` with each cached block that holds the first of these tokens, in order, until it returns false.
    /// Returns the number of blocks for which it returned true.
    pub(super) fn walk(
        &mut self,
        tokens: &[u32],
        salt: u64,
        mut visit: impl FnMut(&mut Self, BlockId, usize) -> Result<bool, AllocError>,
    ) -> Result<usize, AllocError> {
        let mut chain = Chain::root(salt);
        let mut count = 0;
        for tokens in tokens.as_chunks::<BLOCK_TOKENS>().0 {
            let Some(block) = self.allocator.find(chain, tokens) else { break };
            let Some(next) = self.allocator.meta(block).and_then(Chain::after) else { break };
            if !visit(self, block, count)? {
                break;
            }
            chain = next;
            count += 1;
        }
        Ok(count)
    }

    /// Appends a cached block to the table of a sequence.
    pub(super) fn attach(&mut self, slot: usize, index: usize, block: BlockId) -> Result<(), AllocError> {
        self.allocator.hold(block)?;
        self.set(slot, index, block)?;
        self.entry(slot)?.blocks += 1;
        Ok(())
    }
}
