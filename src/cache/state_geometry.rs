//! The sizes of the states of recurrent layers.

/// The sizes of the states of recurrent layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateGeometry {
    /// Number of layers that have a state, or 0 if the model has none.
    pub(crate) layers: usize,
    /// f32 elements per layer of the convolution's state: the rows that the causal convolution will see again.
    pub(crate) tail: usize,
    /// Number of matrices per layer.
    pub(crate) heads: usize,
    /// f32 elements of each matrix.
    pub(crate) matrix: usize,
    /// Number of checkpoints at a time, of all sequences.
    pub(crate) checkpoints: usize,
}

impl StateGeometry {
    /// Returns the number of f32 elements of a slot: of the tails of all layers, and of their matrices.
    pub(super) fn elements(&self) -> Option<[usize; 2]> {
        let matrices = self.heads.checked_mul(self.matrix)?.checked_mul(self.layers)?;
        Some([self.tail.checked_mul(self.layers)?, matrices])
    }

    /// Returns a number of slots that is always enough: two for each sequence, those that several sequences share
    /// before they go on, and the checkpoints.
    pub(crate) fn slots(&self, sequences: usize) -> Option<usize> {
        if self.layers == 0 {
            return Some(0);
        }
        sequences.checked_mul(2)?.checked_add(sequences / 2)?.checked_add(self.checkpoints)
    }
}
