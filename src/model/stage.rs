//! The forward pass as a program: stages, one after the other, each a grid of units of work.

use crate::kernels::OUTPUTS;

/// A step of the forward pass. All its units are done before the next stage begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Token embeddings into the residual stream.
    Embed,
    /// Cosines and sines of every row's position, for all layers.
    Rotations,
    /// Norm, in the forms that Q, K and V want.
    AttentionInput,
    Qkv,
    /// Per-head norms and rotation of Q and K.
    Rotate,
    /// K and V into the cache, where attention reads them.
    Store,
    Attend,
    /// Attention's result in the form that the output matrix wants.
    OutputInput,
    /// Output matrix, added to the residual stream.
    AttentionOutput,
    /// Norm, in the forms that gate and up want.
    FfnInput,
    /// silu(gate) * up.
    GateUp,
    /// In the form that the down matrix wants.
    DownInput,
    /// Down matrix, added to the residual stream.
    Down,
    /// Final norm of the rows whose logits are wanted.
    HeadInput,
    Head,
}

/// Where the program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) stage: Stage,
    pub(crate) layer: usize,
}

impl Cursor {
    pub(crate) const START: Self = Self { stage: Stage::Embed, layer: 0 };

    /// Whether all keys and values of the batch are in the cache.
    pub(crate) fn is_after_last_store(self, layers: usize) -> bool {
        let after = match self.stage {
            Stage::Embed | Stage::Rotations => false,
            Stage::AttentionInput | Stage::Qkv | Stage::Rotate | Stage::Store => false,
            Stage::Attend | Stage::OutputInput | Stage::AttentionOutput => true,
            Stage::FfnInput | Stage::GateUp | Stage::DownInput | Stage::Down => true,
            Stage::HeadInput | Stage::Head => true,
        };
        after && self.layer + 1 >= layers
    }

    /// The next stage; `None` at the end. Where no logits are wanted the last layer ends with its keys and
    /// values.
    pub(crate) fn next(self, layers: usize, logits: bool) -> Option<Self> {
        let layer = self.layer;
        let last = layer + 1 >= layers;
        let stage = match self.stage {
            Stage::Embed => Stage::Rotations,
            Stage::Rotations => Stage::AttentionInput,
            Stage::AttentionInput => Stage::Qkv,
            Stage::Qkv => Stage::Rotate,
            Stage::Rotate => Stage::Store,
            Stage::Store if last && !logits => return None,
            Stage::Store => Stage::Attend,
            Stage::Attend => Stage::OutputInput,
            Stage::OutputInput => Stage::AttentionOutput,
            Stage::AttentionOutput => Stage::FfnInput,
            Stage::FfnInput => Stage::GateUp,
            Stage::GateUp => Stage::DownInput,
            Stage::DownInput => Stage::Down,
            Stage::Down if last => Stage::HeadInput,
            Stage::Down => return Some(Self { stage: Stage::AttentionInput, layer: layer + 1 }),
            Stage::HeadInput => Stage::Head,
            Stage::Head => return None,
        };
        Some(Self { stage, layer })
    }
}

/// A stage's output `[rows, cols]` and the tiles it is cut into; a tile is a unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) tile_rows: usize,
    pub(crate) tile_cols: usize,
}

impl Grid {
    /// Multiplications that a unit of a linear layer has at least, about, where it can have them.
    const UNIT: usize = 1 << 16;
    /// Rows of a batch in a unit: enough to make unpacking the weights cheap, few enough for a bounded unit.
    pub(crate) const MAX_TILE_ROWS: usize = 256;

    /// Whole rows, a few in a unit: one alone is done faster than workers take turns.
    pub(crate) fn by_row(rows: usize, cols: usize) -> Self {
        Self { rows, cols, tile_rows: 4, tile_cols: cols.max(1) }
    }

    /// Units for a linear layer with `inputs` inputs. They depend on the shape alone, so a budget in units
    /// means the same on every machine.
    pub(crate) fn linear(rows: usize, outputs: usize, inputs: usize) -> Self {
        let tile_rows = rows.clamp(1, Self::MAX_TILE_ROWS);
        let fitting = (Self::UNIT / tile_rows).checked_div(inputs).unwrap_or(0);
        let tile_cols = (fitting / OUTPUTS * OUTPUTS).max(OUTPUTS);
        Self { rows, cols: outputs, tile_rows, tile_cols }
    }

    /// The number of units.
    pub(crate) fn units(&self) -> usize {
        self.rows.div_ceil(self.tile_rows.max(1)) * self.cols.div_ceil(self.tile_cols.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_runs_every_stage_once() {
        let mut cursor = Some(Cursor::START);
        let mut stages = [0; 15];
        while let Some(at) = cursor {
            stages[at.stage as usize] += 1;
            cursor = at.next(3, true);
        }
        assert_eq!(stages, [1, 1, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1, 1]);
        assert_eq!(Cursor { stage: Stage::Store, layer: 2 }.next(3, false), None);
        assert!(Cursor { stage: Stage::Store, layer: 1 }.next(3, false).is_some());
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
