//! A dispatch with its buffers: which kernel runs, on which grid.

use std::collections::BTreeMap;

use crate::catalog::Kernel;
use crate::error::GpuError;
use crate::gpu::Gpu;
use crate::grid::{self, TILE_ROWS};
use crate::hardware::{Buffer, Run};
use crate::params::SLOT;
use crate::place::{Batches, Dispatch, Place, Shaped, rows_number};

/// A dispatch with its buffers.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) step: usize,
    pub(super) rows: usize,
    few: (Kernel, Run),
    /// The kernel for many rows, if it is another one.
    many: Option<(Kernel, Run)>,
    /// The kernel for many rows of few sequences, if it is another one.
    wide: Option<(Kernel, Run)>,
    pub(super) shaped: Shaped,
    batches: Batches,
}

impl Bound {
    /// Binds a dispatch to its kernels.
    pub(super) fn new(
        gpu: &Gpu,
        buffers: &BTreeMap<Place, Buffer>,
        index: usize,
        dispatch: &Dispatch,
    ) -> Result<Self, GpuError> {
        let of = |place: Place| buffers.get(&place).ok_or(GpuError::Mismatch(place.name()));
        let own = dispatch.buffers.iter().map(|&place| of(place)).collect::<Result<Vec<_>, _>>()?;
        let params = (of(Place::Params)?, (index * SLOT) as u64, SLOT as u64);
        let bound = |kernel| Ok((kernel, gpu.hardware.bind(gpu.catalog.get(kernel)?, params, &own)?));
        Ok(Self {
            step: dispatch.step,
            rows: rows_number(dispatch.rows) as usize,
            few: bound(dispatch.kernel)?,
            many: dispatch.for_many().map(bound).transpose()?,
            wide: dispatch.for_wide().map(bound).transpose()?,
            shaped: dispatch.shaped,
            batches: dispatch.batches,
        })
    }

    /// Returns the kernel for `rows` rows. `is_wide` says whether they are of few sequences.
    pub(super) fn chosen(&self, rows: usize, is_wide: bool) -> &(Kernel, Run) {
        if rows < TILE_ROWS {
            return &self.few;
        }
        let wide = self.wide.as_ref().filter(|_| is_wide);
        wide.or(self.many.as_ref()).unwrap_or(&self.few)
    }

    /// Returns what to run and its grid, for `rows` rows of `sequences` sequences, where a head has `chunks` ready
    /// chunks. Returns `None` where nothing is to run.
    pub(super) fn of(&self, rows: usize, chunks: usize, sequences: usize, is_wide: bool) -> Option<(&Run, [u32; 3])> {
        if rows == 0 || !self.batches.has(rows) {
            return None;
        }
        let (kernel, run) = self.chosen(rows, is_wide);
        let grid = match &self.shaped {
            Shaped::ByRow => grid::by_row(rows),
            Shaped::ByParts(parts) => grid::by_row(rows * parts),
            Shaped::ByHead(heads) => grid::by_head(rows, *heads),
            &Shaped::Attention([heads, kv_heads, _]) => match *kernel {
                Kernel::AttendMany(at_once) => grid::by_queries(rows, [heads, kv_heads], at_once),
                _ => grid::by_head(rows, heads),
            },
            Shaped::ByChunk(heads) => grid::by_chunk(rows, *heads, chunks),
            Shaped::ByRun(groups) => grid::by_run(sequences, *groups),
            Shaped::Matrix(params) | Shaped::Experts(params) => grid::linear(*kernel, params, rows),
        };
        Some((run, grid))
    }
}
