//! Grids of dispatches. The self-test and a model's program use the same.

use crate::catalog::{AtOnce, Kernel};
use crate::params::{Linear, mode};

/// Smallest number of rows for which a matrix is multiplied by tiles.
pub(crate) const TILE_ROWS: usize = 17;
/// Rows of a tile.
const TILE: usize = 64;
/// Largest number of rows for which a workgroup reads quantized weights once.
pub(crate) const FEW_ROWS: usize = 8;

/// Returns a grid of one workgroup per row.
pub(crate) fn by_row(rows: usize) -> [u32; 3] {
    [rows as u32, 1, 1]
}

/// Returns a grid of one workgroup per row and head.
pub(crate) fn by_head(rows: usize, heads: usize) -> [u32; 3] {
    [rows as u32, heads as u32, 1]
}

/// Queries of a group in attention for many rows.
const QUERIES: usize = 4;

/// Returns whether workgroups of attention for many rows have as many queries as possible. Rows of different sequences
/// would wait for each other in such a workgroup.
pub(crate) fn is_wide(rows: usize, sequences: usize) -> bool {
    rows >= 64 && rows >= 16 * sequences
}

/// Returns a grid of one workgroup for one, two or four groups of four queries that share a KV head, as
/// `attend_many.wgsl` has them.
pub(crate) fn by_queries(rows: usize, [heads, kv_heads]: [usize; 2], at_once: AtOnce) -> [u32; 3] {
    let groups = at_once.count() / QUERIES;
    let sharing = heads / kv_heads.max(1);
    let rows_at_once = if sharing < 3 { QUERIES / sharing.max(1) } else { 1 };
    let parts = sharing.div_ceil(QUERIES / rows_at_once);
    [rows.div_ceil(groups * rows_at_once) as u32, (kv_heads * parts) as u32, 1]
}

/// Columns of a workgroup that quantizes.
pub(crate) const QUANTIZED: usize = 1024;

/// Positions of a chunk of attention.
pub(crate) const CHUNK: usize = 256;
/// Largest number of rows of a batch for which chunks of attention are added up in parallel. With more rows there is
/// enough to do anyway.
pub(crate) const PARALLEL_ROWS: usize = 8;

/// Returns a grid of one workgroup per row and head, and one more for each chunk of a row and head.
pub(crate) fn by_chunk(rows: usize, heads: usize, chunks: usize) -> [u32; 3] {
    [rows as u32, heads as u32, 1 + chunks as u32]
}

/// Channels of a workgroup of a convolution.
pub(crate) const CHANNELS: usize = 64;

/// Returns a grid of `groups` workgroups for each run.
pub(crate) fn by_run(runs: usize, groups: usize) -> [u32; 3] {
    [groups as u32, runs as u32, 1]
}

/// Returns the grid of a kernel that multiplies a matrix: workgroups by outputs and by rows.
pub(crate) fn linear(kernel: Kernel, params: &Linear, rows: usize) -> [u32; 3] {
    let outputs = if params.mode == mode::GATE {
        params.segments[0].outputs.div_ceil(kernel.slots() / 2)
    } else {
        params.segments.iter().map(|segment| segment.outputs).sum::<u32>().div_ceil(kernel.slots())
    };
    let rows = match kernel {
        Kernel::Tile(_) => rows.div_ceil(TILE),
        Kernel::Vector(weights) | Kernel::Raw(weights) | Kernel::Narrow(weights)
            if params.experts.used == 0 && !weights.is_float() =>
        {
            rows.div_ceil(FEW_ROWS)
        }
        _ => rows * (params.experts.used as usize).max(1),
    };
    [outputs, rows as u32, 1]
}
