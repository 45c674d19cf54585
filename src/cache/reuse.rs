//! Known prefixes, used: a new sequence starts with blocks that another one computed.

use super::block::{AllocError, BLOCK_TOKENS, BlockId};
use super::error::CacheError;
use super::group::Group;
use super::kv_cache::KvCache;
use super::prefix::{Chain, SALT};
use super::sequence::SeqId;

impl KvCache<'_> {
    /// Starts an empty sequence with the known blocks of these tokens: how many tokens it has then. That is a
    /// multiple of 16 and less than are given, since the last one has to run to give logits; 0 where nothing is
    /// known, or where the geometry knows no prefixes.
    ///
    /// # Errors
    /// [`CacheError::UnknownSequence`], [`CacheError::Busy`], [`CacheError::Position`] where the sequence is
    /// not empty.
    pub fn reuse(&mut self, seq: SeqId, tokens: &[u32]) -> Result<usize, CacheError> {
        let given = self.idle(seq)?;
        if given != 0 {
            return Err(CacheError::Position { expected: 0, given });
        }
        let most = tokens.len().saturating_sub(1).min(self.geometry().context);
        let tokens_to_find = tokens.get(..most).unwrap_or_default();
        let slot = seq.slot();
        let found =
            self.for_known(tokens_to_find, |_, _| true, |group, block, index| group.adopt(slot, index, block))?;
        self.sequence_mut(seq)?.len = found as u32;
        self.touch(seq);
        let prefix = &mut self.prefix;
        prefix.lookups = prefix.lookups.saturating_add(1);
        prefix.hits = prefix.hits.saturating_add(u64::from(found > 0));
        prefix.hit_tokens = prefix.hit_tokens.saturating_add(found as u64);
        prefix.missed_tokens = prefix.missed_tokens.saturating_add(tokens.len().saturating_sub(found) as u64);
        Ok(found)
    }

    /// Pins the known blocks of these tokens, so that they stay known until [`KvCache::unpin`], whatever becomes
    /// of the sequences that hold them: how many tokens that are, a multiple of 16. Pins count: what is pinned
    /// twice has to be unpinned twice.
    ///
    /// # Errors
    /// [`CacheError::Internal`].
    pub fn pin(&mut self, tokens: &[u32]) -> Result<usize, CacheError> {
        self.for_known(tokens, |_, _| true, |group, block, _| group.allocator.pin(block))
    }

    /// Takes one pin from each pinned block of these tokens: how many tokens that are. The same tokens as were
    /// pinned, as many as [`KvCache::pin`] answered, undo it exactly.
    ///
    /// # Errors
    /// [`CacheError::Internal`].
    pub fn unpin(&mut self, tokens: &[u32]) -> Result<usize, CacheError> {
        let pinned = |group: &Group<'_>, block| group.allocator.meta(block).is_some_and(|meta| meta.pins() > 0);
        self.for_known(tokens, pinned, |group, block, _| group.allocator.unpin(block))
    }

    /// Calls `act` with the known blocks of these tokens and their indices, up to the first that is not `wanted`
    /// in some layer group: the number of tokens in them.
    fn for_known(
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
    /// Makes block `index` of a sequence known, if it is full and follows a known one. Where the same prefix is
    /// known already, the sequence goes on with that block, which has the same bits, and gives its own back: so
    /// whoever holds a known block holds the known ones before it.
    pub(super) fn publish(&mut self, slot: usize, index: usize, salt: u64) -> Result<(), AllocError> {
        if self.forgets {
            // The block before it may be gone.
            return Ok(());
        }
        let block = self.block(slot, index)?;
        let before = index.checked_sub(1).map(|before| self.block(slot, before)).transpose()?;
        let chain = match before {
            None => Some(Chain::root(salt)),
            Some(before) => self.allocator.meta(before).and_then(Chain::after),
        };
        match chain.and_then(|chain| self.allocator.publish(block, chain)) {
            Some(known) if known != block => {
                self.allocator.hold(known)?;
                self.set(slot, index, known)?;
                self.allocator.free(block)
            }
            _ => Ok(()),
        }
    }

    /// Calls `visit` with the known blocks that hold the first of these tokens, in order, until it answers false:
    /// for how many it answered true.
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

    /// Appends a known block to the table of a sequence.
    pub(super) fn adopt(&mut self, slot: usize, index: usize, block: BlockId) -> Result<(), AllocError> {
        self.allocator.hold(block)?;
        self.set(slot, index, block)?;
        self.entry(slot)?.blocks += 1;
        Ok(())
    }
}
