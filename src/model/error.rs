//! Why a model was refused.

use core::fmt;

use gguf_rs_lite::{GgmlType, GgufError, Name};

/// Why a model was refused.
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

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gguf(error) => error.fmt(f),
            Self::Architecture { name } => {
                write!(f, "architecture {name} is not supported; one of")?;
                super::arch::ARCHITECTURES.iter().enumerate().try_for_each(|(i, known)| {
                    f.write_str(if i == 0 { " " } else { ", " })?;
                    f.write_str(known.name)
                })
            }
            Self::Parts { expected, given } => {
                write!(f, "the file is split into {expected} parts, {given} of which were given")
            }
            Self::PartNumber { expected, found: Some(found) } => {
                write!(f, "part {} of a split file is in the place of part {}", found + 1, expected + 1)
            }
            Self::PartNumber { expected, found: None } => {
                write!(f, "what is in the place of part {} is no part of a split file", expected + 1)
            }
            Self::MissingKey { key } => write!(f, "metadata key {key} is missing"),
            Self::BadValue { key } => write!(f, "metadata key {key} has an impossible value"),
            Self::Unsupported { key } => write!(f, "metadata key {key} asks for something that is not supported"),
            Self::MissingTensor { tensor } => write!(f, "tensor {tensor} is missing"),
            Self::UnknownTensor { tensor } => write!(f, "tensor {tensor} is not part of this architecture"),
            Self::DuplicateTensor { tensor } => write!(f, "tensor {tensor} is there twice"),
            Self::TensorShape { tensor, expected: [rows, cols], found: [found_rows, found_cols] } => {
                write!(f, "tensor {tensor} must be [{rows}, {cols}], it is [{found_rows}, {found_cols}]")
            }
            Self::TensorType { tensor, found } => {
                write!(f, "tensor {tensor} has the unsupported type {}", found.name())
            }
            Self::TooMany { count, limit } => write!(f, "{count} layers or tensors, at most {limit} are accepted"),
        }
    }
}

impl core::error::Error for ModelError {}
