//! The KV cache: fixed-capacity pools of blocks, block tables, copy-on-write forks.
//!
//! A **block** holds the keys and values of 16 tokens for all layers of a layer group and all KV heads,
//! so a sequence has one [`BlockTable`] per group, and fork, rewind and free touch only metadata. The
//! kinds `off`, `basic` and `paged` differ in a [`CachePolicy`]; the bits that attention reads are the same.
//!
//! Programs use the cache through an [`Engine`](crate::Engine): the guide has examples of [forks](crate::guide#a-crowd)
//! and of [snapshots](crate::guide#save-and-load).

mod allocator;
mod basic;
mod block;
mod bytes;
mod check;
mod error;
mod geometry;
mod group;
mod kind;
mod kv_cache;
mod layer;
mod list;
mod off;
mod paged;
mod policy;
mod pool;
mod prefix;
mod reserve;
mod reuse;
mod room;
mod rows;
mod sequence;
mod snapshot;
mod stats;
mod table;
mod writer;

pub use crate::kv::{BLOCK_TOKENS, KvElement, KvType, LayerGroups, MAX_GROUPS, UnknownName, Visibility, Window};
pub use allocator::BlockAllocator;
pub use basic::BasicKvCache;
pub use block::{AllocError, BlockId, BlockMeta};
pub use error::CacheError;
pub use geometry::KvGeometry;
pub use kind::KvKind;
pub use kv_cache::KvCache;
pub use layer::LayerSource;
pub use off::NoKvCache;
pub use paged::PagedKvCache;
pub use policy::CachePolicy;
pub use sequence::{IMPORTED_TOKEN, SeqId};
pub use snapshot::{Sink, SnapshotError, SnapshotHeader, SnapshotOptions, Source};
pub(crate) use snapshot::{from_slice, into_slice};
pub use stats::{CacheStats, PoolStats, PrefixStats, SequenceBlocks, SequenceStats};
pub use table::BlockTable;
pub(crate) use writer::{KvRow, WRITTEN_ROWS};

/// Returns the policy of a kind.
pub fn policy(kind: KvKind) -> &'static dyn CachePolicy {
    match kind {
        KvKind::Off => &NoKvCache,
        KvKind::Basic => &BasicKvCache,
        KvKind::Paged => &PagedKvCache,
    }
}
