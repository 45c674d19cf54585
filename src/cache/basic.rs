//! The basic cache: one contiguous run of blocks per sequence, reserved from the start.

use super::allocator::BlockAllocator;
use super::block::{AllocError, BlockId};
use super::kind::KvKind;
use super::policy::CachePolicy;

/// Block `index` of sequence `slot` is block `slot * run + index` of the pool: the identity table. Nothing
/// is shared, so a sequence can always grow to the full context, and a fork copies.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default)]
pub struct BasicKvCache;

impl CachePolicy for BasicKvCache {
    fn kind(&self) -> KvKind {
        KvKind::Basic
    }

    fn shares(&self) -> bool {
        false
    }

    fn place(
        &self,
        allocator: &mut BlockAllocator<'_>,
        slot: usize,
        index: usize,
        run: usize,
    ) -> Result<BlockId, AllocError> {
        let block = slot.checked_mul(run).and_then(|start| start.checked_add(index));
        let block = block.and_then(|block| BlockId::try_from(block).ok());
        allocator.allocate_at(block.ok_or(AllocError::InvalidBlock { block: BlockId::MAX })?)
    }
}
