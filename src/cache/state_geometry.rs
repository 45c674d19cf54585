//! The sizes of the states of recurrent layers.

/// The sizes of the states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateGeometry {
    /// Layers that have a state; 0 where the model has none.
    pub(crate) layers: usize,
    /// f32 elements per layer: rows that the causal convolution will see again.
    pub(crate) tail: usize,
    /// Matrices per layer.
    pub(crate) heads: usize,
    /// f32 elements of each.
    pub(crate) matrix: usize,
    /// Checkpoints at a time, of all sequences.
    pub(crate) checkpoints: usize,
}

impl StateGeometry {
    /// f32 elements of a slot: the tails of all layers, and their matrices.
    pub(super) fn elements(&self) -> Option<[usize; 2]> {
        let matrices = self.heads.checked_mul(self.matrix)?.checked_mul(self.layers)?;
        Some([self.tail.checked_mul(self.layers)?, matrices])
    }

    /// Slots that are enough whatever happens: two for each sequence, those that several sequences share before they go
    /// on, and the checkpoints.
    pub(crate) fn slots(&self, sequences: usize) -> Option<usize> {
        if self.layers == 0 {
            return Some(0);
        }
        sequences.checked_mul(2)?.checked_add(sequences / 2)?.checked_add(self.checkpoints)
    }
}
