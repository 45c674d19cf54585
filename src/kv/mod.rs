//! What the writers, keepers and readers of keys and values agree on: element types, tiles, blocks, visible positions.
//!
//! The kernels of attention store and read tiles, the cache keeps them in blocks, and a model says what its layers see.
//!
//! # Example
//!
//! The size of a token in a cache, the positions that a query sees, and an element of a tile. The
//! [kernels](crate::kernels#example) have an example of attention over a tile.
//!
//! ```
//! use gleed::kv::{Elements, ElementsMut, KvElement, KvShape, KvType, LayerGroups, TILE_TOKENS, Visibility, Window};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Keys in 8.5 bits and values in 4.5: bytes per token of a head of 64 elements.
//! let kv_type = KvType::from_name("q8_0/q4_0")?;
//! let tile = [kv_type.k.k_tile(64), kv_type.v.v_tile(64)].map(|bytes| bytes.unwrap_or(usize::MAX));
//! assert_eq!(tile.map(|bytes| bytes / TILE_TOKENS), [68, 36]);
//! assert!(KvType::from_name("q9").unwrap_err().to_string().contains("f16"));
//!
//! // A query at position 999 with 4 sinks and a window of 100.
//! let seen = Visibility::new(Window { sinks: 4, last: 100 }, 0).at(999);
//! assert!(seen.touch(0, 4) && !seen.touch(4, 900) && seen.touch(900, 1000));
//!
//! // Where every sixth layer sees more than the others, it is in a group of its own.
//! let groups = LayerGroups::alternating(6);
//! assert_eq!((groups.count(), groups.place(4), groups.place(5)), (2, (0, 4), (1, 0)));
//! // 4 heads of 64 elements in each of them.
//! assert_eq!(KvShape { heads: 4, head_dim: 64 }.width(), 256);
//!
//! // Keys are `[head_dim][16]`: element 2 of token 3.
//! let mut words = [0_u32; 64];
//! if let Some(ElementsMut::F32(keys)) = ElementsMut::new(KvElement::F32, &mut words) {
//!     keys[2 * TILE_TOKENS + 3] = 0.25;
//! }
//! let keys = Elements::new(KvElement::F32, &words).ok_or("not aligned")?;
//! assert_eq!(keys.element().key(keys.bytes(), 4, 2, 3), Some(0.25));
//! # Ok(())
//! # }
//! ```

mod block;
mod element;
mod groups;
mod kv_type;
mod layers;
mod tile;
mod window;

pub(crate) use block::table_entry;
pub use block::{BLOCK_TOKENS, CHUNK, TILE_TOKENS};
pub use element::KvElement;
pub(crate) use element::SCALED;
pub use groups::{KvShape, LayerGroups, MAX_GROUPS};
pub use kv_type::{KvType, UnknownName};
pub use layers::LayerSet;
pub(crate) use layers::MAX_LAYERS;
pub use tile::{Elements, ElementsMut, KvSource, KvTile, KvTileMut};
pub(crate) use window::VisibleTiles;
pub use window::{Positions, Visibility, Window};
