//! Exact numbers about a cache: what each pool and each sequence holds.

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
    /// Blocks that nobody holds but whose contents are a cached prefix: they are evicted when no other is free.
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

/// The places for states of recurrent layers; all 0 where the model has none.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotStats {
    /// Places that there are.
    pub total: usize,
    /// Places whose state is a sequence's, a checkpoint's, or that of a batch to come.
    pub used: usize,
    /// The largest number of used places since the cache was made, or since
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
    /// Calls that found anything.
    pub hits: u64,
    /// Tokens that they found: their keys and values were not computed again.
    pub hit_tokens: u64,
    /// Tokens that were asked for and not found.
    pub missed_tokens: u64,
}

/// A cache in numbers.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Open sequences.
    pub sequences: usize,
    /// The pool of each layer group; those that the model does not have are all 0.
    pub pools: [PoolStats; MAX_GROUPS],
    /// The places for states.
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

/// A sequence in numbers.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceStats {
    /// Committed tokens.
    pub tokens: usize,
    /// Its blocks in each layer group, reserved ones included.
    pub blocks: [SequenceBlocks; MAX_GROUPS],
    /// Bytes of the own blocks' keys and values.
    pub own_bytes: usize,
    /// Bytes of the shared ones'.
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
