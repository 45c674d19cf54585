//! The statistics of a cache: exact numbers about each pool and each sequence.

use crate::kv::MAX_GROUPS;

/// The blocks of one layer group's pool. `total = used + reclaimable + free`.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Blocks in the pool.
    pub total: usize,
    /// Blocks that a sequence or a pin holds.
    pub used: usize,
    /// Blocks that nobody holds but whose contents are a cached prefix. They are evicted when no block is free.
    pub reclaimable: usize,
    /// Blocks that hold nothing.
    pub free: usize,
    /// Blocks among the used ones that have a pin.
    pub pinned: usize,
    /// The largest number of used blocks since the cache was made, or since
    /// [`Engine::reset_metrics`](crate::Engine::reset_metrics).
    pub high_water: usize,
    /// Bytes of keys and values of a block.
    pub block_bytes: usize,
}

/// The slots for states of recurrent layers. All numbers are 0 if the model has no such layers.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotStats {
    /// Slots in all.
    pub total: usize,
    /// Slots whose state belongs to a sequence, a checkpoint, or a batch to come.
    pub used: usize,
    /// The largest number of used slots since the cache was made, or since
    /// [`Engine::reset_metrics`](crate::Engine::reset_metrics).
    pub high_water: usize,
}

/// How much the cached prefixes have saved.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefixStats {
    /// Calls of [`KvCache::reuse`](super::KvCache::reuse).
    pub lookups: u64,
    /// Calls that found any tokens.
    pub hits: u64,
    /// Tokens that these calls found: their keys and values were not computed again.
    pub hit_tokens: u64,
    /// Tokens that were asked for and not found.
    pub missed_tokens: u64,
}

/// The statistics of a cache.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Open sequences.
    pub sequences: usize,
    /// The pool of each layer group. All numbers are 0 for a group that the model does not have.
    pub pools: [PoolStats; MAX_GROUPS],
    /// The slots for states.
    pub slots: SlotStats,
    /// The cached prefixes.
    pub prefix: PrefixStats,
}

/// Blocks that a sequence holds in a layer group.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceBlocks {
    /// Blocks that nobody else holds: closing the sequence makes exactly these available.
    pub own: usize,
    /// Blocks that another sequence or a pin holds, too.
    pub shared: usize,
}

/// The statistics of a sequence.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceStats {
    /// Committed tokens.
    pub tokens: usize,
    /// Blocks of the sequence in each layer group, reserved ones included.
    pub blocks: [SequenceBlocks; MAX_GROUPS],
    /// Bytes of the keys and values of own blocks.
    pub own_bytes: usize,
    /// Bytes of the keys and values of shared blocks.
    pub shared_bytes: usize,
}

impl SequenceStats {
    /// Returns the number of blocks of all layer groups.
    pub fn total(&self) -> SequenceBlocks {
        self.blocks.iter().fold(SequenceBlocks::default(), |sum, blocks| SequenceBlocks {
            own: sum.own.saturating_add(blocks.own),
            shared: sum.shared.saturating_add(blocks.shared),
        })
    }
}
