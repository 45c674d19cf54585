//! Blocks: their metadata and the allocator with its free list.

use core::fmt;

use bytemuck::{Pod, Zeroable};

/// Tokens per block.
pub const BLOCK_TOKENS: usize = 16;

/// The number of a block in its pool.
pub type BlockId = u32;

/// No block: the end of the free list, an empty entry of a table.
pub(super) const NO_BLOCK: BlockId = BlockId::MAX;

/// What is known about a block besides its keys and values.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMeta {
    /// The ids of the tokens in the block, those past `num_tokens` are queued or meaningless.
    tokens: [u32; BLOCK_TOKENS],
    /// Sequences whose tables hold the block; 0 while it is free.
    ref_count: u32,
    /// Committed tokens, at most [`BLOCK_TOKENS`].
    num_tokens: u32,
    /// 1 once the block is frozen, because it is full or shared.
    finalized: u32,
    /// Neighbours in the free list.
    previous: BlockId,
    next: BlockId,
}

impl BlockMeta {
    /// Sequences whose tables hold the block; 0 while it is free.
    pub fn ref_count(&self) -> u32 {
        self.ref_count
    }

    /// Tokens in the block whose keys and values are complete, at most [`BLOCK_TOKENS`].
    pub fn num_tokens(&self) -> usize {
        self.num_tokens as usize
    }

    /// Whether the block is frozen, because it is full or shared: it is copied before anything is written to it.
    pub fn finalized(&self) -> bool {
        self.finalized != 0
    }

    /// The ids of its tokens; the first [`BlockMeta::num_tokens`] are committed.
    pub fn tokens(&self) -> &[u32; BLOCK_TOKENS] {
        &self.tokens
    }
}

/// Why an operation on a block was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocError {
    /// The pool has too few free blocks.
    OutOfBlocks {
        /// Blocks that are needed.
        needed: usize,
        /// Blocks that are free.
        free: usize,
    },
    /// No such block, or a free one where one in use is meant, or the other way round.
    InvalidBlock {
        /// The number given.
        block: BlockId,
    },
    /// The block is full or shared: it can not be written to.
    AlreadyFinalized {
        /// Its number.
        block: BlockId,
    },
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutOfBlocks { needed, free } => {
                write!(f, "the KV pool is full: {needed} blocks of {BLOCK_TOKENS} tokens needed, {free} free")
            }
            Self::InvalidBlock { block } => write!(f, "block {block} does not exist or is in the wrong state"),
            Self::AlreadyFinalized { block } => write!(f, "block {block} is finalized: it can not be written to"),
        }
    }
}

impl core::error::Error for AllocError {}

/// Hands out the blocks of one pool; a doubly linked free list, every operation O(1).
#[derive(Debug)]
pub struct BlockAllocator<'a> {
    blocks: &'a mut [BlockMeta],
    first_free: BlockId,
    free: usize,
}

impl<'a> BlockAllocator<'a> {
    /// An allocator over `blocks`, all of which become free.
    pub fn new(blocks: &'a mut [BlockMeta]) -> Self {
        // Ids are u32 and the last one means "none".
        let count = blocks.len().min(NO_BLOCK as usize);
        let blocks = blocks.get_mut(..count).unwrap_or_default();
        for (id, block) in (0..).zip(blocks.iter_mut()) {
            *block = BlockMeta::zeroed();
            block.previous = if id == 0 { NO_BLOCK } else { id - 1 };
            block.next = if id as usize + 1 == count { NO_BLOCK } else { id + 1 };
        }
        Self { first_free: if count == 0 { NO_BLOCK } else { 0 }, free: count, blocks }
    }

    /// Blocks in the pool.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether the pool has no blocks at all.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Blocks that are free.
    pub fn free_blocks(&self) -> usize {
        self.free
    }

    /// What is known of a block; `None` past the last one.
    pub fn meta(&self, block: BlockId) -> Option<&BlockMeta> {
        self.blocks.get(block as usize)
    }

    /// Takes a free block: empty, with one reference.
    ///
    /// # Errors
    /// [`AllocError::OutOfBlocks`].
    pub fn allocate(&mut self) -> Result<BlockId, AllocError> {
        self.allocate_at(self.first_free).map_err(|_| AllocError::OutOfBlocks { needed: 1, free: 0 })
    }

    /// Takes the free block with this number.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`] where it is in use or does not exist.
    pub fn allocate_at(&mut self, block: BlockId) -> Result<BlockId, AllocError> {
        let meta = self.blocks.get_mut(block as usize).filter(|meta| meta.ref_count == 0);
        let meta = meta.ok_or(AllocError::InvalidBlock { block })?;
        let (previous, next) = (meta.previous, meta.next);
        *meta = BlockMeta::zeroed();
        meta.ref_count = 1;
        match self.blocks.get_mut(previous as usize) {
            Some(meta) => meta.next = next,
            None => self.first_free = next,
        }
        if let Some(meta) = self.blocks.get_mut(next as usize) {
            meta.previous = previous;
        }
        self.free = self.free.saturating_sub(1);
        Ok(block)
    }

    /// Adds a token to a block: the slot of the token in the block.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`], [`AllocError::AlreadyFinalized`] where it is full or shared.
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

    /// Gives back one reference; the last one frees the block.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`] where it is free already.
    pub fn free(&mut self, block: BlockId) -> Result<(), AllocError> {
        let first_free = self.first_free;
        let meta = self.used_mut(block)?;
        meta.ref_count -= 1;
        if meta.ref_count > 0 {
            return Ok(());
        }
        meta.previous = NO_BLOCK;
        meta.next = first_free;
        if let Some(meta) = self.blocks.get_mut(first_free as usize) {
            meta.previous = block;
        }
        self.first_free = block;
        self.free += 1;
        Ok(())
    }

    /// Adds a reference: the block is shared from now on and therefore frozen.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`].
    pub fn share(&mut self, block: BlockId) -> Result<(), AllocError> {
        let meta = self.used_mut(block)?;
        meta.ref_count = meta.ref_count.checked_add(1).ok_or(AllocError::InvalidBlock { block })?;
        meta.finalized = 1;
        Ok(())
    }

    /// Keeps only the first `tokens` tokens of a block with one owner and unfreezes it if room is left.
    ///
    /// # Errors
    /// [`AllocError::InvalidBlock`], [`AllocError::AlreadyFinalized`] where the block is shared.
    pub(super) fn reopen(&mut self, block: BlockId, tokens: usize) -> Result<(), AllocError> {
        let meta = self.used_mut(block)?;
        if meta.ref_count > 1 {
            return Err(AllocError::AlreadyFinalized { block });
        }
        meta.num_tokens = meta.num_tokens.min(tokens as u32);
        meta.finalized = u32::from(meta.num_tokens as usize == BLOCK_TOKENS);
        Ok(())
    }

    /// Takes over tokens and fill of another block: the metadata half of a copy.
    pub(super) fn copy_meta(&mut self, from: BlockId, to: BlockId, tokens: usize) -> Result<(), AllocError> {
        let from = *self.meta(from).ok_or(AllocError::InvalidBlock { block: from })?;
        let to = self.used_mut(to)?;
        to.tokens = from.tokens;
        to.num_tokens = from.num_tokens.min(tokens as u32);
        to.finalized = u32::from(to.num_tokens as usize == BLOCK_TOKENS);
        Ok(())
    }

    /// Notes the id of a token that is queued for a slot, before its keys and values exist.
    pub(super) fn queue_token(&mut self, block: BlockId, slot: usize, token: u32) -> Result<(), AllocError> {
        let place = self.used_mut(block)?.tokens.get_mut(slot).ok_or(AllocError::InvalidBlock { block })?;
        *place = token;
        Ok(())
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
