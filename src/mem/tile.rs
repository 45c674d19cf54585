//! A matrix cut into tiles that workers take one at a time.
//!
//! With this, safe code can fill one output from several threads. [`Tiles::next`] hands out every tile at most once,
//! however many callers there are and however often they call, and no two tiles share an element.
#![allow(unsafe_code)]

use core::array;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;

use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// An exclusive view of `rows` rows of `cols` elements, `stride` elements apart.
///
/// [Example](crate::mem#example).
#[derive(Debug)]
pub struct Matrix<'a, T> {
    data: &'a mut [T],
    /// Number of the first row.
    first: usize,
    rows: usize,
    cols: usize,
    stride: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// Returns the matrix `[rows, cols]` at the start of `data`, rows one after the other, or `None` if `data` is
    /// shorter.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize) -> Option<Self> {
        Self::with_stride(data, rows, cols, cols)
    }

    /// Returns the matrix `[rows, cols]` at the start of `data`, with rows that start `stride >= cols` elements apart,
    /// or `None` if `data` is shorter.
    pub fn with_stride(data: &'a mut [T], rows: usize, cols: usize, stride: usize) -> Option<Self> {
        let needed = rows.checked_sub(1).map_or(Some(0), |others| others.checked_mul(stride)?.checked_add(cols))?;
        (cols <= stride && needed <= data.len()).then_some(Self { data, first: 0, rows, cols, stride })
    }

    /// Splits the matrix into its first `rows` rows and the other rows. Rows keep their numbers. Returns `None` if the
    /// matrix has fewer rows.
    pub fn split_rows(self, rows: usize) -> Option<(Self, Self)> {
        let Self { data, first, cols, stride, .. } = self;
        let rest = self.rows.checked_sub(rows)?;
        let (head, tail) = data.split_at_mut_checked(rows.checked_mul(stride)?.min(data.len()))?;
        let tail = Self { data: tail, first: first + rows, rows: rest, cols, stride };
        Some((Self { data: head, first, rows, cols, stride }, tail))
    }

    /// Returns the matrix as one tile per row, or `None` if the rows are empty.
    pub fn by_row(self) -> Option<Tiles<'a, T>> {
        let (rows, cols) = (self.rows, self.cols);
        self.tiles(1, cols, 0..rows)
    }

    /// Cuts the matrix into tiles of `tile_rows` by `tile_cols`. Tiles at the edges may be smaller. Tiles are numbered
    /// from top to bottom first: with several rows of tiles, tiles 0 and 1 hold the same columns. [`Tiles::next`] hands
    /// out the tiles with the numbers in `take`.
    ///
    /// Returns `None` if a tile would be empty.
    pub fn tiles(self, tile_rows: usize, tile_cols: usize, take: Range<usize>) -> Option<Tiles<'a, T>> {
        if tile_rows == 0 || tile_cols == 0 {
            return None;
        }
        let down = self.rows.div_ceil(tile_rows);
        let count = down.checked_mul(self.cols.div_ceil(tile_cols))?;
        Some(Tiles {
            data: self.data.as_mut_ptr(),
            first: self.first,
            rows: self.rows,
            cols: self.cols,
            stride: self.stride,
            tile_rows,
            tile_cols,
            down,
            next: AtomicUsize::new(take.start),
            end: take.end.min(count),
            lifetime: PhantomData,
        })
    }
}

/// The tiles of a [`Matrix`], handed out one by one.
///
/// The counter lies in cache lines of its own, so that it does not slow down the counters of other tiles.
///
/// [Example](crate::mem#example).
#[repr(align(128))]
pub struct Tiles<'a, T> {
    data: *mut T,
    first: usize,
    rows: usize,
    cols: usize,
    stride: usize,
    tile_rows: usize,
    tile_cols: usize,
    /// Number of tiles per column of tiles.
    down: usize,
    next: AtomicUsize,
    end: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

// SAFETY: sharing a `Tiles` lets other threads call `next`, which moves exclusive references to elements to them (hence
// T: Send) and hands out each tile once: `fetch_add` returns every index once, and different indices are different
// rectangles of the matrix.
unsafe impl<T: Send> Sync for Tiles<'_, T> {}

// SAFETY: it is an exclusive borrow of elements of type T: Send, like the slice that it was made from.
unsafe impl<T: Send> Send for Tiles<'_, T> {}

impl<'a, T> Tiles<'a, T> {
    /// Returns the number of tiles that have not been handed out.
    pub fn remaining(&self) -> usize {
        self.end.saturating_sub(self.next.load(Ordering::Relaxed))
    }

    /// Splits the tiles into the tiles before tile `index` and the tiles from it on.
    pub fn split_at(self, index: usize) -> (Self, Self) {
        let next = self.next.into_inner();
        let at = index.clamp(next, self.end.max(next));
        let (first, second) = (AtomicUsize::new(next), AtomicUsize::new(at));
        (Self { next: first, end: at.min(self.end), ..self }, Self { next: second, ..self })
    }

    /// Returns the next tile, or `None` if all have been handed out.
    pub fn next(&self) -> Option<Tile<'a, T>> {
        // The load keeps the counter from wrapping round, however often callers ask after the end.
        if self.next.load(Ordering::Relaxed) >= self.end {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        // `fetch_add` returns each index once, so each tile is handed out once.
        if index < self.end { self.tile(index) } else { None }
    }

    /// Returns the tile with this number. The caller must hand out each number at most once.
    fn tile(&self, index: usize) -> Option<Tile<'a, T>> {
        if index >= self.end || self.down == 0 {
            return None;
        }
        let row = (index % self.down) * self.tile_rows;
        let col = (index / self.down) * self.tile_cols;
        Some(Tile {
            // In bounds: index < end <= the number of tiles, so row < rows and col < cols.
            data: self.data.wrapping_add(row * self.stride + col),
            row: self.first + row,
            col,
            rows: self.tile_rows.min(self.rows - row),
            cols: self.tile_cols.min(self.cols - col),
            stride: self.stride,
            index,
            lifetime: PhantomData,
        })
    }
}

impl<T> fmt::Debug for Tiles<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tiles([{}, {}] by [{}, {}])", self.rows, self.cols, self.tile_rows, self.tile_cols)
    }
}

/// Number of tiles that can be claimed. Tiles with this index and larger ones cannot.
const MAX_CLAIMS: usize = 4096;

/// The tiles of a [`Matrix`], handed out by their numbers, for code that fills two matrices at the same time, tile by
/// tile.
#[derive(Debug)]
pub(crate) struct Claims<'a, T> {
    tiles: Tiles<'a, T>,
    /// One bit for each tile, set when the tile is handed out.
    taken: [AtomicU32; MAX_CLAIMS / 32],
}

impl<'a, T> Claims<'a, T> {
    /// Returns claims on all tiles that [`Tiles::next`] would hand out.
    pub(crate) fn new(tiles: Tiles<'a, T>) -> Self {
        Self { tiles, taken: array::from_fn(|_| AtomicU32::new(0)) }
    }

    /// Returns tile `index` the first time that it is asked for. Returns `None` after that, and if there is no such
    /// tile.
    pub(crate) fn take(&self, index: usize) -> Option<Tile<'a, T>> {
        let (word, bit) = (self.taken.get(index / 32)?, 1 << (index % 32));
        let first = word.fetch_or(bit, Ordering::Relaxed) & bit == 0;
        // Each bit is set once, so each tile is handed out once. The counter of the tiles does not move: tiles before
        // it are handed out elsewhere.
        if first && index >= self.tiles.next.load(Ordering::Relaxed) { self.tiles.tile(index) } else { None }
    }
}

/// An exclusive view of a rectangle of a [`Matrix`].
///
/// [Example](crate::mem#example).
pub struct Tile<'a, T> {
    data: *mut T,
    row: usize,
    col: usize,
    rows: usize,
    cols: usize,
    stride: usize,
    index: usize,
    lifetime: PhantomData<&'a mut [T]>,
}

impl<T> Tile<'_, T> {
    /// Returns the number of the tile.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the rows of the matrix that the tile covers.
    pub fn rows(&self) -> Range<usize> {
        self.row..self.row + self.rows
    }

    /// Returns the columns of the matrix that the tile covers.
    pub fn cols(&self) -> Range<usize> {
        self.col..self.col + self.cols
    }

    /// Returns the address of the first row's element in column `col` of the tile, and the number of bytes from one row
    /// to the next.
    pub(crate) fn address(&self, col: usize) -> (usize, usize) {
        (self.data.wrapping_add(col).addr(), self.stride.wrapping_mul(size_of::<T>()))
    }

    /// Returns the elements of row `row` of the matrix that are in the tile, or `None` outside of [`Tile::rows`].
    #[inline]
    pub fn row_mut(&mut self, row: usize) -> Option<&mut [T]> {
        let row = row.checked_sub(self.row)?;
        if row >= self.rows {
            return None;
        }
        // SAFETY: `Tiles::next` or `Claims::take` made the tile from an exclusive borrow of a slice that holds the
        // matrix up to the end of its last row, or `rows_mut` made it from rows of such a tile, which stays borrowed.
        // The elements of this row lie within that slice. No other tile that can be used has them, and `&mut self`
        // keeps this tile from handing them out twice.
        Some(unsafe { core::slice::from_raw_parts_mut(self.data.wrapping_add(row * self.stride), self.cols) })
    }
}

impl<T> Tile<'_, T> {
    /// Returns some rows of the tile as a tile, or `None` if the tile does not have all of them.
    pub fn rows_mut(&mut self, rows: Range<usize>) -> Option<Tile<'_, T>> {
        let first = rows.start.checked_sub(self.row)?;
        if rows.start > rows.end || rows.end > self.rows().end {
            return None;
        }
        let data = self.data.wrapping_add(first * self.stride);
        Some(Tile { data, row: rows.start, rows: rows.len(), lifetime: PhantomData, ..*self })
    }
}

impl<T> fmt::Debug for Tile<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tile({}: rows {:?}, cols {:?})", self.index, self.rows(), self.cols())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_in_one_tile() {
        for (rows, cols, stride, tile_rows, tile_cols) in
            [(1, 1, 1, 1, 1), (5, 7, 9, 2, 3), (4, 8, 8, 4, 8), (3, 10, 10, 5, 4), (0, 4, 4, 2, 2), (4, 0, 3, 2, 2)]
        {
            let mut data = vec![0u32; rows * stride];
            let tiles = Matrix::with_stride(&mut data, rows, cols, stride).unwrap();
            let tiles = tiles.tiles(tile_rows, tile_cols, 0..usize::MAX).unwrap();
            let mut count = 0;
            std::thread::scope(|scope| {
                let fill = || {
                    while let Some(mut tile) = tiles.next() {
                        for row in tile.rows() {
                            for value in tile.row_mut(row).unwrap() {
                                *value += 1;
                            }
                        }
                    }
                };
                let other = scope.spawn(fill);
                fill();
                other.join().unwrap();
            });
            for row in 0..rows {
                for col in 0..stride {
                    assert_eq!(data[row * stride + col], u32::from(col < cols));
                    count += u32::from(col < cols);
                }
            }
            assert_eq!(count as usize, rows * cols);
        }
    }

    #[test]
    fn parts_share_nothing_and_leave_nothing_out() {
        for (rows, cols, stride, at_row, at_tile) in
            [(5, 7, 9, 2, 3), (4, 8, 8, 0, 0), (4, 8, 8, 4, 99), (1, 9, 9, 1, 2), (9, 3, 3, 8, 1)]
        {
            let mut data = vec![0u32; rows * stride];
            let (head, tail) = Matrix::with_stride(&mut data, rows, cols, stride).unwrap().split_rows(at_row).unwrap();
            for part in [head, tail] {
                let (a, b) = part.tiles(2, 3, 0..usize::MAX).unwrap().split_at(at_tile);
                assert!(b.remaining() == 0 || a.remaining() == at_tile);
                for tiles in [a, b] {
                    while let Some(mut tile) = tiles.next() {
                        let (rows, cols) = (tile.rows(), tile.cols());
                        for row in rows {
                            for (value, col) in tile.row_mut(row).unwrap().iter_mut().zip(cols.clone()) {
                                *value += (1 + row * stride + col) as u32;
                            }
                        }
                    }
                }
            }
            for (index, &value) in data.iter().enumerate() {
                assert_eq!(value as usize, if index % stride < cols { 1 + index } else { 0 });
            }
            assert!(Matrix::new(&mut data, rows, stride).unwrap().split_rows(rows + 1).is_none());
        }
        let mut data = vec![0u32; 8];
        // Tiles that were handed out before the split stay handed out. Ranges that begin past the end are empty.
        let tiles = Matrix::new(&mut data, 1, 8).unwrap().tiles(1, 1, 2..7).unwrap();
        let _ = tiles.next();
        let (a, b) = tiles.split_at(1);
        assert_eq!((a.remaining(), b.remaining()), (0, 4));
        let (a, b) = Matrix::new(&mut data, 1, 8).unwrap().tiles(1, 1, 20..30).unwrap().split_at(9);
        assert!(a.next().is_none() && b.next().is_none());
    }

    #[test]
    fn a_tile_is_claimed_once() {
        let mut data = vec![0u32; 3 * 10 - 4];
        let tiles = Matrix::with_stride(&mut data, 3, 6, 10).unwrap().tiles(3, 2, 0..9).unwrap();
        let claims = Claims::new(tiles);
        std::thread::scope(|scope| {
            let fill = || {
                for index in 0..4 {
                    let Some(mut tile) = claims.take(index) else { continue };
                    tile.rows().for_each(|row| tile.row_mut(row).unwrap().iter_mut().for_each(|x| *x += 1));
                }
            };
            scope.spawn(fill);
            fill();
        });
        assert!(claims.take(0).is_none() && claims.take(usize::MAX).is_none());
        // Each half of split tiles has only its own tiles.
        let mut halved = vec![0u32; 8];
        let (first, second) = Matrix::new(&mut halved, 1, 8).unwrap().tiles(1, 1, 0..8).unwrap().split_at(4);
        let (first, second) = (Claims::new(first), Claims::new(second));
        assert!((0..8).all(|index| first.take(index).is_some() != second.take(index).is_some()));
        assert!(data.iter().enumerate().all(|(index, &x)| x == u32::from(index % 10 < 6)));
    }

    #[test]
    fn rows_of_a_tile_are_a_tile() {
        let mut data: Vec<u32> = (0..20).collect();
        let tiles = Matrix::new(&mut data, 4, 5).unwrap().tiles(3, 2, 0..9).unwrap();
        let mut tile = tiles.next().unwrap();
        let mut part = tile.rows_mut(1..3).unwrap();
        assert_eq!((part.rows(), part.cols()), (1..3, 0..2));
        part.row_mut(2).unwrap().fill(99);
        assert!(part.row_mut(0).is_none() && part.row_mut(3).is_none());
        assert!(tile.rows_mut(3..3).unwrap().row_mut(3).is_none());
        // The range goes backwards on purpose.
        let backwards = Range { start: 2, end: 1 };
        assert!(tile.rows_mut(2..4).is_none() && tile.rows_mut(backwards).is_none());
        assert_eq!(tile.row_mut(2), Some(&mut [99, 99][..]));
        let _ = tiles.next();
        let mut last = tiles.next().unwrap();
        assert!(last.rows_mut(0..3).is_some());
    }

    #[test]
    fn a_range_of_tiles_is_respected() {
        let mut data = vec![0u32; 12];
        let tiles = Matrix::new(&mut data, 3, 4).unwrap().tiles(2, 2, 1..3).unwrap();
        let seen: Vec<_> = core::iter::from_fn(|| tiles.next()).map(|t| (t.index(), t.rows(), t.cols())).collect();
        assert_eq!(seen, [(1, 2..3, 0..2), (2, 0..2, 2..4)]);
        assert!(Matrix::new(&mut data, 3, 5).is_none());
        assert!(Matrix::new(&mut data, 3, 4).unwrap().tiles(0, 1, 0..9).is_none());
    }
}
