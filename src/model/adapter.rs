//! Opening an adapter for its model.

use super::Model;
use crate::weights::{Adapter, ModelError};

impl<'m> Adapter<'m> {
    /// Reads a GGUF file of `general.type` "adapter" and checks that its pairs fit matrices of the model:
    /// `NAME.lora_a`, `[rank, inputs]`, and `NAME.lora_b`, `[outputs, rank]`, both of F32, F16 or BF16.
    ///
    /// # Errors
    /// [`ModelError`], with the key or tensor that is wrong. Pairs for embeddings, norms and experts are refused.
    pub fn open(bytes: &'m [u8], model: &Model<'_>) -> Result<Self, ModelError> {
        Self::read(bytes, model.config(), &|layer, role| model.loaded.uses(layer, role))
    }

    /// Returns whether `model` has the same shapes and parameters as the model for which the adapter was opened.
    pub fn fits(&self, model: &Model<'_>) -> bool {
        self.config() == model.config()
    }
}
