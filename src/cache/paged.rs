//! The paged cache: blocks are handed out on demand and shared by forks until somebody writes to them.

use super::allocator::BlockAllocator;
use super::block::{AllocError, BlockId};
use super::kind::KvKind;
use super::policy::CachePolicy;

/// Any free block serves any sequence; forks share blocks copy-on-write.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default)]
pub struct PagedKvCache;

impl CachePolicy for PagedKvCache {
    fn kind(&self) -> KvKind {
        KvKind::Paged
    }

    fn shares(&self) -> bool {
        true
    }

    fn place(
        &self,
        allocator: &mut BlockAllocator<'_>,
        _slot: usize,
        _index: usize,
        _run: usize,
    ) -> Result<BlockId, AllocError> {
        allocator.allocate()
    }
}
