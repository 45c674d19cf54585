//! Memory of the caller: an arena that is measured and carved by the same code, and matrices whose tiles several
//! workers fill at the same time.
//!
//! # Example
//!
//! One function describes the contents of the memory, for measuring and for carving. Then two threads fill a matrix
//! there:
//!
//! ```
//! use gleed::mem::{Arena, Matrix, MemoryError};
//!
//! /// Memory that is aligned as Gleed wants it.
//! #[repr(align(64))]
//! struct Aligned([u8; 1024]);
//!
//! /// Places for 6 rows of 4 logits, and for 100 tokens.
//! fn carve<'a>(arena: &mut Arena<'a>) -> Result<(&'a mut [f32], &'a mut [u32]), MemoryError> {
//!     Ok((arena.slice("logits", 6 * 4)?, arena.slice("tokens", 100)?))
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut measuring = Arena::measuring();
//! carve(&mut measuring)?;
//! assert_eq!(measuring.used(), 128 + 448);
//!
//! let mut memory = Aligned([0; 1024]);
//! let mut arena = Arena::new(&mut memory.0)?;
//! let (logits, tokens) = carve(&mut arena)?;
//! assert_eq!((logits.len(), tokens.len(), arena.sections()[1].offset), (24, 100, 128));
//!
//! // Each tile of two rows is handed out once, to whoever asks first.
//! let tiles = Matrix::new(&mut *logits, 6, 4).and_then(|logits| logits.tiles(2, 4, 0..3)).ok_or("too small")?;
//! let work = || {
//!     while let Some(mut tile) = tiles.next() {
//!         tile.rows().for_each(|row| tile.row_mut(row).unwrap().fill(row as f32));
//!     }
//! };
//! std::thread::scope(|scope| (0..2).for_each(|_| drop(scope.spawn(work))));
//! assert_eq!((logits[0], logits[11], logits[23]), (0.0, 2.0, 5.0));
//! # Ok(())
//! # }
//! ```

mod arena;
mod tile;

pub use arena::{ALIGN, Arena, MemoryError, Section};
pub(crate) use tile::Claims;
pub use tile::{Matrix, Tile, Tiles};

/// Returns row `row` of the matrix `[rows, width]` in `data`, or `None` if the matrix has fewer rows.
pub(crate) fn row_of<T>(data: &[T], row: usize, width: usize) -> Option<&[T]> {
    let start = row.checked_mul(width)?;
    data.get(start..start.checked_add(width)?)
}
