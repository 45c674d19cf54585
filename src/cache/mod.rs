//! The KV cache: fixed-capacity pools of blocks, block tables, copy-on-write forks.
//!
//! A **block** holds the keys and values of 16 tokens for all layers of a layer group and all KV heads,
//! so a sequence has one [`BlockTable`] per group, and fork, rewind and free touch only metadata. The
//! kinds `off`, `basic` and `paged` differ in a [`CachePolicy`]; the bits that attention reads are the same.
//!
//! Programs use the cache through an [`Engine`](crate::Engine): the guide has examples of [forks](crate::guide#a-crowd)
//! and of [snapshots](crate::guide#save-and-load).
//!
//! # Example
//!
//! A cache without an engine: rows go in, forks share them, and they come out as packed arrays.
//!
//! ```
//! use gleed::cache::{CacheError, KvCache, KvGeometry, KvKind, KvShape, KvType, LayerGroups, Visibility};
//! use gleed::{host::AlignedBytes, kernels::Level, mem::Arena};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // One layer with 2 KV heads of 4 elements; 8 blocks of 16 tokens for up to 4 sequences.
//! let (layers, sequences, context, blocks, rows) = (1, 4, 64, 8, 16);
//! let shapes = [KvShape { heads: 2, head_dim: 4 }; 2];
//! let (kind, element, groups, visibility) = (KvKind::Paged, KvType::F16, LayerGroups::ONE, [Visibility::ALL; 2]);
//! let (level, prefix_cache) = (Level::detect(), false);
//! let geometry = KvGeometry {
//!     kind, element, groups, visibility, level, prefix_cache,
//!     layers, shapes, sequences, context, blocks, rows,
//! };
//! let mut measuring = Arena::measuring();
//! KvCache::carve(&mut measuring, geometry)?;
//! let mut memory = AlignedBytes::new(measuring.used());
//! let mut cache = KvCache::carve(&mut Arena::new(memory.bytes())?, geometry)?;
//!
//! // Keys and values of 20 tokens, `[20, kv_heads * head_dim]`.
//! let keys: Vec<f32> = (0..20 * 8).map(|x| x as f32).collect();
//! let seq = cache.open()?;
//! cache.set_prefill(seq, 0, &keys, &[0.5; 20 * 8])?;
//!
//! // The fork goes on after 18 tokens. Its second block is copied before the row is written.
//! let fork = cache.fork(seq, 18)?;
//! cache.push_row(fork, 0, &[1.0; 8], &[2.0; 8])?;
//! cache.rewind(seq, 17)?;
//! assert_eq!((cache.seq_len(seq)?, cache.seq_len(fork)?), (17, 19));
//! let (mut k, mut v) = ([0.0; 19 * 8], [0.0; 19 * 8]);
//! cache.materialize(fork, 0, &mut k, &mut v)?;
//! assert_eq!((&k[..18 * 8], &k[18 * 8..]), (&keys[..18 * 8], &[1.0; 8][..]));
//! assert_eq!(cache.rewind(seq, 18), Err(CacheError::TooShort { keep: 18, length: 17 }));
//!
//! // The first block is in both sequences, and each has a second one.
//! let blocks = cache.sequence_stats(fork)?.total();
//! assert_eq!((blocks.shared, blocks.own, cache.stats().pools[0].used), (1, 1, 3));
//! # Ok(())
//! # }
//! ```
//!
//! Behind this, a sequence has a [`BlockTable`], a pool has a [`BlockAllocator`], and the kind of cache decides where
//! blocks come from. A snapshot goes through callbacks of the host.
//!
//! ```
//! use gleed::cache::{KvKind, SnapshotError, SnapshotOptions, policy};
//! # use gleed::cache::{KvCache, KvGeometry, KvShape, KvType, LayerGroups, Visibility};
//! # use gleed::{host::AlignedBytes, kernels::Level, mem::Arena};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let geometry = KvGeometry {
//! #     kind: KvKind::Paged, element: KvType::F16, level: Level::detect(), layers: 1, groups: LayerGroups::ONE,
//! #     shapes: [KvShape { heads: 2, head_dim: 4 }; 2], sequences: 4, context: 64, blocks: 8, visibility: [Visibility::ALL; 2], rows: 16,
//! #     prefix_cache: false,
//! # };
//! # let mut measuring = Arena::measuring();
//! # KvCache::carve(&mut measuring, geometry)?;
//! # let mut memory = AlignedBytes::new(measuring.used());
//! # let mut cache = KvCache::carve(&mut Arena::new(memory.bytes())?, geometry)?;
//! // As an engine does it: take blocks, write the rows of all layers, make them part of the sequence.
//! let seq = cache.open()?;
//! cache.reserve(seq, [7, 8, 9].into_iter())?;
//! for position in 0..3 {
//!     cache.write_row(seq, 0, position, &[1.0; 8], &[2.0; 8])?;
//! }
//! cache.commit(seq, 3)?;
//!
//! let (block, slot) = cache.block_table(seq, 0)?.locate(2).ok_or("no such position")?;
//! let meta = cache.allocator(0)?.meta(block).ok_or("no such block")?;
//! assert_eq!((slot, meta.ref_count(), &meta.tokens()[..3]), (2, 1, &[7, 8, 9][..]));
//! assert!(policy(KvKind::Paged).shares() && !policy(KvKind::Basic).shares());
//!
//! // 42 stands for the model, which has 100 tokens.
//! let mut saved = Vec::new();
//! cache.write_snapshot(seq, 42, &SnapshotOptions::default(), &mut |bytes| {
//!     saved.extend_from_slice(bytes);
//!     true
//! })?;
//! let mut file = &saved[..];
//! let (copy, header) = cache.read_snapshot(42, 100, None, &mut |out| std::io::Read::read(&mut file, out).ok())?;
//! assert_eq!((cache.token(copy, 2), header.tokens()), (Some(9), 3));
//!
//! // Another model does not get it.
//! let mut file = &saved[..];
//! let refused = cache.read_snapshot(43, 100, None, &mut |out| std::io::Read::read(&mut file, out).ok());
//! assert!(matches!(refused, Err(SnapshotError::Model { .. })));
//! # Ok(())
//! # }
//! ```
//!
//! # Policy
//!
//! A host can decide itself which sequence is closed, which block is evicted and which block is handed out:
//!
//! ```
//! use gleed::cache::{BlockChoice, BlockId, HostPolicy, IdleSequences, SeqId};
//!
//! /// Closes the shortest sequence first, and keeps the beginnings of prompts longest.
//! struct Beginnings;
//!
//! impl HostPolicy for Beginnings {
//!     fn close(&mut self, idle: &IdleSequences<'_, '_>) -> Option<SeqId> {
//!         idle.iter().min_by_key(|&seq| idle.stats(seq).map(|stats| stats.tokens))
//!     }
//!
//!     fn evict(&mut self, choice: &BlockChoice<'_>) -> BlockId {
//!         let last = choice.iter().max_by_key(|(_, meta)| meta.index());
//!         last.map_or(choice.default(), |(block, _)| block)
//!     }
//! }
//! ```

mod allocator;
mod basic;
mod block;
mod bytes;
mod check;
// Read by the operations of recurrent layers alone.
#[cfg_attr(not(feature = "recurrent"), allow(dead_code))]
mod checkpoint;
mod chosen;
mod error;
mod geometry;
mod group;
mod host_policy;
mod import;
mod kind;
mod kv_cache;
mod layer;
mod list;
mod off;
mod paged;
mod policy;
mod pool;
mod prefix;
mod remote;
mod reserve;
mod reuse;
mod room;
mod rows;
mod sequence;
mod snapshot;
// Read by the operations of recurrent layers alone.
#[cfg_attr(not(feature = "recurrent"), allow(dead_code))]
mod state;
mod state_geometry;
#[cfg_attr(not(feature = "recurrent"), allow(dead_code))]
mod state_tiles;
#[cfg_attr(not(feature = "recurrent"), allow(dead_code))]
mod states;
mod stats;
mod table;
mod writer;

pub use crate::kv::{
    BLOCK_TOKENS, KvElement, KvShape, KvType, LayerGroups, MAX_GROUPS, UnknownName, Visibility, Window,
};
pub use allocator::BlockAllocator;
pub use basic::BasicKvCache;
pub use block::{AllocError, BlockId, BlockMeta};
pub use error::CacheError;
pub use geometry::KvGeometry;
pub use host_policy::{BlockChoice, HostPolicy, IdleSequences};
pub use kind::KvKind;
pub use kv_cache::KvCache;
pub use layer::LayerSource;
pub use off::NoKvCache;
pub use paged::PagedKvCache;
pub use policy::CachePolicy;
pub use sequence::{IMPORTED_TOKEN, SeqId};
pub use snapshot::{Sink, SnapshotError, SnapshotHeader, SnapshotOptions, Source};
pub(crate) use snapshot::{from_slice, into_slice};
pub(crate) use state::Then;
pub(crate) use state_geometry::StateGeometry;
#[cfg(feature = "recurrent")]
pub(crate) use state_tiles::{StateTile, StateTiles};
pub use stats::{CacheStats, PoolStats, PrefixStats, SequenceBlocks, SequenceStats, SlotStats};
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
