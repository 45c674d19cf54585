//! Parameters of kernels, as they lie in the device's memory. The first word is the zero of the barrier.

mod recurrent;

use bytemuck::{Pod, Zeroable};
use gleed::device::Draws;

pub(crate) use recurrent::{Convolve, GroupNorm, Update};

/// The index of a vector that is not there.
pub(crate) const NONE: u32 = u32::MAX;
/// Bytes from the parameters of one dispatch to those of the next.
pub(crate) const SLOT: usize = 256;
/// Words of a batch before its rows.
pub(crate) const BATCH_HEAD: usize = 16;
/// The word of a batch that says whether chunks of attention are added up beside the store of keys and values.
pub(crate) const BATCH_PARALLEL: usize = 6;
/// Words of a row of a batch: its position, its token, the first entry of its sequence in the block tables of both
/// layer groups, and whether its keys and values are stored already.
pub(crate) const BATCH_ROW: usize = 5;
/// Words of a run, the rows of a sequence in a batch: index of the first one in the order of rows, their number, slot
/// of the state that is read, slot of the state that is written. The order of rows and the runs follow the rows.
pub(crate) const BATCH_RUN: usize = 4;

/// Parameters of `embed.wgsl`.
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
    /// 0: rows of tokens are copied. 1: rows of positions are added. 2: rows of tokens are added, and the sums
    /// multiplied by `of_sum`.
    pub(crate) adds: u32,
    pub(crate) of_sum: f32,
    /// Word at which the rows of the output begin.
    pub(crate) y_at: u32,
    pub(crate) unused: u32,
}

/// Parameters of `input.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Input {
    pub(crate) zero: u32,
    pub(crate) n: u32,
    pub(crate) out_stride: u32,
    /// One of `norms`, or 0 for no norm.
    pub(crate) norms: u32,
    pub(crate) weight: u32,
    pub(crate) form: u32,
    pub(crate) epsilon: f32,
    /// Index of the flag that says that a value is not finite.
    pub(crate) flag: u32,
    /// What is done to the branch and the residual stream first.
    pub(crate) branch: Branch,
    /// Words of a row of the largest magnitudes of attention's results and of feed-forward activations.
    pub(crate) largest: [u32; 2],
    pub(crate) bias: u32,
    /// Row of the first workgroup.
    pub(crate) first_row: u32,
    /// Word at which the rows of the input begin.
    pub(crate) out_at: u32,
    /// Number of a second activation format of the input plus 1, or 0 for none.
    pub(crate) second_form: u32,
    /// Words from one row in the second format to the next.
    pub(crate) second_stride: u32,
    /// Word at which the rows in the second format begin.
    pub(crate) second_at: u32,
}

/// How a row is normed. 0 stands for no norm.
pub(crate) mod norms {
    pub(crate) const RMS: u32 = 1;
    pub(crate) const LAYER: u32 = 2;
}

/// What is done to the branch and the residual stream before the residual stream is normed.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Branch {
    /// Bits of `adds`.
    pub(crate) adds: u32,
    /// One of `norms`: the norm of the branch that is added.
    pub(crate) norms: u32,
    pub(crate) weight: u32,
    pub(crate) bias: u32,
    /// Epsilon of all norms that are done here.
    pub(crate) epsilon: f32,
    pub(crate) factor: u32,
    /// Experts that a row goes through.
    pub(crate) used: u32,
    /// Index in the buffer of the branch at which results of experts begin.
    pub(crate) results: u32,
    /// Index in the buffer of the branch at which weights of experts begin.
    pub(crate) expert_weights: u32,
    /// Index among the vectors of the weights for the norm of the branch in its place.
    pub(crate) renorm_weight: u32,
    /// Index among the vectors of the weights for the norm of the sum of experts.
    pub(crate) experts_weight: u32,
    pub(crate) scale: f32,
}

/// Bits that say what is done, in this order.
pub(crate) mod adds {
    /// The branch is normed in its place.
    pub(crate) const NORMS_BRANCH: u32 = 1;
    /// The results of experts are added to the residual stream.
    pub(crate) const EXPERTS: u32 = 2;
    /// The results of experts are added to the branch instead.
    pub(crate) const TO_BRANCH: u32 = 4;
    /// The sum of experts is normed before it is added.
    pub(crate) const NORMS_EXPERTS: u32 = 8;
    /// The norm of the branch is added to the residual stream.
    pub(crate) const NORM: u32 = 16;
    /// The residual stream is multiplied by a number.
    pub(crate) const SCALES: u32 = 32;
}

/// The format number of a dispatch that writes no input, and only does what comes before it.
pub(crate) const NO_INPUT: u32 = 4;
/// The format number of an input that takes the place of the residual stream.
pub(crate) const IN_PLACE: u32 = 5;

/// One of the matrices of a dispatch of `linear.wgsl`.
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
    /// Experts that a row goes through.
    pub(crate) used: u32,
    /// First expert whose matrix is in the buffer.
    pub(crate) first: u32,
    /// Number of experts whose matrices are in the buffer.
    pub(crate) count: u32,
    /// Bytes from the matrix of one expert to that of the next.
    pub(crate) bytes: u32,
    /// Rows from the matrix of one expert to that of the next.
    pub(crate) rows: u32,
    /// Words of the largest magnitudes of one expert's activations.
    pub(crate) largest: u32,
}

/// Parameters of `linear.wgsl`.
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
    /// 1 where the activations are floats that the kernel itself brings into the matrix's format.
    pub(crate) raw: u32,
    /// Words of a row of the largest magnitudes.
    pub(crate) largest: u32,
    pub(crate) experts: Experts,
    /// Index among the outputs of the first row's gate logit, whose sigmoid multiplies the row's activations, or 0 for
    /// none.
    pub(crate) gates: u32,
    /// Index of the numbers of xIELU among the vectors.
    pub(crate) numbers: u32,
    /// Elements of a head where the first matrix has queries and gates in turns, or 0 where it has not.
    pub(crate) split: u32,
    /// Column at which these gates begin.
    pub(crate) split_at: u32,
    /// Index among the outputs of the numbers that multiply activations, or 0 for none.
    pub(crate) times: u32,
    /// Words from these numbers of one row to those of the next.
    pub(crate) times_stride: u32,
    /// Word at which rows of the input begin.
    pub(crate) x_at: u32,
    /// Words from a logit of `gates` to that of the next row.
    pub(crate) gates_stride: u32,
    pub(crate) segments: [Segment; 4],
}

/// Parameters of `quantize.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Quantize {
    pub(crate) zero: u32,
    pub(crate) cols: u32,
    pub(crate) out_stride: u32,
    /// Words of a row of the largest magnitudes.
    pub(crate) largest: u32,
    /// Number of largest magnitudes that belong to a block.
    pub(crate) parts: u32,
    pub(crate) flag: u32,
    pub(crate) unused: [u32; 2],
}

/// What a kernel does with the outputs of a matrix.
pub(crate) mod mode {
    pub(crate) const SET: u32 = 0;
    pub(crate) const ADD: u32 = 1;
    pub(crate) const GATE: u32 = 2;
    pub(crate) const LOGITS: u32 = 3;
    pub(crate) const ACTIVATE: u32 = 4;
}

/// The shape of heads, and of the tiles of their keys and values: `Shape` of `kv.wgsl`.
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

/// Parameters of `store.wgsl` and `store_many.wgsl`.
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
    /// Bits of `head_norms`.
    pub(crate) norms: u32,
    pub(crate) flag: u32,
    /// Bits of the largest magnitude that is allowed, or 0 for any.
    pub(crate) clamp: u32,
    pub(crate) q_bias: u32,
    pub(crate) k_bias: u32,
    /// Column of a row's angles that has the temperature of queries, or `NONE`.
    pub(crate) temperature: u32,
    pub(crate) unused: [u32; 2],
    pub(crate) shape: Shape,
    pub(crate) scores: Scores,
}

/// Bits that say which heads are normed, and how.
pub(crate) mod head_norms {
    pub(crate) const QUERIES: u32 = 1;
    pub(crate) const KEYS: u32 = 2;
    pub(crate) const AFTER_ROTATION: u32 = 4;
    /// All heads of queries are normed as one row, and all heads of keys.
    pub(crate) const WHOLE_ROW: u32 = 8;
    /// Each head has weights of its own.
    pub(crate) const OWN_WEIGHTS: u32 = 16;
    /// The norms are by mean and standard deviation.
    pub(crate) const CENTERS: u32 = 32;
    /// Each head of values is normed, without weights.
    pub(crate) const VALUES: u32 = 64;
    /// Values are the keys as they are before their norm.
    pub(crate) const KEYS_AS_VALUES: u32 = 128;
}

/// How scores are computed, and where: `Scores` of `keys.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Scores {
    pub(crate) scale: u32,
    pub(crate) cap: u32,
    pub(crate) window: u32,
    pub(crate) sinks: u32,
    pub(crate) reach: u32,
    /// Index among the vectors of the slopes of linear biases, or `NONE`.
    pub(crate) slopes: u32,
    /// Word of the buffer of heads at which rotated queries begin.
    pub(crate) queries: u32,
    /// Word of the buffer of heads at which sums of chunks begin.
    pub(crate) parts: u32,
    /// Largest number of chunks that a head of a row has in that buffer.
    pub(crate) chunks: u32,
    pub(crate) unused: [u32; 3],
}

/// Parameters of `attend.wgsl` and `attend_many.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Attend {
    pub(crate) zero: u32,
    pub(crate) out_stride: u32,
    pub(crate) largest: u32,
    /// Index of the sink scores among the vectors, or `NONE`.
    pub(crate) sink_scores: u32,
    /// Column of the heads at which gates begin, or 0 for none.
    pub(crate) gates: u32,
    /// Number of elements that share a gate.
    pub(crate) gated: u32,
    pub(crate) unused: [u32; 2],
    pub(crate) shape: Shape,
    pub(crate) scores: Scores,
}

/// Parameters of `route.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Route {
    pub(crate) zero: u32,
    pub(crate) experts: u32,
    pub(crate) used: u32,
    /// Number that stands for a `RouterScores`.
    pub(crate) scores: u32,
    pub(crate) normalized: u32,
    pub(crate) epsilon: f32,
    pub(crate) scale: f32,
    pub(crate) logit_scale: f32,
    pub(crate) biases: u32,
    pub(crate) scales: u32,
    pub(crate) weights: u32,
    pub(crate) flag: u32,
    /// Number of groups of experts.
    pub(crate) groups: u32,
    /// Number of groups that are chosen first.
    pub(crate) groups_used: u32,
    /// Index at which the logits of the first row begin.
    pub(crate) logits_at: u32,
    /// Words from the logits of one row to those of the next.
    pub(crate) logits_stride: u32,
}

/// Parameters of `choose.wgsl` and `draw.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Choose {
    pub(crate) zero: u32,
    pub(crate) n: u32,
    pub(crate) angles: u32,
    /// Word of the batch at which its runs begin.
    pub(crate) runs: u32,
}

/// How `draw.wgsl` draws a token.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Draw {
    pub(crate) temperature: f32,
    pub(crate) top_k: u32,
    /// Share of the mass that is kept, times 2^32.
    pub(crate) top_p: u32,
    pub(crate) min_p: f32,
    pub(crate) state: [u32; 2],
    /// Bits of `steps`.
    pub(crate) steps: u32,
    pub(crate) unused: u32,
}

/// Bits for the steps that leave tokens out before one is drawn.
mod steps {
    pub(super) const TOP_K: u32 = 1;
    pub(super) const TOP_P: u32 = 2;
    pub(super) const MIN_P: u32 = 4;
}

impl Draw {
    /// Returns the parameters of a draw from `vocab` tokens.
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
