//! Layers that keep a state in place of keys and values.

use crate::kv::LayerSet;

/// How a recurrent layer mixes a row with the rows before it.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mixer {
    /// There are no such layers.
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

/// Which layers have a state, and the sizes of what makes it.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recurrent {
    /// What these layers do.
    pub mixer: Mixer,
    /// These layers.
    pub layers: LayerSet,
    /// Channels of the causal convolution.
    pub channels: usize,
    /// Rows that it sees: the last one is the current one.
    pub kernel: usize,
    /// Matrices of the state; 0 for [`Mixer::ShortConvolution`].
    pub heads: usize,
    /// Rows of each: the width of keys and queries.
    pub key_dim: usize,
    /// Columns of each: the width of values.
    pub value_dim: usize,
    /// Keys and queries, each for some of the heads.
    pub groups: usize,
    /// Whether what the heads give is normalized: by head, or with [`Mixer::StateSpace`] by group.
    pub normed: bool,
}

impl Recurrent {
    /// Returns the number of elements per row that the output matrix reads.
    pub fn inner(&self) -> usize {
        if self.mixer == Mixer::ShortConvolution { self.channels } else { self.heads * self.value_dim }
    }

    /// Elements per row that the input matrices give.
    pub(crate) fn input_width(&self) -> usize {
        match self.mixer {
            Mixer::None => 0,
            // The gate before the convolution, the one behind it, and what is convolved.
            Mixer::ShortConvolution => 3 * self.channels,
            // Queries, keys, values; the gate; two numbers per head.
            Mixer::DeltaRule => self.channels + self.inner() + 2 * self.heads,
            // Values, keys, queries; the gate; a number per head.
            Mixer::StateSpace => self.channels + self.inner() + self.heads,
        }
    }

    /// f32 elements of the convolution's state in a layer: the rows that it will see again.
    pub(crate) fn tail_elements(&self) -> usize {
        self.channels.saturating_mul(self.kernel.saturating_sub(1))
    }

    /// f32 elements of a head's matrix.
    pub(crate) fn matrix_elements(&self) -> usize {
        self.key_dim.saturating_mul(self.value_dim)
    }

    /// Returns the number of f32 elements of the state of a sequence, all layers.
    pub fn state_elements(&self) -> usize {
        let matrices = self.heads.saturating_mul(self.matrix_elements());
        self.layers.before(usize::MAX).saturating_mul(self.tail_elements().saturating_add(matrices))
    }
}
