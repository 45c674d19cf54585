//! Parameters of the kernels of recurrent layers.

use bytemuck::{Pod, Zeroable};

/// `convolve.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Convolve {
    pub(crate) zero: u32,
    pub(crate) channels: u32,
    /// Rows that it sees.
    pub(crate) kernel: u32,
    /// 1 between two gates.
    pub(crate) gated: u32,
    pub(crate) weights: u32,
    pub(crate) bias: u32,
    pub(crate) flag: u32,
    pub(crate) mix_stride: u32,
    pub(crate) out_stride: u32,
    pub(crate) largest: u32,
    /// Where a batch has the order of its rows, and its runs.
    pub(crate) order: u32,
    pub(crate) runs: u32,
    /// Elements of a slot, and those before this layer's.
    pub(crate) slot: u32,
    pub(crate) tail: u32,
    pub(crate) unused: [u32; 2],
}

/// `update.wgsl`
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Update {
    pub(crate) zero: u32,
    pub(crate) heads: u32,
    pub(crate) groups: u32,
    /// Heads that follow each other and share keys and queries; 0 where heads take these in turn.
    pub(crate) shared: u32,
    pub(crate) key_dim: u32,
    pub(crate) value_dim: u32,
    pub(crate) mix_stride: u32,
    /// Where a row of the mixer's input has what it needs.
    pub(crate) query: u32,
    pub(crate) key: u32,
    pub(crate) value: u32,
    pub(crate) gate: u32,
    pub(crate) step: u32,
    /// 1 for the delta rule.
    pub(crate) delta: u32,
    pub(crate) epsilon: f32,
    pub(crate) query_scale: f32,
    /// Among the vectors.
    pub(crate) decay: u32,
    pub(crate) bias: u32,
    /// The weights of the norm, or what values are multiplied by and added.
    pub(crate) vector: u32,
    pub(crate) out_stride: u32,
    /// `NONE` where the results are normed later.
    pub(crate) largest: u32,
    pub(crate) order: u32,
    pub(crate) runs: u32,
    pub(crate) flag: u32,
    pub(crate) unused: u32,
}

/// `group_norm.wgsl`
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
