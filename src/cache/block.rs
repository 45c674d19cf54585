//! Blocks: their numbers and their metadata.

use core::fmt;

use bytemuck::{Pod, Zeroable};

use super::list::{Linked, Links, NOBODY};

pub(super) use crate::kv::BLOCK_TOKENS;

/// The number of a block in its pool.
///
/// [Example](crate::cache#example).
pub type BlockId = u32;

/// No block: the end of a list, or an empty entry of a table.
pub(super) const NO_BLOCK: BlockId = NOBODY;

/// The metadata of a block: everything but its keys and values.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMeta {
    /// Serial number of the block among all blocks that ever became cached, or 0 while its tokens are not a cached
    /// prefix.
    pub(super) serial: u64,
    /// For a cached block, the serial number of the block that it follows: see [`Chain`](super::prefix::Chain).
    pub(super) parent: u64,
    /// Ids of the tokens in the block. Those past `num_tokens` are queued or meaningless.
    pub(super) tokens: [u32; BLOCK_TOKENS],
    /// For a cached block, its index in its sequences, and the hash by which it is found.
    pub(super) index: u32,
    pub(super) hash: u32,
    /// Number of sequences whose tables hold the block, plus the number of pins. 0 while nobody holds it.
    pub(super) ref_count: u32,
    /// Number of these references that are pins.
    pub(super) pins: u32,
    /// Number of these references that belong to sequences which [`KvCache::make_room`](super::KvCache::make_room)
    /// considers closing. While nobody holds the block, its mark in the queue [`Chosen`](super::chosen::Chosen).
    pub(super) marked: u32,
    /// Number of committed tokens, at most [`BLOCK_TOKENS`].
    pub(super) num_tokens: u32,
    /// 1 once the block is finalized, because it is full or shared.
    pub(super) finalized: u32,
    /// 1 if a row of the block was imported, so that the block may differ from what the model computes.
    pub(super) imported: u32,
    /// Neighbours in the list of free or of reclaimable blocks.
    pub(super) links: Links,
}

impl Linked for BlockMeta {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl BlockMeta {
    /// Returns how many sequences and pins hold the block.
    pub fn ref_count(&self) -> u32 {
        self.ref_count
    }

    /// Returns how many pins hold the block.
    pub fn pins(&self) -> u32 {
        self.pins
    }

    /// Returns whether the block's tokens are a cached prefix, which other sequences can reuse.
    pub fn is_cached(&self) -> bool {
        self.serial != 0
    }

    /// Returns the index of the block in its sequences, or `None` if its tokens are not a cached prefix. The block
    /// begins at position 16 times the index.
    pub fn index(&self) -> Option<usize> {
        self.is_cached().then_some(self.index as usize)
    }

    /// Returns the number of committed tokens, at most [`BLOCK_TOKENS`]. Their keys and values are complete.
    pub fn num_tokens(&self) -> usize {
        self.num_tokens as usize
    }

    /// Returns whether the block is finalized, because it is full or shared. It is copied before anything is written to
    /// it.
    pub fn finalized(&self) -> bool {
        self.finalized != 0
    }

    /// Returns the ids of the block's tokens. The first [`BlockMeta::num_tokens`] are committed.
    pub fn tokens(&self) -> &[u32; BLOCK_TOKENS] {
        &self.tokens
    }
}

/// Why an operation on a block was refused.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocError {
    /// The pool has too few blocks that are free or reclaimable.
    OutOfBlocks {
        /// Number of blocks that are needed.
        needed: usize,
        /// Number of blocks that are available.
        free: usize,
    },
    /// The block does not exist, or it is free and must be in use, or it is in use and must be free.
    InvalidBlock {
        /// The number given.
        block: BlockId,
    },
    /// The block is full or shared: it cannot be written to.
    AlreadyFinalized {
        /// Number of the block.
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
            Self::AlreadyFinalized { block } => write!(f, "block {block} is finalized: it cannot be written to"),
        }
    }
}

impl core::error::Error for AllocError {}
