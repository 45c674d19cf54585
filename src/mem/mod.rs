//! Memory of the caller: an arena that is measured and carved by the same walk, and matrices whose
//! tiles several workers fill at once.

mod arena;
mod tile;

pub use arena::{ALIGN, Arena, MemoryError, Section};
pub use tile::{Matrix, Tile, Tiles};

/// Returns row `row` of the matrix `[rows, width]` in `data`, or `None` if the matrix has fewer rows.
pub(crate) fn row_of(data: &[f32], row: usize, width: usize) -> Option<&[f32]> {
    let start = row.checked_mul(width)?;
    data.get(start..start.checked_add(width)?)
}
