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
    /// Norms and rotation of Q and K.
    Rotate,
    /// K and V into the cache, where attention reads them.
    Store,
    Attend,
    /// Attention's result in the form that the output matrix wants.
    OutputInput,
    /// Output matrix: added to the residual stream, or a branch of its own where a norm follows.
    AttentionOutput,
    /// Norm of the branch, added to the residual stream.
    AddAttention,
    /// Norm, in the forms that gate and up want.
    FfnInput,
    /// The logits of experts.
    Route,
    /// Which experts each row goes through.
    Choose,
    /// activation(gate) * up, or activation(up); of each expert that a row goes through.
    GateUp,
    /// In the form that the down matrix wants.
    DownInput,
    /// Down matrix: as [`Stage::AttentionOutput`].
    Down,
    /// As [`Stage::AddAttention`].
    AddFfn,
    /// Final norm of the rows whose logits are wanted.
    HeadInput,
    Head,
}

/// Which stages a model has, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) layers: usize,
    /// Whether anything is rotated.
    pub(crate) rotary: bool,
    /// Whether attention and the feed-forward layer read the same residual stream.
    pub(crate) parallel: bool,
    /// Whether branches end with a norm.
    pub(crate) norm_after: bool,
    /// Whether there are several feed-forward layers to choose from.
    pub(crate) experts: bool,
}

/// How far rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// Some go through all layers.
    pub(crate) finish: bool,
    /// Some of these have logits.
    pub(crate) logits: bool,
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
        use Stage::{AttentionInput, Embed, Qkv, Rotate, Rotations, Store};
        let before = matches!(self.stage, Embed | Rotations | AttentionInput | Qkv | Rotate | Store);
        !before && self.layer + 1 >= layers
    }

    /// The next stage; `None` at the end. Where nothing but keys and values is wanted the last layer ends with these.
    pub(crate) fn next(self, program: &Program, ends: Ends) -> Option<Self> {
        let Program { layers, rotary, parallel, norm_after, experts } = *program;
        let layer = self.layer;
        let last = layer + 1 >= layers;
        let stage = match self.stage {
            Stage::Embed if rotary => Stage::Rotations,
            Stage::Embed | Stage::Rotations => Stage::AttentionInput,
            Stage::AttentionInput => Stage::Qkv,
            Stage::Qkv => Stage::Rotate,
            Stage::Rotate => Stage::Store,
            Stage::Store if last && !ends.finish => return None,
            Stage::Store => Stage::Attend,
            // The first half of the feed-forward layer, before anything is added to what it reads.
            Stage::Attend if parallel => Stage::FfnInput,
            Stage::Attend => Stage::OutputInput,
            Stage::OutputInput => Stage::AttentionOutput,
            Stage::AttentionOutput if norm_after => Stage::AddAttention,
            Stage::AttentionOutput | Stage::AddAttention if parallel => Stage::DownInput,
            Stage::AttentionOutput | Stage::AddAttention => Stage::FfnInput,
            Stage::FfnInput if experts => Stage::Route,
            Stage::Route => Stage::Choose,
            Stage::FfnInput | Stage::Choose => Stage::GateUp,
            Stage::GateUp if parallel => Stage::OutputInput,
            Stage::GateUp => Stage::DownInput,
            Stage::DownInput => Stage::Down,
            Stage::Down if norm_after => Stage::AddFfn,
            Stage::Down | Stage::AddFfn if last && !ends.logits => return None,
            Stage::Down | Stage::AddFfn if last => Stage::HeadInput,
            Stage::Down | Stage::AddFfn => return Some(Self { stage: Stage::AttentionInput, layer: layer + 1 }),
            Stage::HeadInput => Stage::Head,
            Stage::Head => return None,
        };
        Some(Self { stage, layer })
    }
}

/// A stage's output `[rows, cols]` and the tiles it is cut into; a tile is a unit of work, or a few of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) tile_rows: usize,
    pub(crate) tile_cols: usize,
    /// How often all tiles are gone through: each time they go on where they ended.
    pub(crate) passes: usize,
}

impl Grid {
    /// Multiplications that a unit of a linear layer has at least, about, where it can have them.
    const UNIT: usize = 1 << 16;
    /// Rows of a batch in a unit: enough to make unpacking the weights cheap, few enough for a bounded unit.
    pub(crate) const MAX_TILE_ROWS: usize = 256;

    /// Whole rows, a few in a unit: one alone is done faster than workers take turns.
    pub(crate) fn by_row(rows: usize, cols: usize) -> Self {
        Self { rows, cols, tile_rows: 4, tile_cols: cols.max(1), passes: 1 }
    }

    /// Units for a linear layer with `inputs` inputs. They depend on the shape alone, so a budget in units
    /// means the same on every machine.
    pub(crate) fn linear(rows: usize, outputs: usize, inputs: usize) -> Self {
        let tile_rows = rows.clamp(1, Self::MAX_TILE_ROWS);
        let fitting = (Self::UNIT / tile_rows).checked_div(inputs).unwrap_or(0);
        let tile_cols = (fitting / OUTPUTS * OUTPUTS).max(OUTPUTS);
        Self { rows, cols: outputs, tile_rows, tile_cols, passes: 1 }
    }

    /// The number of units.
    pub(crate) fn units(&self) -> usize {
        self.tiles() * self.passes
    }

    /// The number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.rows.div_ceil(self.tile_rows.max(1)) * self.cols.div_ceil(self.tile_cols.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stages of a model of three layers, with logits.
    fn stages(program: &Program) -> Vec<Stage> {
        let next = |cursor: &Cursor| cursor.next(program, LOGITS);
        core::iter::successors(Some(Cursor::START), next).map(|cursor| cursor.stage).collect()
    }

    const LOGITS: Ends = Ends { finish: true, logits: true };
    const PLAIN: Program = Program { layers: 3, rotary: true, parallel: false, norm_after: false, experts: false };

    #[test]
    fn every_layer_runs_every_stage_once() {
        for bits in 0..16 {
            let [rotary, parallel, norm_after, experts] = core::array::from_fn(|bit| bits >> bit & 1 == 1);
            let program = Program { layers: 3, rotary, parallel, norm_after, experts };
            let stages = stages(&program);
            let count = |stage: Stage| stages.iter().filter(|&&other| other == stage).count();
            assert_eq!(count(Stage::Rotations), usize::from(rotary));
            assert_eq!([Stage::Embed, Stage::HeadInput, Stage::Head].map(count), [1; 3]);
            assert_eq!([Stage::AddAttention, Stage::AddFfn].map(count), [3 * usize::from(norm_after); 2]);
            assert_eq!([Stage::Route, Stage::Choose].map(count), [3 * usize::from(experts); 2]);
            let always = [Stage::AttentionInput, Stage::Qkv, Stage::Rotate, Stage::Store, Stage::Attend];
            assert_eq!(always.map(count), [3; 5]);
            let rest = [Stage::OutputInput, Stage::AttentionOutput, Stage::FfnInput, Stage::GateUp, Stage::Down];
            assert_eq!(rest.map(count), [3; 5]);
        }
        let after = |stage, layer, ends| Cursor { stage, layer }.next(&PLAIN, ends);
        let nothing = Ends { finish: false, logits: false };
        assert_eq!(after(Stage::Store, 2, nothing), None);
        assert!(after(Stage::Store, 1, nothing).is_some());
        assert_eq!(after(Stage::Down, 2, Ends { finish: true, logits: false }), None);
    }

    #[test]
    fn parallel_branches_read_before_anything_is_added() {
        let stages = stages(&Program { parallel: true, ..PLAIN });
        let place = |stage: Stage| stages.iter().position(|&other| other == stage).unwrap();
        assert!(place(Stage::FfnInput) < place(Stage::AttentionOutput));
        // The inputs of both share a buffer.
        assert!(place(Stage::GateUp) < place(Stage::OutputInput));
        assert!(place(Stage::AttentionOutput) < place(Stage::DownInput));
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
