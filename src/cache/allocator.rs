//! The allocator of a pool's blocks, with its lists of free and of reclaimable blocks.

use bytemuck::Zeroable;

use super::block::{AllocError, BLOCK_TOKENS, BlockId, BlockMeta, NO_BLOCK};
use super::chosen::Chosen;
use super::list::List;
use super::prefix::{Chain, PrefixTable};
use super::stats::PoolStats;

/// Hands out the blocks of one pool. Every operation is O(1).
///
/// A block is in use, free, or reclaimable. Nobody holds a reclaimable block, but its contents are a cached prefix. It
/// is evicted when no block is free, and the block that was given back first is evicted first. A sequence gives its
/// blocks back from the last to the first, and whoever holds a block also holds the blocks before it. So a block is
/// evicted before its predecessor, without which nobody could find it.
///
/// [Example](crate::cache#example).
#[derive(Debug)]
pub struct BlockAllocator<'a> {
    pub(super) blocks: &'a mut [BlockMeta],
    pub(super) free: List,
    pub(super) reclaimable: List,
    prefixes: PrefixTable<'a>,
    /// Number of blocks that ever became cached.
    serials: u64,
    pinned: usize,
    high_water: usize,
    /// Number of blocks that nobody holds but sequences that are marked for closing.
    marked: usize,
    /// Blocks that [`BlockAllocator::allocate`] takes next.
    pub(super) chosen: Chosen,
}

impl<'a> BlockAllocator<'a> {
    /// Returns an allocator over `blocks`, all of which become free. It caches no prefixes.
    pub fn new(blocks: &'a mut [BlockMeta]) -> Self {
        Self::with_prefixes(blocks, &mut [])
    }

    /// Returns an allocator that caches prefixes. The length of `places` must be [`PrefixTable::places`] of the blocks.
    pub(super) fn with_prefixes(blocks: &'a mut [BlockMeta], places: &'a mut [BlockId]) -> Self {
        // Ids are below `NO_BLOCK`. `Chosen` stores an id plus 1 and uses `NO_BLOCK` itself, so one id less is left.
        let count = blocks.len().min(NO_BLOCK as usize - 1);
        let blocks = blocks.get_mut(..count).unwrap_or_default();
        blocks.fill(BlockMeta::zeroed());
        let mut free = List::EMPTY;
        for id in 0..count as u32 {
            free.push_back(blocks, id);
        }
        let prefixes = PrefixTable::new(places);
        let (reclaimable, chosen) = (List::EMPTY, Chosen::NONE);
        Self { blocks, free, reclaimable, prefixes, serials: 0, pinned: 0, high_water: 0, marked: 0, chosen }
    }

    /// Returns the number of blocks in the pool.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns whether the pool has no blocks at all.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the number of free blocks. Reclaimable blocks are available, too, but not counted here.
    pub fn free_blocks(&self) -> usize {
        self.free.len
    }

    /// Returns the number of blocks that can be allocated: free and reclaimable ones.
    pub fn available_blocks(&self) -> usize {
        self.free.len + self.reclaimable.len
    }

    /// Returns the number of blocks that somebody holds.
    pub fn used_blocks(&self) -> usize {
        self.blocks.len().saturating_sub(self.available_blocks())
    }

    /// Returns the metadata of a block, or `None` past the last block.
    pub fn meta(&self, block: BlockId) -> Option<&BlockMeta> {
        self.blocks.get(block as usize)
    }

    /// Returns the statistics of the pool, without bytes.
    pub(super) fn stats(&self) -> PoolStats {
        PoolStats {
            total: self.len(),
            used: self.used_blocks(),
            reclaimable: self.reclaimable.len,
            free: self.free.len,
            pinned: self.pinned,
            high_water: self.high_water,
            block_bytes: 0,
        }
    }

    /// Returns the largest number of blocks that were in use at a time.
    pub(super) fn high_water(&self) -> usize {
        self.high_water
    }

    /// Lowers the high-water mark to `mark`, or to the number of blocks in use if that is larger.
    pub(super) fn lower_high_water(&mut self, mark: usize) {
        self.high_water = mark.max(self.used_blocks());
    }

    /// Takes the next chosen block, or else a free one, or else the one that has been reclaimable longest. The block is
    /// then empty and has one reference.
    ///
    /// # Errors
    /// [`AllocError::OutOfBlocks`].
    pub fn allocate(&mut self) -> Result<BlockId, AllocError> {
        let default = if self.free.len > 0 { self.free.first } else { self.reclaimable.first };
        let block = self.chosen.pop(self.blocks).unwrap_or(default);
        self.allocate_at(block).map_err(|_| AllocError::OutOfBlocks { needed: 1, free: 0 })
    }

    /// Takes the free or reclaimable block with this number.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`] if it is in use or does not exist.
    pub fn allocate_at(&mut self, block: BlockId) -> Result<BlockId, AllocError> {
        self.take(block)?;
        self.forget(block);
        let meta = self.used_mut(block)?;
        *meta = BlockMeta { ref_count: 1, ..BlockMeta::zeroed() };
        Ok(block)
    }

    /// Adds a token to a block. Returns the slot of the token in the block.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`], [`AllocError::AlreadyFinalized`] if the block is full or shared.
    pub fn append_token_slot(&mut self, block: BlockId, token: u32) -> Result<usize, AllocError> {
        let meta = self.used_mut(block)?;
        if meta.finalized != 0 || meta.ref_count > 1 {
            return Err(AllocError::AlreadyFinalized { block });
        }
        let slot = meta.num_tokens as usize;
        let place = meta.tokens.get_mut(slot).ok_or(AllocError::AlreadyFinalized { block })?;
        *place = token;
        meta.num_tokens += 1;
        meta.finalized = u32::from(meta.num_tokens as usize == BLOCK_TOKENS);
        Ok(slot)
    }

    /// Gives back one reference. After the last one the block becomes reclaimable if its tokens are a cached prefix,
    /// and free otherwise.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`] if nobody holds the block.
    pub fn free(&mut self, block: BlockId) -> Result<(), AllocError> {
        let meta = self.used_mut(block)?;
        meta.ref_count -= 1;
        if meta.ref_count > 0 {
            return Ok(());
        }
        meta.marked = 0;
        if meta.is_cached() {
            self.reclaimable.push_back(self.blocks, block);
        } else {
            self.free.push_front(self.blocks, block);
        }
        Ok(())
    }

    /// Adds a reference: the block is shared from now on and therefore finalized.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`].
    pub fn share(&mut self, block: BlockId) -> Result<(), AllocError> {
        let meta = self.used_mut(block)?;
        meta.ref_count = meta.ref_count.checked_add(1).ok_or(AllocError::InvalidBlock { block })?;
        meta.finalized = 1;
        Ok(())
    }

    /// Keeps only the first `tokens` tokens of a block with one owner. If the block then has room, it is not finalized
    /// any more.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`], [`AllocError::AlreadyFinalized`] if the block is shared.
    pub(super) fn reopen(&mut self, block: BlockId, tokens: usize) -> Result<(), AllocError> {
        let meta = self.used_mut(block)?;
        if meta.ref_count > 1 {
            return Err(AllocError::AlreadyFinalized { block });
        }
        meta.num_tokens = meta.num_tokens.min(tokens as u32);
        meta.finalized = u32::from(meta.num_tokens as usize == BLOCK_TOKENS);
        // The block is about to get other tokens. The cached blocks that followed it are no longer found, and are
        // evicted in their turn.
        self.forget(block);
        Ok(())
    }

    /// Copies the metadata of the first `tokens` tokens of a block. Their keys and values are copied elsewhere.
    pub(super) fn copy_meta(&mut self, from: BlockId, to: BlockId, tokens: usize) -> Result<(), AllocError> {
        let from = *self.meta(from).ok_or(AllocError::InvalidBlock { block: from })?;
        let to = self.used_mut(to)?;
        to.tokens = from.tokens;
        to.num_tokens = from.num_tokens.min(tokens as u32);
        to.finalized = u32::from(to.num_tokens as usize == BLOCK_TOKENS);
        to.imported = from.imported;
        Ok(())
    }

    /// Notes the id of a token that is queued for a slot, before its keys and values exist.
    pub(super) fn queue_token(&mut self, block: BlockId, slot: usize, token: u32) -> Result<(), AllocError> {
        let place = self.used_mut(block)?.tokens.get_mut(slot).ok_or(AllocError::InvalidBlock { block })?;
        *place = token;
        Ok(())
    }

    /// Notes that rows of a block were imported. The block then never becomes a cached prefix.
    pub(super) fn set_imported(&mut self, block: BlockId) -> Result<(), AllocError> {
        self.used_mut(block)?.imported = 1;
        Ok(())
    }

    /// Returns the cached block that follows `chain` and holds these tokens.
    pub(super) fn find(&self, chain: Chain, tokens: &[u32; BLOCK_TOKENS]) -> Option<BlockId> {
        self.prefixes.find(self.blocks, chain, tokens)
    }

    /// Caches a full block, whose rows the model computed, as the block that follows `chain`. Returns the block that is
    /// then cached there: another one if the same tokens were cached before. Returns `None` if the block cannot be
    /// cached.
    pub(super) fn publish(&mut self, block: BlockId, chain: Chain) -> Option<BlockId> {
        let full = |meta: &&BlockMeta| meta.num_tokens() == BLOCK_TOKENS && meta.imported == 0;
        let meta = self.meta(block).filter(full).filter(|_| self.prefixes.is_enabled())?;
        let (tokens, serial) = (meta.tokens, self.serials.checked_add(1)?);
        if let Some(cached) = self.find(chain, &tokens) {
            return Some(cached);
        }
        let hash = chain.hash(&tokens);
        if !self.prefixes.insert(block, hash) {
            return None;
        }
        self.serials = serial;
        let meta = self.used_mut(block).ok()?;
        (meta.serial, meta.parent, meta.index, meta.hash) = (serial, chain.parent, chain.index, hash);
        Some(block)
    }

    /// Adds a reference to a cached block, which may have had none.
    pub(super) fn hold(&mut self, block: BlockId) -> Result<(), AllocError> {
        match self.take(block) {
            Ok(()) => Ok(()),
            Err(_) => self.share(block),
        }
    }

    /// Adds a reference that belongs to no sequence.
    pub(super) fn pin(&mut self, block: BlockId) -> Result<(), AllocError> {
        self.hold(block)?;
        let meta = self.used_mut(block)?;
        meta.pins += 1;
        self.pinned += usize::from(meta.pins == 1);
        Ok(())
    }

    /// Gives back a reference of [`BlockAllocator::pin`].
    pub(super) fn unpin(&mut self, block: BlockId) -> Result<(), AllocError> {
        let meta = self.used_mut(block)?;
        meta.pins = meta.pins.checked_sub(1).ok_or(AllocError::InvalidBlock { block })?;
        let last = usize::from(meta.pins == 0);
        self.pinned = self.pinned.saturating_sub(last);
        self.free(block)
    }

    /// Removes all marks, and forgets all chosen blocks.
    pub(super) fn clear_marks(&mut self) {
        self.choose_none();
        self.blocks.iter_mut().for_each(|meta| meta.marked = 0);
        self.marked = 0;
    }

    /// Counts one of the sequences that hold the block as marked for closing, or no longer counts it.
    pub(super) fn mark(&mut self, block: BlockId, on: bool) -> Result<(), AllocError> {
        let meta = self.used_mut(block)?;
        let before = usize::from(meta.marked == meta.ref_count);
        meta.marked = if on { meta.marked.saturating_add(1) } else { meta.marked.saturating_sub(1) };
        let now = usize::from(meta.marked == meta.ref_count);
        self.marked = (self.marked + now).saturating_sub(before);
        Ok(())
    }

    /// Returns the number of blocks that are available once the marked sequences are closed.
    pub(super) fn available_after(&self) -> usize {
        self.available_blocks() + self.marked
    }

    /// Returns the number of references to a block that are left once the marked sequences are closed.
    pub(super) fn references_after(&self, block: BlockId) -> u32 {
        self.meta(block).map_or(0, |meta| meta.ref_count.saturating_sub(meta.marked))
    }

    /// Returns the lists of free and of reclaimable blocks and the table of cached ones, for
    /// [`KvCache::check`](super::KvCache::check).
    pub(super) fn audit(&self) -> (List, List, &PrefixTable<'a>) {
        (self.free, self.reclaimable, &self.prefixes)
    }

    /// Gives a block that nobody holds its first reference. The contents of the block stay.
    fn take(&mut self, block: BlockId) -> Result<(), AllocError> {
        let meta = self.blocks.get_mut(block as usize).filter(|meta| meta.ref_count == 0);
        let meta = meta.ok_or(AllocError::InvalidBlock { block })?;
        meta.ref_count = 1;
        let list = if meta.is_cached() { &mut self.reclaimable } else { &mut self.free };
        list.remove(self.blocks, block);
        self.high_water = self.high_water.max(self.used_blocks());
        Ok(())
    }

    /// Takes a block out of the table of cached prefixes, if it is there.
    fn forget(&mut self, block: BlockId) {
        if self.meta(block).is_some_and(BlockMeta::is_cached) {
            self.prefixes.remove(self.blocks, block);
            if let Some(meta) = self.blocks.get_mut(block as usize) {
                meta.serial = 0;
            }
        }
    }

    fn used_mut(&mut self, block: BlockId) -> Result<&mut BlockMeta, AllocError> {
        let meta = self.blocks.get_mut(block as usize).filter(|meta| meta.ref_count > 0);
        meta.ok_or(AllocError::InvalidBlock { block })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocates_until_full_and_reuses() {
        let mut blocks = [BlockMeta::zeroed(); 3];
        let mut allocator = BlockAllocator::new(&mut blocks);
        assert_eq!(allocator.allocate_at(1), Ok(1));
        assert_eq!(allocator.allocate_at(1), Err(AllocError::InvalidBlock { block: 1 }));
        assert_eq!(allocator.allocate(), Ok(0));
        assert_eq!(allocator.allocate(), Ok(2));
        assert_eq!(allocator.allocate(), Err(AllocError::OutOfBlocks { needed: 1, free: 0 }));
        assert_eq!(allocator.free(1), Ok(()));
        assert_eq!(allocator.free(1), Err(AllocError::InvalidBlock { block: 1 }));
        assert_eq!(allocator.free(9), Err(AllocError::InvalidBlock { block: 9 }));
        assert_eq!(allocator.allocate(), Ok(1));
        assert_eq!(allocator.free_blocks(), 0);
    }

    #[test]
    fn full_and_shared_blocks_are_frozen() {
        let mut blocks = [BlockMeta::zeroed(); 2];
        let mut allocator = BlockAllocator::new(&mut blocks);
        let block = allocator.allocate().unwrap();
        for token in 0..BLOCK_TOKENS {
            assert_eq!(allocator.append_token_slot(block, token as u32), Ok(token));
        }
        assert!(allocator.meta(block).unwrap().finalized());
        assert_eq!(allocator.append_token_slot(block, 0), Err(AllocError::AlreadyFinalized { block }));

        let other = allocator.allocate().unwrap();
        allocator.append_token_slot(other, 7).unwrap();
        allocator.share(other).unwrap();
        assert_eq!(allocator.append_token_slot(other, 8), Err(AllocError::AlreadyFinalized { block: other }));
        assert_eq!(allocator.reopen(other, 1), Err(AllocError::AlreadyFinalized { block: other }));
        allocator.free(other).unwrap();
        allocator.reopen(other, 1).unwrap();
        assert_eq!(allocator.append_token_slot(other, 8), Ok(1));
        assert_eq!(allocator.meta(other).unwrap().tokens()[..2], [7, 8]);
    }

    #[test]
    fn random_use_never_loses_a_block() {
        let mut blocks = [BlockMeta::zeroed(); 20];
        let mut allocator = BlockAllocator::new(&mut blocks);
        let mut held = std::vec::Vec::new();
        let mut state = 1u32;
        for _ in 0..10_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            match state >> 30 {
                0 => held.extend(allocator.allocate()),
                1 => held.extend(allocator.allocate_at(state >> 8 & 31)),
                _ if !held.is_empty() => {
                    let block = held.swap_remove((state >> 8) as usize % held.len());
                    allocator.free(block).unwrap();
                }
                _ => {}
            }
            assert_eq!(allocator.free_blocks() + held.len(), 20);
        }
        while allocator.allocate().is_ok() {}
        assert_eq!(allocator.free_blocks(), 0);
    }
}
