//! Parameters of the kernels of recurrent layers.

use bytemuck::{Pod, Zeroable};

/// Parameters of `convolve.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Convolve {
    pub(crate) zero: u32,
    pub(crate) channels: u32,
    /// Number of rows that the convolution sees.
    pub(crate) kernel: u32,
    /// 1 for a convolution between two gates.
    pub(crate) gated: u32,
    pub(crate) weights: u32,
    pub(crate) bias: u32,
    pub(crate) flag: u32,
    pub(crate) mix_stride: u32,
    pub(crate) out_stride: u32,
    pub(crate) largest: u32,
    /// Word of the batch at which the order of its rows begins.
    pub(crate) order: u32,
    /// Word of the batch at which its runs begin.
    pub(crate) runs: u32,
    /// Elements of a slot of states.
    pub(crate) slot: u32,
    /// Elements of a slot before those of this layer.
    pub(crate) tail: u32,
    pub(crate) unused: [u32; 2],
}

/// Parameters of `update.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Update {
    pub(crate) zero: u32,
    pub(crate) heads: u32,
    pub(crate) groups: u32,
    /// Number of successive heads that share keys and queries, or 0 where heads take these in turn.
    pub(crate) shared: u32,
    pub(crate) key_dim: u32,
    pub(crate) value_dim: u32,
    pub(crate) mix_stride: u32,
    /// Columns of the mixer's input at which queries, keys, values, gates and step sizes begin.
    pub(crate) query: u32,
    pub(crate) key: u32,
    pub(crate) value: u32,
    pub(crate) gate: u32,
    pub(crate) step: u32,
    /// 1 for the delta rule.
    pub(crate) delta: u32,
    pub(crate) epsilon: f32,
    pub(crate) query_scale: f32,
    /// Index of the decays among the vectors.
    pub(crate) decay: u32,
    /// Index of the biases of step sizes among the vectors.
    pub(crate) bias: u32,
    /// Index among the vectors of the weights of the norm, or of the factors with which values are added.
    pub(crate) vector: u32,
    pub(crate) out_stride: u32,
    /// Words of a row of the largest magnitudes, or `NONE` where the results are normed later.
    pub(crate) largest: u32,
    pub(crate) order: u32,
    pub(crate) runs: u32,
    pub(crate) flag: u32,
    pub(crate) unused: u32,
}

/// Parameters of `group_norm.wgsl`.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct GroupNorm {
    pub(crate) zero: u32,
    pub(crate) width: u32,
    pub(crate) stride: u32,
    pub(crate) weight: u32,
    pub(crate) epsilon: f32,
    pub(crate) largest: u32,
    pub(crate) unused: [u32; 2],
}
