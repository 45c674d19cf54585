//! The tiles, as they are in the library.

#[path = "../../../src/mem/tile.rs"]
mod tile;

pub use tile::*;
