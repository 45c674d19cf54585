//! Keys and values, as those who write, keep and read them agree on: element types, tiles, blocks, and what is visible.
//!
//! The kernels of attention store and read tiles, the cache keeps them in blocks, and a model says what its layers see.

mod block;
mod element;
mod groups;
mod kv_type;
mod tile;
mod window;

pub use block::{BLOCK_TOKENS, CHUNK, TILE_TOKENS};
pub use element::KvElement;
pub(crate) use element::SCALED;
pub use groups::{LayerGroups, MAX_GROUPS};
pub use kv_type::{KvType, UnknownName};
pub use tile::{Elements, ElementsMut, KvSource, KvTile, KvTileMut};
pub(crate) use window::VisibleTiles;
pub use window::{Positions, Visibility, Window};
