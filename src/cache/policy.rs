//! The differences between the kinds of cache: where blocks come from, and whether forks share them.

use super::allocator::BlockAllocator;
use super::block::{AllocError, BlockId};
use super::kind::KvKind;

/// A way of placing the blocks of sequences in a pool.
///
/// A new policy is a file with an implementation, a value of [`KvKind`] and its row in [`policy`](super::policy).
///
/// [Example](crate::cache#example).
pub trait CachePolicy: Sync + core::fmt::Debug {
    /// Returns the kind that this policy implements.
    fn kind(&self) -> KvKind;

    /// Returns whether a fork shares the blocks of its parent. If not, it copies them.
    fn shares(&self) -> bool;

    /// Takes a block from the pool for index `index` of the sequence in `slot`. Every sequence has at most `run`
    /// blocks.
    ///
    /// # Errors
    /// As [`BlockAllocator::allocate`] and [`BlockAllocator::allocate_at`].
    fn place(
        &self,
        allocator: &mut BlockAllocator<'_>,
        slot: usize,
        index: usize,
        run: usize,
    ) -> Result<BlockId, AllocError>;
}
