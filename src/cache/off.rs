//! No cache: keys and values live in the pool only while a step runs, and every step computes them anew.

use super::allocator::BlockAllocator;
use super::block::{AllocError, BlockId};
use super::kind::KvKind;
use super::policy::CachePolicy;

/// The naive loop. Every step rewrites the blocks from position 0, so none of them may be shared.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default)]
pub struct NoKvCache;

impl CachePolicy for NoKvCache {
    fn kind(&self) -> KvKind {
        KvKind::Off
    }

    fn shares(&self) -> bool {
        false
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
