//! The units into which the work of an operation is cut.

use crate::kernels::OUTPUTS;

/// The result of an operation, `[rows, cols]`, and the tiles into which it is cut. A tile is one unit of work for each
/// pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) tile_rows: usize,
    pub(crate) tile_cols: usize,
    /// Number of passes over all tiles. In each pass, a tile's work continues where it ended in the pass before.
    pub(crate) passes: usize,
}

impl Grid {
    /// Number of multiplications of a unit of a linear layer, roughly, if the layer is large enough: some microseconds.
    const UNIT: usize = 1 << 18;
    /// Smallest number of units of a linear layer, if the layer is large enough, so that as many threads have work.
    const UNITS: usize = 16;
    /// Largest number of rows of a batch in a unit: enough to make the unpacking of weights cheap, and few enough to
    /// bound the unit.
    pub(crate) const MAX_TILE_ROWS: usize = 256;

    /// Returns units of a few whole rows. A single row takes less time than the exchange between workers.
    pub(crate) fn by_row(rows: usize, cols: usize) -> Self {
        Self { rows, cols, tile_rows: 4, tile_cols: cols.max(1), passes: 1 }
    }

    /// Returns units for a linear layer with `inputs` inputs. They depend on the shape alone, so a budget in units
    /// means the same on every machine.
    pub(crate) fn linear(rows: usize, outputs: usize, inputs: usize) -> Self {
        let tile_rows = rows.clamp(1, Self::MAX_TILE_ROWS);
        let fitting = (Self::UNIT / tile_rows).checked_div(inputs).unwrap_or(0).min(outputs / Self::UNITS);
        let tile_cols = (fitting / OUTPUTS * OUTPUTS).max(OUTPUTS);
        Self { rows, cols: outputs, tile_rows, tile_cols, passes: 1 }
    }

    /// Returns units for the experts of some rows: `pairs` pairs of a row and an expert, in the order of the experts.
    /// Tiles are so high that most rows of an expert are in one tile.
    #[cfg(feature = "experts")]
    pub(crate) fn experts(pairs: usize, experts: usize, outputs: usize, inputs: usize) -> Self {
        const SPREAD: usize = 4;
        let tile_rows = (SPREAD * pairs).checked_div(experts).unwrap_or(1).clamp(1, Self::MAX_TILE_ROWS);
        Self { rows: pairs, ..Self::linear(tile_rows.min(pairs.max(1)), outputs, inputs) }
    }

    /// Returns the number of units.
    pub(crate) fn units(&self) -> usize {
        self.tiles() * self.passes
    }

    /// Returns the number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.rows.div_ceil(self.tile_rows.max(1)) * self.cols.div_ceil(self.tile_cols.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Matrix;

    /// There are as many units as a matrix of this shape hands out tiles, and the tiles cover the matrix.
    #[test]
    fn units_are_counted_as_tiles_are_handed_out() {
        let mut data = vec![0_u8; 20 * 140];
        for (rows, cols) in (0..=20).flat_map(|rows| (0..=140).map(move |cols| (rows, cols))) {
            let linear = [1, 31, 1024, 4096, 70_000].map(|inputs| Grid::linear(rows, cols, inputs));
            for grid in linear.into_iter().chain([Grid::by_row(rows, cols)]) {
                let matrix = Matrix::new(&mut data, grid.rows, grid.cols).unwrap();
                let tiles = matrix.tiles(grid.tile_rows, grid.tile_cols, 0..usize::MAX).unwrap();
                assert_eq!((tiles.remaining(), grid.units()), (grid.tiles(), grid.tiles() * grid.passes), "{grid:?}");
                let areas = std::iter::from_fn(|| tiles.next()).map(|tile| tile.rows().len() * tile.cols().len());
                assert_eq!(areas.sum::<usize>(), rows * cols, "{grid:?}");
            }
        }
    }

    #[test]
    fn units_of_linear_layers_are_bounded() {
        for rows in [1, 2, 7, 64, 512] {
            for (outputs, inputs) in [(32, 64), (1024, 1024), (151_936, 1024), (1024, 3072), (64, 172), (5, 1)] {
                let grid = Grid::linear(rows, outputs, inputs);
                assert!(
                    grid.tile_rows * grid.tile_cols * inputs <= Grid::UNIT.max(Grid::MAX_TILE_ROWS * OUTPUTS * inputs)
                );
                assert!(grid.units() > 0);
            }
        }
    }
}
