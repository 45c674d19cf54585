//! The operations of the forward pass on views and slices. They know shapes, never models.

mod attend;

pub use attend::{CHUNK, Elements, KvSource, KvTile, Queries, TILE_TOKENS, attend, attend_scratch};
