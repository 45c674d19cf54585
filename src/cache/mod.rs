//! The KV cache: fixed-capacity pools of blocks, block tables, copy-on-write forks.
//!
//! A **block** holds the keys and values of 16 tokens for all layers of a layer group and all KV heads,
//! so a sequence has one [`BlockTable`] per group, and fork, rewind and free touch only metadata. The
//! kinds `off`, `basic` and `paged` differ in a [`CachePolicy`]; the bits that attention reads are the same.
//!
//! Programs use the cache through an [`Engine`](crate::Engine): the guide has examples of [forks](crate::guide#a-crowd) and of
//! [snapshots](crate::guide#save-and-load).

mod basic;
mod block;
mod bytes;
mod check;
mod error;
mod geometry;
mod group;
mod kind;
mod kv_cache;
mod list;
mod off;
mod paged;
mod policy;
mod pool;
mod prefix;
mod reuse;
mod room;
mod snapshot;
mod stats;

pub use crate::kernels::KvElement;
pub use basic::BasicKvCache;
pub use block::{AllocError, BLOCK_TOKENS, BlockAllocator, BlockId, BlockMeta};
pub use error::CacheError;
pub use geometry::{KvGeometry, LayerGroups, MAX_GROUPS};
pub use group::BlockTable;
pub use kind::{KvKind, KvType, UnknownName};
pub use kv_cache::{IMPORTED_TOKEN, KvCache, LayerSource, SeqId};
pub(crate) use kv_cache::{KvRow, WRITTEN_ROWS};
pub use off::NoKvCache;
pub use paged::PagedKvCache;
pub use policy::CachePolicy;
pub use snapshot::{Sink, SnapshotError, SnapshotHeader, SnapshotOptions, Source};
pub(crate) use snapshot::{from_slice, into_slice};
pub use stats::{CacheStats, PoolStats, PrefixStats, SequenceBlocks, SequenceStats};

pub use crate::kernels::{Visibility, Window};

/// The policy of a kind.
pub fn policy(kind: KvKind) -> &'static dyn CachePolicy {
    match kind {
        KvKind::Off => &NoKvCache,
        KvKind::Basic => &BasicKvCache,
        KvKind::Paged => &PagedKvCache,
    }
}
