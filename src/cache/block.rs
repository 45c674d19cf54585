//! Blocks: their numbers and their metadata.

use core::fmt;

use bytemuck::{Pod, Zeroable};

use super::list::{Linked, Links, NOBODY};

pub(super) use crate::kv::BLOCK_TOKENS;

/// The number of a block in its pool.
///
/// [Example](crate::cache#example).
pub type BlockId = u32;

/// No block: the end of a list, an empty entry of a table.
pub(super) const NO_BLOCK: BlockId = NOBODY;

/// A block, without its keys and values.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMeta {
    /// The number of the block among all that ever became cached; 0 while its tokens are not a cached prefix.
    pub(super) serial: u64,
    /// Of a cached block: what it follows, see [`Chain`](super::prefix::Chain).
    pub(super) parent: u64,
    /// The ids of the tokens in the block, those past `num_tokens` are queued or meaningless.
    pub(super) tokens: [u32; BLOCK_TOKENS],
    /// Of a cached block: its index in its sequences, and the hash by which it is found.
    pub(super) index: u32,
    pub(super) hash: u32,
    /// Sequences whose tables hold the block, and pins; 0 while nobody does.
    pub(super) ref_count: u32,
    /// How many of these are pins.
    pub(super) pins: u32,
    /// How many of these are sequences that [`KvCache::make_room`](super::KvCache::make_room) considers closing. While
    /// nobody holds the block: what [`Chosen`](super::chosen::Chosen) keeps of it.
    pub(super) marked: u32,
    /// Committed tokens, at most [`BLOCK_TOKENS`].
    pub(super) num_tokens: u32,
    /// 1 once the block is finalized, because it is full or shared.
    pub(super) finalized: u32,
    /// 1 where a row of it was imported, so that it may not be what the model computes.
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

    /// Returns how many of these are pins.
    pub fn pins(&self) -> u32 {
        self.pins
    }

    /// Whether its tokens are a cached prefix, which other sequences can reuse.
    pub fn is_cached(&self) -> bool {
        self.serial != 0
    }

    /// Returns which block of its sequences it is, where its tokens are a cached prefix: it begins at position 16 times
    /// that.
    pub fn index(&self) -> Option<usize> {
        self.is_cached().then_some(self.index as usize)
    }

    /// Returns the number of committed tokens, at most [`BLOCK_TOKENS`]: their keys and values are complete.
    pub fn num_tokens(&self) -> usize {
        self.num_tokens as usize
    }

    /// Whether the block is finalized, because it is full or shared: it is copied before anything is written to it.
    pub fn finalized(&self) -> bool {
        self.finalized != 0
    }

    /// Returns the ids of its tokens; the first [`BlockMeta::num_tokens`] are committed.
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
        /// Blocks that are needed.
        needed: usize,
        /// Blocks that are available.
        free: usize,
    },
    /// No such block, or a free one where one in use is meant, or the other way round.
    InvalidBlock {
        /// The number given.
        block: BlockId,
    },
    /// The block is full or shared: it cannot be written to.
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
            Self::AlreadyFinalized { block } => write!(f, "block {block} is finalized: it cannot be written to"),
        }
    }
}

impl core::error::Error for AllocError {}
