//! Why a model was refused.

use gguf_rs_lite::{GgmlType, GgufError, Name};

/// Why a model was refused.
///
/// [Example](crate::model#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelError {
    /// The bytes are no valid GGUF file.
    Gguf(GgufError),
    /// The file was split, and these are not all of its parts.
    Parts {
        /// Number of parts.
        expected: usize,
        /// Number of parts that were given.
        given: usize,
    },
    /// A part of a split file is in the wrong position.
    PartNumber {
        /// Number of the part that belongs there, from 0.
        expected: usize,
        /// Number of the part that is there, if it has one.
        found: Option<usize>,
    },
    /// The architecture is not supported.
    Architecture {
        /// `general.architecture` of the file.
        name: Name,
    },
    /// A metadata key is missing.
    MissingKey {
        /// The key.
        key: Name,
    },
    /// A metadata value has the wrong type, or is outside of the range that models can have.
    BadValue {
        /// The key.
        key: Name,
    },
    /// The file uses a feature that is not supported.
    Unsupported {
        /// The key that asks for it.
        key: Name,
    },
    /// A tensor is missing.
    MissingTensor {
        /// Name of the tensor.
        tensor: Name,
    },
    /// A tensor that the architecture does not have: leaving it out would give other results.
    UnknownTensor {
        /// Name of the tensor.
        tensor: Name,
    },
    /// Two tensors have the same name.
    DuplicateTensor {
        /// Name of the tensors.
        tensor: Name,
    },
    /// A tensor has another shape than the metadata requires.
    TensorShape {
        /// Name of the tensor.
        tensor: Name,
        /// `[rows, cols]` that is required.
        expected: [usize; 2],
        /// `[rows, cols]` of the tensor, from its first two dimensions.
        found: [u64; 2],
    },
    /// A tensor has an element type that is not supported for it.
    TensorType {
        /// Name of the tensor.
        tensor: Name,
        /// Type of the tensor.
        found: GgmlType,
    },
    /// More tensors or layers than any model has.
    TooMany {
        /// Number of layers or tensors.
        count: usize,
        /// Largest number that is accepted.
        limit: usize,
    },
}

impl From<GgufError> for ModelError {
    fn from(error: GgufError) -> Self {
        Self::Gguf(error)
    }
}
