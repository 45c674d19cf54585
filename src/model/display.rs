//! The texts of the errors of models. They list the architectures, so they are here and not in the module of the
//! errors.

use core::fmt;

use super::arch::ARCHITECTURES;
use crate::weights::ModelError;

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gguf(error) => error.fmt(f),
            Self::Architecture { name } => {
                write!(f, "architecture {name} is not supported; one of")?;
                ARCHITECTURES.iter().enumerate().try_for_each(|(i, known)| {
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
