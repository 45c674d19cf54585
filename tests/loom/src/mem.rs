//! The library's tiles.

#[path = "../../../src/mem/tile.rs"]
mod tile;

pub use tile::*;
