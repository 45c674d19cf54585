//! Parameters of kernels, as they lie in the device's memory. The first word is the zero of the barrier.

mod recurrent;

use bytemuck::{Pod, Zeroable};
use gleed::device::Draws;

pub(crate) use recurrent::{Convolve, GroupNorm, Update};

/// No offset: there is no such vector.
pub(crate) const NONE: u32 = u32::MAX;
/// Bytes between the parameters of dispatches.
pub(crate) const SLOT: usize = 256;
/// Words of a batch before its rows.
pub(crate) const BATCH_HEAD: usize = 16;
/// The word of a batch that says whether chunks of attention are added up beside the store of keys and values.
pub(crate) const BATCH_PARALLEL: usize = 6;
/// Words of a row of a batch: its position, its token, where the tables of its sequence begin, and whether its keys and
/// values are there already.
pub(crate) const BATCH_ROW: usize = 5;
/// Words of a run of a batch, the rows of a sequence: the first one's place in the order of rows, their number, the
/// slots of the states that are read and written. The order and the runs follow the rows.
pub(crate) const BATCH_RUN: usize = 4;

/// `embed.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Embed {
    pub(crate) zero: u32,
    pub(crate) cols: u32,
    pub(crate) row_bytes: u32,
    pub(crate) at: u32,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) factor: u32,
    pub(crate) y_stride: u32,
    /// 1 where the rows are those of positions, and added; 2 where those of tokens are added, and the sums multiplied.
    pub(crate) adds: u32,
    pub(crate) of_sum: f32,
    /// The word at which rows begin.
    pub(crate) y_at: u32,
    pub(crate) unused: u32,
}

/// `input.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Input {
    pub(crate) zero: u32,
    pub(crate) n: u32,
    pub(crate) out_stride: u32,
    /// One of `norms`.
    pub(crate) norms: u32,
    pub(crate) weight: u32,
    pub(crate) form: u32,
    pub(crate) epsilon: f32,
    /// The word that says that a value is not finite.
    pub(crate) flag: u32,
    /// What is added before.
    pub(crate) branch: Branch,
    /// Words of a row of the largest magnitudes of attention's results and of feed-forward activations.
    pub(crate) largest: [u32; 2],
    pub(crate) bias: u32,
    /// The row of the first workgroup.
    pub(crate) first_row: u32,
    /// The word at which rows of what it becomes begin.
    pub(crate) out_at: u32,
    /// Another form that it takes, and 1; 0 for none. Where and how far apart its rows are.
    pub(crate) second_form: u32,
    pub(crate) second_stride: u32,
    pub(crate) second_at: u32,
}

/// How a row is normed; 0 for not.
pub(crate) mod norms {
    pub(crate) const RMS: u32 = 1;
    pub(crate) const LAYER: u32 = 2;
}

/// What is done to the branch and the residual stream before this is normed.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Branch {
    /// Of `adds`.
    pub(crate) adds: u32,
    /// One of `norms`, for the norm of the branch that is added.
    pub(crate) norms: u32,
    pub(crate) weight: u32,
    pub(crate) bias: u32,
    /// Of all norms of it.
    pub(crate) epsilon: f32,
    pub(crate) factor: u32,
    /// Experts of a row; where in the buffer of the branch the results of these begin, and their weights.
    pub(crate) used: u32,
    pub(crate) results: u32,
    pub(crate) expert_weights: u32,
    /// Where weights of norms are among the vectors: of the branch in its place, and of the sum of experts.
    pub(crate) renorm_weight: u32,
    pub(crate) experts_weight: u32,
    pub(crate) scale: f32,
}

/// What is done, in this order.
pub(crate) mod adds {
    /// The branch is normed in its place.
    pub(crate) const NORMS_BRANCH: u32 = 1;
    /// What experts gave is added to the residual stream.
    pub(crate) const EXPERTS: u32 = 2;
    /// Or to the branch.
    pub(crate) const TO_BRANCH: u32 = 4;
    /// The sum of experts is normed before.
    pub(crate) const NORMS_EXPERTS: u32 = 8;
    /// The norm of the branch is added to the residual stream.
    pub(crate) const NORM: u32 = 16;
    /// The residual stream is multiplied.
    pub(crate) const SCALES: u32 = 32;
}

/// The form of an input that is only the sum of a branch and the residual stream.
pub(crate) const NO_INPUT: u32 = 4;
/// The form of an input that takes the place of the residual stream.
pub(crate) const IN_PLACE: u32 = 5;

/// A matrix of `linear.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Segment {
    pub(crate) at: u32,
    pub(crate) outputs: u32,
    pub(crate) y_at: u32,
    pub(crate) bias: u32,
}

/// The matrices of some experts; all 0 for a matrix that every row goes through.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Experts {
    /// Experts of a row.
    pub(crate) used: u32,
    /// The first one whose matrix is there, and how many are.
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// Bytes and rows from one to the next.
    pub(crate) bytes: u32,
    pub(crate) rows: u32,
    /// Words of the largest magnitudes of one.
    pub(crate) largest: u32,
}

/// `linear.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Linear {
    pub(crate) zero: u32,
    pub(crate) cols: u32,
    pub(crate) x_stride: u32,
    pub(crate) y_stride: u32,
    pub(crate) mode: u32,
    pub(crate) activation: u32,
    pub(crate) count: u32,
    pub(crate) row_bytes: u32,
    pub(crate) factor: u32,
    pub(crate) cap: u32,
    pub(crate) flag: u32,
    /// 1 where the input is floats.
    pub(crate) raw: u32,
    /// Words of a row of the largest magnitudes.
    pub(crate) largest: u32,
    pub(crate) experts: Experts,
    /// Where the logits of a row each begin whose sigmoids activations are multiplied by, among the outputs; 0 for
    /// none.
    pub(crate) gates: u32,
    /// Where the numbers of xIELU are among the vectors.
    pub(crate) numbers: u32,
    /// Elements of a head where the first matrix has queries and gates in turns, and the column at which the gates are;
    /// 0 where it has not.
    pub(crate) split: u32,
    pub(crate) split_at: u32,
    /// Where among the outputs what activations of a row are multiplied by begins, 0 for nothing, and the words from
    /// one row to the next.
    pub(crate) times: u32,
    pub(crate) times_stride: u32,
    /// The word at which rows of the input begin.
    pub(crate) x_at: u32,
    /// Words from a logit of `gates` to that of the next row.
    pub(crate) gates_stride: u32,
    pub(crate) segments: [Segment; 4],
}

/// `quantize.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Quantize {
    pub(crate) zero: u32,
    pub(crate) cols: u32,
    pub(crate) out_stride: u32,
    /// Words of a row of the largest magnitudes, and how many of them a block has.
    pub(crate) largest: u32,
    pub(crate) parts: u32,
    pub(crate) flag: u32,
    pub(crate) unused: [u32; 2],
}

/// What becomes of the outputs of a matrix.
pub(crate) mod mode {
    pub(crate) const SET: u32 = 0;
    pub(crate) const ADD: u32 = 1;
    pub(crate) const GATE: u32 = 2;
    pub(crate) const LOGITS: u32 = 3;
    pub(crate) const ACTIVATE: u32 = 4;
}

/// `kv.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Shape {
    pub(crate) heads: u32,
    pub(crate) kv_heads: u32,
    pub(crate) dim: u32,
    pub(crate) qkv_stride: u32,
    pub(crate) layer: u32,
    pub(crate) layers: u32,
    pub(crate) group: u32,
    pub(crate) k_type: u32,
    pub(crate) v_type: u32,
    pub(crate) k_words: u32,
    pub(crate) v_words: u32,
    pub(crate) sinks: u32,
    pub(crate) ring: u32,
    pub(crate) unused: [u32; 3],
}

/// `store.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Store {
    pub(crate) zero: u32,
    pub(crate) q_norm: u32,
    pub(crate) k_norm: u32,
    pub(crate) turned: u32,
    pub(crate) halves: u32,
    pub(crate) rotation_stride: u32,
    pub(crate) rotation_at: u32,
    pub(crate) epsilon: f32,
    /// Of `head_norms`.
    pub(crate) norms: u32,
    pub(crate) flag: u32,
    /// The largest magnitude, 0 for any.
    pub(crate) clamp: u32,
    pub(crate) q_bias: u32,
    pub(crate) k_bias: u32,
    /// Where a row's angles have what queries are multiplied by at last.
    pub(crate) temperature: u32,
    pub(crate) unused: [u32; 2],
    pub(crate) shape: Shape,
    pub(crate) scores: Scores,
}

/// Which heads are normed, and how.
pub(crate) mod head_norms {
    pub(crate) const QUERIES: u32 = 1;
    pub(crate) const KEYS: u32 = 2;
    pub(crate) const AFTER_ROTATION: u32 = 4;
    /// All heads of queries are one row, and all of keys.
    pub(crate) const WHOLE_ROW: u32 = 8;
    /// Each head has weights of its own.
    pub(crate) const OWN_WEIGHTS: u32 = 16;
    /// By mean and standard deviation.
    pub(crate) const CENTERS: u32 = 32;
    /// Each head of values, without weights.
    pub(crate) const VALUES: u32 = 64;
    /// Values are the keys as they are before their norm.
    pub(crate) const KEYS_AS_VALUES: u32 = 128;
}

/// `chunk.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Scores {
    pub(crate) scale: u32,
    pub(crate) cap: u32,
    pub(crate) window: u32,
    pub(crate) sinks: u32,
    pub(crate) reach: u32,
    /// Where linear biases are among the vectors.
    pub(crate) slopes: u32,
    /// Where the buffer of heads has rotated queries, and sums of chunks.
    pub(crate) queries: u32,
    pub(crate) parts: u32,
    /// The most chunks that a head of a row has there.
    pub(crate) chunks: u32,
    pub(crate) unused: [u32; 3],
}

/// `attend.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Attend {
    pub(crate) zero: u32,
    pub(crate) out_stride: u32,
    pub(crate) largest: u32,
    /// Where the scores of sinks are among the vectors.
    pub(crate) sink_scores: u32,
    /// The column of the heads at which gates begin, 0 for none, and how many elements share one.
    pub(crate) gates: u32,
    pub(crate) gated: u32,
    pub(crate) unused: [u32; 2],
    pub(crate) shape: Shape,
    pub(crate) scores: Scores,
}

/// `route.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Route {
    pub(crate) zero: u32,
    pub(crate) experts: u32,
    pub(crate) used: u32,
    /// The number of `RouterScores`.
    pub(crate) scores: u32,
    pub(crate) normalized: u32,
    pub(crate) epsilon: f32,
    pub(crate) scale: f32,
    pub(crate) logit_scale: f32,
    pub(crate) biases: u32,
    pub(crate) scales: u32,
    pub(crate) weights: u32,
    pub(crate) flag: u32,
    /// Groups of experts, and how many of them are chosen first.
    pub(crate) groups: u32,
    pub(crate) groups_used: u32,
    /// Where the logits of a row begin, and the words from one row to the next.
    pub(crate) logits_at: u32,
    pub(crate) logits_stride: u32,
}

/// `choose.wgsl` and `draw.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Choose {
    pub(crate) zero: u32,
    pub(crate) n: u32,
    pub(crate) angles: u32,
    /// Where a batch has its runs.
    pub(crate) runs: u32,
}

/// How a token is drawn, in `draw.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Draw {
    pub(crate) temperature: f32,
    pub(crate) top_k: u32,
    /// A part of 2^32.
    pub(crate) top_p: u32,
    pub(crate) min_p: f32,
    pub(crate) state: [u32; 2],
    /// Of `steps`.
    pub(crate) steps: u32,
    pub(crate) unused: u32,
}

/// What leaves tokens out before one is drawn.
mod steps {
    pub(super) const TOP_K: u32 = 1;
    pub(super) const TOP_P: u32 = 2;
    pub(super) const MIN_P: u32 = 4;
}

impl Draw {
    /// That of so many tokens.
    pub(crate) fn new(draws: &Draws, vocab: usize) -> Self {
        let &Draws { temperature, top_k, top_p, min_p, state } = draws;
        let step = |is: bool, bit: u32| if is { bit } else { 0 };
        Self {
            temperature,
            top_k: u32::try_from(top_k).unwrap_or(u32::MAX),
            top_p: (top_p * 4_294_967_296.0) as u32,
            min_p,
            state: [state as u32, (state >> 32) as u32],
            steps: step((1..vocab).contains(&top_k), steps::TOP_K)
                | step(top_p < 1.0, steps::TOP_P)
                | step(min_p > 0.0, steps::MIN_P),
            unused: 0,
        }
    }
}
