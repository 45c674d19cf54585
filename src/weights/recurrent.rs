//! Layers that keep a state in place of keys and values.

use crate::kv::LayerSet;

/// How a recurrent layer mixes a row with the rows before it.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mixer {
    /// The model has no recurrent layers.
    #[default]
    None,
    /// A short causal convolution between two gates. (Liquid AI, "LFM2 Technical Report", 2025.)
    ShortConvolution,
    /// A causal convolution, then a matrix per head that forgets and is corrected. (Yang, Kautz and Hatamizadeh, "Gated
    /// Delta Networks", 2024.)
    DeltaRule,
    /// A causal convolution, then a matrix per head that forgets and is added to. (Dao and Gu, "Transformers are SSMs",
    /// 2024: Mamba-2.)
    StateSpace,
}

/// The layers that have a state, and the sizes of their operations.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recurrent {
    /// Operation of these layers.
    pub mixer: Mixer,
    /// The layers that have a state.
    pub layers: LayerSet,
    /// Channels of the causal convolution.
    pub channels: usize,
    /// Number of rows that the convolution sees. The last one is the current row.
    pub kernel: usize,
    /// Number of matrices of the state, or 0 for [`Mixer::ShortConvolution`].
    pub heads: usize,
    /// Number of rows of each matrix: the width of keys and queries.
    pub key_dim: usize,
    /// Number of columns of each matrix: the width of values.
    pub value_dim: usize,
    /// Number of keys and queries. Each of them serves several heads.
    pub groups: usize,
    /// Whether the results of the heads are normalized: by head, or by group with [`Mixer::StateSpace`].
    pub normed: bool,
}

impl Recurrent {
    /// Returns the number of elements per row that the output matrix reads.
    pub fn inner(&self) -> usize {
        if self.mixer == Mixer::ShortConvolution { self.channels } else { self.heads * self.value_dim }
    }

    /// Returns the number of elements per row that the input matrices produce.
    pub(crate) fn input_width(&self) -> usize {
        match self.mixer {
            Mixer::None => 0,
            // The gate before the convolution, the gate after it, and the input of the convolution.
            Mixer::ShortConvolution => 3 * self.channels,
            // Queries, keys and values, then the gate, then two numbers per head.
            Mixer::DeltaRule => self.channels + self.inner() + 2 * self.heads,
            // Values, keys and queries, then the gate, then a number per head.
            Mixer::StateSpace => self.channels + self.inner() + self.heads,
        }
    }

    /// Returns the number of f32 elements of the convolution's state in a layer: the rows that later rows see.
    pub(crate) fn tail_elements(&self) -> usize {
        self.channels.saturating_mul(self.kernel.saturating_sub(1))
    }

    /// Returns the number of f32 elements of a head's matrix.
    pub(crate) fn matrix_elements(&self) -> usize {
        self.key_dim.saturating_mul(self.value_dim)
    }

    /// Returns the number of f32 elements of the state of a sequence, in all layers.
    pub fn state_elements(&self) -> usize {
        let matrices = self.heads.saturating_mul(self.matrix_elements());
        self.layers.before(usize::MAX).saturating_mul(self.tail_elements().saturating_add(matrices))
    }
}
