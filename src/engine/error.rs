//! Why a call of the engine was refused.

use core::fmt;

use crate::cache::{CacheError, SnapshotError};
use crate::device::DeviceFault;
use crate::error::{Fault, Site};
use crate::mem::MemoryError;

/// Why a call of the engine was refused. The engine is as it was before the call, unless the variant says
/// otherwise.
///
/// [Example](crate::engine#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineError {
    /// The memory does not fit the plan.
    Memory(MemoryError),
    /// The cache refused.
    Cache(CacheError),
    /// The snapshot was not written or not restored.
    Snapshot(SnapshotError),
    /// A token id that the model does not have.
    Token {
        /// Index of the token among the tokens given.
        index: usize,
        /// Id of the token.
        token: u32,
        /// Size of the vocabulary. Ids are below this number.
        vocab: usize,
    },
    /// No tokens were given.
    Empty,
    /// The slice for a result has the wrong length.
    OutputLength {
        /// Number of elements needed.
        needed: usize,
        /// Number of elements given.
        given: usize,
    },
    /// The model has no output matrix: it makes vectors of texts and predicts no tokens.
    NoLogits,
    /// The model has no classifier for `Pooling::Rank`.
    NoClasses,
    /// Each token of the model sees those after it, so a sequence takes all its tokens at once and cannot keep a part
    /// of them.
    Whole {
        /// Number of tokens in the sequence.
        length: usize,
    },
    /// Each token of the model sees those after it, and the text does not fit one batch: see `Limits::rows`.
    TextRows {
        /// Number of tokens in the text.
        tokens: usize,
        /// Number of rows of a batch.
        rows: usize,
    },
    /// An adapter that is not loaded.
    Adapter {
        /// Number of the adapter, as given.
        given: usize,
        /// Number of adapters that are loaded.
        loaded: usize,
    },
    /// More adapters than planned, or one of a larger rank: see `Limits`.
    AdapterRoom {
        /// Number of adapters that were planned.
        adapters: usize,
        /// Largest rank that was planned.
        rank: usize,
        /// Rank of the adapter that was given.
        given: usize,
    },
    /// The adapter was opened for a model of other shapes or parameters.
    AdapterModel,
    /// A scale that is infinite or not a number.
    AdapterScale,
    /// The model is a layer of another model that predicts further ahead
    /// ([`Model::predictor`](crate::Model::predictor)). It takes tokens only from [`NextN`](crate::guess::NextN),
    /// beside an engine of that other model.
    Predictor,
    /// Other sequences have unfinished work, and the call needs the engine for itself.
    Busy,
    /// The model computed an infinity or a NaN. The sequences of the batch keep their committed tokens and
    /// lose those that were queued.
    NonFinite {
        /// Layer in which it was found, or the number of layers if it was found in the logits.
        layer: usize,
    },
    /// The plan is for an engine with a device and there is none, or the plan is not for a device and there is one.
    DevicePlan,
    /// The device is gone, and the keys and values of all sequences with it. The sequences of the batch keep their
    /// committed tokens. Another engine can compute the keys and values of these again:
    /// [`Engine::replay`](crate::Engine::replay).
    DeviceLost,
    /// The engine has a device, and no device can do this yet.
    OnDevice {
        /// Name of the thing that a device cannot give.
        what: &'static str,
    },
    /// The engine contradicts itself: a defect of this library.
    Internal(Site),
}

impl EngineError {
    pub(super) fn from_fault(fault: Fault, layer: usize) -> Self {
        match fault {
            Fault::NonFinite => Self::NonFinite { layer },
            Fault::Internal(site) => Self::Internal(site),
        }
    }
}

impl From<CacheError> for EngineError {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::DeviceLost => Self::DeviceLost,
            error => Self::Cache(error),
        }
    }
}

impl From<DeviceFault> for EngineError {
    fn from(fault: DeviceFault) -> Self {
        match fault {
            DeviceFault::NonFinite { layer } => Self::NonFinite { layer },
            DeviceFault::Lost => Self::DeviceLost,
        }
    }
}

impl From<SnapshotError> for EngineError {
    fn from(error: SnapshotError) -> Self {
        match error {
            SnapshotError::Cache(error) => error.into(),
            error => Self::Snapshot(error),
        }
    }
}

impl From<MemoryError> for EngineError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Cache(error) => error.fmt(f),
            Self::Snapshot(error) => error.fmt(f),
            Self::Token { index, token, vocab } => {
                write!(f, "token {token} at index {index} is not below the vocabulary's size, {vocab}")
            }
            Self::Empty => f.write_str("no tokens were given"),
            Self::OutputLength { needed, given } => {
                write!(f, "the result has {needed} elements, there is room for {given}")
            }
            Self::NoLogits => f.write_str("the model is an encoder: it makes vectors of texts and predicts no tokens"),
            Self::NoClasses => f.write_str("the model has no classifier to rank texts with"),
            Self::Whole { length } => {
                write!(
                    f,
                    "tokens of this model see those after them: nothing continues or cuts the {length} that are there"
                )
            }
            Self::TextRows { tokens, rows } => {
                write!(
                    f,
                    "tokens of this model see those after them: a text of {tokens} needs as many rows, not {rows}"
                )
            }
            Self::Adapter { given, loaded } => write!(f, "adapter {given} is not among the {loaded} that are loaded"),
            Self::AdapterRoom { adapters, rank, given } => {
                write!(f, "planned are {adapters} adapters of a rank up to {rank}; no room for another of rank {given}")
            }
            Self::AdapterModel => f.write_str("the adapter was opened for another model than the engine's"),
            Self::AdapterScale => f.write_str("the scale of an adapter must be finite"),
            Self::Predictor => {
                f.write_str("a layer that predicts further ahead takes tokens only behind its own model")
            }
            Self::Busy => f.write_str("other sequences have unfinished work"),
            Self::NonFinite { layer } => write!(f, "the model computed an infinity or a NaN in layer {layer}"),
            Self::DevicePlan => f.write_str("a plan for a device needs one, and other plans have no use for it"),
            Self::DeviceLost => f.write_str("the device is gone, and all keys and values with it"),
            Self::OnDevice { what } => write!(f, "no device gives {what} yet"),
            Self::Internal(site) => write!(f, "internal error of the engine at site {site}"),
        }
    }
}

impl core::error::Error for EngineError {}

/// Why a snapshot was not written to or read from a host's callback.
///
/// [Example](crate::engine#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError<E> {
    /// The callback failed with this error.
    Host(E),
    /// The engine refused.
    Engine(EngineError),
}

impl<E: fmt::Display> fmt::Display for StreamError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl<E: core::error::Error> core::error::Error for StreamError<E> {}
