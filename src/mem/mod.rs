//! Memory of the caller: an arena that is measured and carved by the same walk, and matrices whose
//! tiles several workers fill at once.

mod arena;
mod tile;

pub use arena::{ALIGN, Arena, MemoryError, Section};
pub use tile::{Matrix, Tile, Tiles};
