//! The units of an operation that are to be done now.

use core::ops::Range;

use super::buffers::Scratch;
use super::{Batch, Grid};
use crate::error::Fault;
use crate::mem::{Matrix, Tiles};
use crate::par::{Parallel, TileBody, Watch, for_each_tile};

/// Fills a row: `(index of the row, the row, scratch of the worker)`.
pub(super) type RowBody<'b, T> = dyn Fn(usize, &mut [T], &mut [f32]) -> Result<(), Fault> + Sync + 'b;

/// The units of an operation that are to be done now.
pub(crate) struct Work<'w> {
    pub(crate) layer: usize,
    pub(crate) take: Range<usize>,
    pub(crate) grid: Grid,
    pub(crate) batch: Batch<'w>,
    pub(crate) parallel: &'w dyn Parallel,
    pub(crate) watch: &'w Watch<'w>,
}

/// The lanes into which an operation's tiles are cut. Each lane is for some of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lanes {
    /// All workers take the tiles in order, so that a step can end after any of them.
    One,
    /// Lanes of successive tiles, so that each worker reads weights in order.
    Tiles(usize),
    /// Lanes of successive rows, so that a worker reads in the next operation what it has computed itself.
    Rows(usize),
}

impl Lanes {
    const MAX: usize = 8;
    /// Smallest number of rows of a lane for which it pays to unpack all weights once more.
    const ROWS: usize = 96;

    fn count(self) -> usize {
        match self {
            Self::One => 1,
            Self::Tiles(count) | Self::Rows(count) => count,
        }
    }
}

impl Work<'_> {
    /// Returns the number of workers that take turns in a lane.
    pub(super) fn workers(&self, scratch: &Scratch<'_>) -> usize {
        self.slots(scratch).div_ceil(self.lanes(scratch).count().max(1))
    }

    /// Returns the number of workers that take tiles at the same time.
    pub(super) fn slots(&self, scratch: &Scratch<'_>) -> usize {
        self.parallel.slots().min(scratch.workers)
    }

    fn lanes(&self, scratch: &Scratch<'_>) -> Lanes {
        let slots = self.slots(scratch).min(Lanes::MAX);
        // If the step can end early, the units that are done must be the first ones.
        if slots < 2 || self.take.len() < 2 || !self.watch.is_unlimited() || self.take != (0..self.grid.tiles()) {
            return Lanes::One;
        }
        match (self.grid.rows / Lanes::ROWS).min(slots) {
            0 | 1 => Lanes::Tiles(slots),
            lanes => Lanes::Rows(lanes),
        }
    }

    /// Fills the rows of `out` that are due: `body(index, row, scratch)`.
    pub(super) fn each_row<T: Send>(
        &self,
        out: &mut [T],
        scratch: &mut Scratch<'_>,
        body: &RowBody<'_, T>,
    ) -> Result<usize, Fault> {
        self.each_tile(out, scratch, &|tile, scratch| {
            tile.rows().try_for_each(|row| body(row, tile.row_mut(row).ok_or(Fault::Internal(site!()))?, scratch))
        })
    }

    /// Fills the tiles of `out` that are due, several at the same time if there are workers. Returns the number of
    /// tiles that are left.
    pub(super) fn each_tile<T: Send>(
        &self,
        out: &mut [T],
        scratch: &mut Scratch<'_>,
        body: &TileBody<'_, T>,
    ) -> Result<usize, Fault> {
        let out = Matrix::new(out, self.grid.rows, self.grid.cols).ok_or(Fault::Internal(site!()))?;
        self.each_tile_in(self.lanes(scratch), out, scratch, body)
    }

    /// Does the same as [`Work::each_tile`] for an `out` that is a part of the columns of a matrix. Each tile has all
    /// rows.
    pub(super) fn each_column<T: Send>(
        &self,
        out: Matrix<'_, T>,
        scratch: &mut Scratch<'_>,
        body: &TileBody<'_, T>,
    ) -> Result<usize, Fault> {
        let lanes = match self.lanes(scratch) {
            Lanes::Rows(count) => Lanes::Tiles(count),
            other => other,
        };
        self.each_tile_in(lanes, out, scratch, body)
    }

    fn each_tile_in<T: Send>(
        &self,
        lanes: Lanes,
        out: Matrix<'_, T>,
        scratch: &mut Scratch<'_>,
        body: &TileBody<'_, T>,
    ) -> Result<usize, Fault> {
        let scratch = scratch.by_worker()?;
        let mut cut = heapless::Vec::new();
        self.cut(out, lanes, &mut cut).ok_or(Fault::Internal(site!()))?;
        for_each_tile(self.parallel, &cut, &scratch, self.watch, body)
    }

    /// Cuts the tiles of a matrix that are due into lanes.
    fn cut<'o, T>(
        &self,
        mut matrix: Matrix<'o, T>,
        lanes: Lanes,
        to: &mut heapless::Vec<Tiles<'o, T>, { Lanes::MAX }>,
    ) -> Option<()> {
        let Grid { rows, tile_rows, tile_cols, .. } = self.grid;
        let count = lanes.count();
        if let Lanes::Rows(_) = lanes {
            for lane in 1..count {
                let (head, tail) = matrix.split_rows(rows * lane / count - rows * (lane - 1) / count)?;
                to.push(head.tiles(tile_rows, tile_cols, self.take.clone())?).ok()?;
                matrix = tail;
            }
        }
        let mut tiles = matrix.tiles(tile_rows, tile_cols, self.take.clone())?;
        let total = tiles.remaining();
        for lane in 1 + to.len()..count {
            let (head, tail) = tiles.split_at(total * lane / count);
            to.push(head).ok()?;
            tiles = tail;
        }
        to.push(tiles).ok()
    }
}
