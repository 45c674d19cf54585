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
    /// The file was split, and these are not all its parts.
    Parts {
        /// How many there are.
        expected: usize,
        /// How many were given.
        given: usize,
    },
    /// A part of a split file is not in its place.
    PartNumber {
        /// The number of the part, from 0, that belongs there.
        expected: usize,
        /// The number that it has.
        found: Option<usize>,
    },
    /// No code for this architecture.
    Architecture {
        /// `general.architecture` of the file.
        name: Name,
    },
    /// A metadata key is missing.
    MissingKey {
        /// The key.
        key: Name,
    },
    /// A metadata value is of the wrong type or outside of what the model can have.
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
        /// Its name.
        tensor: Name,
    },
    /// A tensor that the architecture does not have: leaving it out would give other results.
    UnknownTensor {
        /// Its name.
        tensor: Name,
    },
    /// Two tensors of the same name.
    DuplicateTensor {
        /// The name.
        tensor: Name,
    },
    /// A tensor of another shape than the metadata demands.
    TensorShape {
        /// Its name.
        tensor: Name,
        /// `[rows, cols]` demanded.
        expected: [usize; 2],
        /// `[rows, cols]` found (of the first two dimensions).
        found: [u64; 2],
    },
    /// A tensor of an element type that is not supported there.
    TensorType {
        /// Its name.
        tensor: Name,
        /// The type found.
        found: GgmlType,
    },
    /// More tensors or layers than any model has.
    TooMany {
        /// How many.
        count: usize,
        /// How many are accepted.
        limit: usize,
    },
}

impl From<GgufError> for ModelError {
    fn from(error: GgufError) -> Self {
        Self::Gguf(error)
    }
}
