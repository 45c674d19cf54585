//! The common part of the operations of recurrent layers: units of some columns of all sequences, in passes over the
//! rows.

use core::ops::Range;

use super::buffers::Scratch;
use super::{Context, Grid, Work};
use crate::cache::{KvCache, StateTile, StateTiles};
use crate::device::{MixerColumns, TAIL_CHANNELS, UpdateRule, UpdateView};
use crate::error::Fault;
use crate::kernels::Level;
use crate::mem::{Matrix, Tile};
use crate::num::settled_of;
use crate::weights::{Recurrent, Role};

/// Number of channels of a convolution in a unit.
pub(super) const CHANNELS: usize = TAIL_CHANNELS;

/// Returns the number of f32 elements of scratch that the operations need.
pub(super) fn scratch_len(recurrent: &Recurrent) -> usize {
    // A kernel with its biases, or a key, a query and a value.
    let kernel = recurrent.kernel.saturating_add(1).saturating_mul(CHANNELS);
    kernel.max(recurrent.key_dim.saturating_mul(2).saturating_add(recurrent.value_dim))
}

/// Returns the number of a head in a tensor that has one number for each head, settled.
pub(super) fn number(context: &Context<'_, '_>, layer: usize, role: Role, head: usize) -> Option<f32> {
    let (numbers, _) = context.weights.tensor(layer, role)?.bytes().as_chunks::<4>();
    numbers.get(head).map(|&number| settled_of(number))
}

/// Returns the view of the update of a layer's matrices, for a device.
pub(super) fn update_view<'m>(
    context: &Context<'m, '_>,
    layer: usize,
    rule: UpdateRule<'m>,
    columns: MixerColumns,
) -> Option<UpdateView<'m>> {
    let Recurrent { heads, groups, key_dim, value_dim, layers, .. } = context.config.recurrent;
    let [decay, bias] = [Role::Decay, Role::StepBias].map(|role| context.weights.tensor(layer, role));
    let (decay, bias, layer) = (decay?.bytes(), bias?.bytes(), layers.before(layer));
    Some(UpdateView { rule, heads, groups, key_dim, value_dim, columns, decay, bias, layer })
}

/// Fetches parts of a row of the mixer's input, `(start, len)` each, while the row before it is computed. Rows lie so
/// far apart that the processor does not fetch them ahead by itself.
pub(super) fn fetch(level: Level, row: Option<&[f32]>, parts: &[(usize, usize)]) {
    let Some(row) = row else { return };
    for &(start, len) in parts {
        level.fetch(row.get(start..).and_then(|row| row.get(..len)).unwrap_or_default());
    }
}

/// The work of a unit: `(columns of the result, their states, the rows that are due, scratch)`. The rows are numbers
/// for [`Batch::pieces`](super::Batch::pieces).
pub(super) type UnitBody<'b> =
    dyn Fn(&mut Tile<'_, f32>, &mut StateTile<'_>, Range<usize>, &mut [f32]) -> Result<(), Fault> + Sync + 'b;

/// A part of the state of each layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Rows that the convolution reads again later.
    Tails,
    /// Matrices of the heads.
    Matrices,
}

impl Part {
    /// Returns the number of elements that a unit changes for each row.
    pub(super) fn elements(self, recurrent: &Recurrent) -> usize {
        match self {
            Self::Tails => recurrent.kernel.saturating_mul(CHANNELS),
            Self::Matrices => recurrent.matrix_elements(),
        }
    }

    /// Returns the number of columns of a unit.
    fn columns(self, recurrent: &Recurrent) -> usize {
        match self {
            Self::Tails => CHANNELS,
            Self::Matrices => recurrent.value_dim,
        }
    }

    /// Returns the units of an operation that changes this part for `cols` columns.
    pub(super) fn grid(self, recurrent: &Recurrent, rows: usize, cols: usize) -> Grid {
        let passes = rows.div_ceil(rows_per_pass(self.elements(recurrent))).max(1);
        Grid { rows, cols, tile_rows: rows.max(1), tile_cols: self.columns(recurrent).max(1), passes }
    }

    fn states<'c>(self, recurrent: &Recurrent, cache: &'c mut KvCache<'_>, layer: usize) -> Option<StateTiles<'c>> {
        match self {
            Self::Tails => cache.tails(layer, CHANNELS, recurrent.kernel),
            Self::Matrices => cache.matrices(layer),
        }
    }
}

/// Returns the number of rows of a unit, which bounds its work.
fn rows_per_pass(elements: usize) -> usize {
    const ELEMENTS: usize = 1 << 20;
    ELEMENTS.checked_div(elements).unwrap_or(ELEMENTS).clamp(1, Grid::MAX_TILE_ROWS)
}

impl Work<'_> {
    /// Runs the units that are due of an operation whose grid is [`Part::grid`]. The result is the first columns of the
    /// matrix `[rows, width]` in `out`.
    pub(super) fn each_unit(
        &self,
        recurrent: &Recurrent,
        part: Part,
        (out, width): (&mut [f32], usize),
        scratch: &mut Scratch<'_>,
        cache: &mut KvCache<'_>,
        body: &UnitBody<'_>,
    ) -> Result<usize, Fault> {
        let (tiles, Range { mut start, end }) = (self.grid.tiles(), self.take.clone());
        let (per_pass, layer) = (rows_per_pass(part.elements(recurrent)), recurrent.layers.before(self.layer));
        while start < end {
            let pass = start.checked_div(tiles).ok_or(Fault::Internal(site!()))?;
            let next = end.min((pass + 1) * tiles);
            let due = pass * per_pass..(pass + 1) * per_pass;
            let work = Work { take: start - pass * tiles..next - pass * tiles, ..*self };
            let states = part.states(recurrent, cache, layer).ok_or(Fault::Internal(site!()))?;
            let out = Matrix::with_stride(out, self.grid.rows, self.grid.cols, width);
            let left = work.each_column(out.ok_or(Fault::Internal(site!()))?, scratch, &|tile, scratch| {
                let mut state = states.take(tile.index()).ok_or(Fault::Internal(site!()))?;
                body(tile, &mut state, due.clone(), scratch)
            })?;
            if left > 0 {
                return Ok(end - next + left);
            }
            start = next;
        }
        Ok(0)
    }
}
