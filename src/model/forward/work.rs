//! The units of a stage that are to be done now.

use core::ops::Range;

use super::buffers::Scratch;
use super::{Batch, Cursor, Grid};
use crate::error::Fault;
use crate::mem::Matrix;
use crate::par::{Parallel, TileBody, Watch, for_each_tile};

/// Fills a row, given its index, with a worker's scratch.
pub(super) type RowBody<'b, T> = dyn Fn(usize, &mut [T], &mut [f32]) -> Result<(), Fault> + Sync + 'b;

/// The units of a stage that are to be done now.
pub(super) struct Work<'w> {
    pub(super) cursor: Cursor,
    pub(super) take: Range<usize>,
    pub(super) grid: Grid,
    pub(super) batch: Batch<'w>,
    pub(super) parallel: &'w dyn Parallel,
    pub(super) watch: &'w Watch<'w>,
}

impl Work<'_> {
    /// Workers that take tiles at the same time.
    pub(super) fn workers(&self, scratch: &Scratch<'_>) -> usize {
        self.parallel.slots().min(scratch.workers)
    }

    /// Fills the rows of `out` that are due: `body(index, row, scratch)`.
    pub(super) fn each_row<T: Send>(
        &self,
        out: &mut [T],
        scratch: &mut Scratch<'_>,
        body: &RowBody<'_, T>,
    ) -> Result<usize, Fault> {
        self.each_tile(out, scratch, &|tile, scratch| {
            tile.rows().try_for_each(|row| body(row, tile.row_mut(row).ok_or(Fault::Internal)?, scratch))
        })
    }

    /// Fills the tiles of `out` that are due, several at once where there are workers: how many are left.
    pub(super) fn each_tile<T: Send>(
        &self,
        out: &mut [T],
        scratch: &mut Scratch<'_>,
        body: &TileBody<'_, T>,
    ) -> Result<usize, Fault> {
        let Grid { rows, cols, tile_rows, tile_cols, .. } = self.grid;
        let tiles = Matrix::new(out, rows, cols).and_then(|out| out.tiles(tile_rows, tile_cols, self.take.clone()));
        let scratch = Matrix::new(scratch.data, scratch.workers, scratch.len);
        let scratch = scratch.and_then(|scratch| scratch.by_row());
        let (tiles, scratch) = (tiles.ok_or(Fault::Internal)?, scratch.ok_or(Fault::Internal)?);
        for_each_tile(self.parallel, &tiles, &scratch, self.watch, body)
    }
}
