//! Blocks that were chosen and are not taken yet.

use super::allocator::BlockAllocator;
use super::block::{AllocError, BlockId, BlockMeta, NO_BLOCK};

/// A queue of blocks that were chosen, linked through their metadata. Nobody holds them, and they stay in their lists,
/// so nothing has changed before one is taken.
///
/// The mark of a chosen block is the id of the block that was chosen next plus 1, or [`LAST`]. It is never 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    first: BlockId,
    last: BlockId,
    /// Number of these blocks that are free. The others are reclaimable.
    pub(super) free: usize,
}

/// Mark of the block that was chosen last.
const LAST: u32 = NO_BLOCK;

impl Chosen {
    pub(super) const NONE: Self = Self { first: NO_BLOCK, last: NO_BLOCK, free: 0 };

    /// Appends a block that is not in the queue.
    pub(super) fn push(&mut self, blocks: &mut [BlockMeta], block: BlockId, free: bool) {
        match blocks.get_mut(self.last as usize) {
            Some(last) => last.marked = block + 1,
            None => self.first = block,
        }
        if let Some(meta) = blocks.get_mut(block as usize) {
            meta.marked = LAST;
        }
        self.last = block;
        self.free += usize::from(free);
    }

    /// Takes the first block out of the queue.
    pub(super) fn pop(&mut self, blocks: &mut [BlockMeta]) -> Option<BlockId> {
        let block = self.first;
        let meta = blocks.get_mut(block as usize)?;
        let next = core::mem::take(&mut meta.marked);
        self.free = self.free.saturating_sub(usize::from(!meta.is_cached()));
        match next {
            0 | LAST => *self = Self::NONE,
            next => self.first = next - 1,
        }
        Some(block)
    }
}

impl BlockAllocator<'_> {
    /// Chooses a block that [`BlockAllocator::allocate`] takes after the blocks that are chosen already. `ask` gets the
    /// candidates: the free blocks, or the reclaimable ones if all free blocks are chosen.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`] if the answer is not a candidate.
    pub(super) fn choose(&mut self, ask: impl FnOnce(&[BlockMeta], u32, bool) -> BlockId) -> Result<(), AllocError> {
        let evict = self.free.len <= self.chosen.free;
        let list = if evict { self.reclaimable } else { self.free };
        let block = ask(self.blocks, list.first, evict);
        let can_be = |meta: &&BlockMeta| meta.ref_count == 0 && meta.marked == 0 && meta.is_cached() == evict;
        self.meta(block).filter(can_be).ok_or(AllocError::InvalidBlock { block })?;
        self.chosen.push(self.blocks, block, !evict);
        Ok(())
    }

    /// Forgets all chosen blocks.
    pub(super) fn choose_none(&mut self) {
        while self.chosen.pop(self.blocks).is_some() {}
    }
}
