//! Why an operation on a cache was refused.

use core::fmt;

use super::block::{AllocError, BlockId};
use super::table::Gone;
use crate::error::{Fault, Site};

/// Why an operation on a cache was refused. The cache is as it was before the call.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheError {
    /// No open sequence has this handle: it was never opened, or has been closed.
    UnknownSequence {
        /// The handle's bits.
        sequence: u32,
    },
    /// The sequence is given twice in one call.
    Repeated {
        /// The handle's bits.
        sequence: u32,
    },
    /// All sequences that the limits allow are open.
    NoFreeSequence {
        /// Number of sequences that can be open.
        sequences: usize,
    },
    /// The sequence has unfinished work.
    Busy {
        /// The handle's bits.
        sequence: u32,
    },
    /// The tokens do not fit the sequence.
    ContextFull {
        /// Number of tokens that the sequence would have.
        needed: usize,
        /// Number of tokens that a sequence can have.
        context: usize,
    },
    /// The pool has too few blocks that are free or reclaimable.
    OutOfBlocks {
        /// Number of blocks that are needed.
        needed: usize,
        /// Number of blocks that are available.
        free: usize,
    },
    /// The host's policy chose a block that is not one of the candidates.
    PolicyBlock {
        /// Number of the block that it chose.
        block: BlockId,
    },
    /// The host's policy chose a sequence that is not one of the candidates.
    PolicySequence {
        /// Bits of the handle that it chose.
        sequence: u32,
    },
    /// The row is not the sequence's next one.
    Position {
        /// The next position.
        expected: usize,
        /// The position given.
        given: usize,
    },
    /// The sequence is shorter than the length to keep.
    TooShort {
        /// The length asked for.
        keep: usize,
        /// The length of the sequence.
        length: usize,
    },
    /// A window has passed over positions that are to be read, or that the tokens after the cut would see.
    WindowGone {
        /// A position that is needed and gone.
        position: usize,
        /// The first position after the sinks that is still there.
        first: usize,
    },
    /// More tokens at a time than the blocks of a sequence with a window hold.
    TooMany {
        /// Number of tokens given.
        given: usize,
        /// Number of tokens that can be given now.
        limit: usize,
    },
    /// A buffer has another size than its shape demands.
    Shape {
        /// Number of elements that the shape demands.
        expected: usize,
        /// Number of elements given.
        given: usize,
    },
    /// The layer does not exist, or it is not its turn: layers are set in order, from 0 to the last.
    Layer {
        /// The layer whose turn it is, or the number of layers if a layer is only read.
        expected: usize,
        /// The layer given.
        given: usize,
    },
    /// A key or value is infinite, NaN, or too large for the element type.
    NonFinite,
    /// Keys and values cannot be set from outside: the kind `off` computes them anew in every step, and a model with
    /// recurrent layers has a state beside them.
    NotKept,
    /// Keys and values lie on a device: they cannot be set or copied from here. Snapshots can.
    OnDevice,
    /// The device is gone, and the keys and values of all sequences with it.
    DeviceLost,
    /// The cache contradicts itself: a defect of this library.
    Internal(Site),
}

impl From<AllocError> for CacheError {
    fn from(error: AllocError) -> Self {
        match error {
            AllocError::OutOfBlocks { needed, free } => Self::OutOfBlocks { needed, free },
            AllocError::InvalidBlock { .. } | AllocError::AlreadyFinalized { .. } => Self::Internal(site!()),
        }
    }
}

impl From<Fault> for CacheError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::NonFinite => Self::NonFinite,
            Fault::Internal(site) => Self::Internal(site),
        }
    }
}

impl From<Gone> for CacheError {
    fn from(Gone { position, first }: Gone) -> Self {
        Self::WindowGone { position, first }
    }
}

impl fmt::Display for CacheError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownSequence { sequence } => write!(f, "sequence {sequence:#x} is not open"),
            Self::Repeated { sequence } => write!(f, "sequence {sequence:#x} is given twice"),
            Self::NoFreeSequence { sequences } => write!(f, "all {sequences} sequences are open"),
            Self::Busy { sequence } => write!(f, "sequence {sequence:#x} has unfinished work"),
            Self::ContextFull { needed, context } => {
                write!(f, "context full: the sequence would have {needed} tokens, the limit is {context}")
            }
            Self::OutOfBlocks { needed, free } => AllocError::OutOfBlocks { needed, free }.fmt(f),
            Self::PolicyBlock { block } => write!(f, "the host's policy chose block {block}, which cannot be taken"),
            Self::PolicySequence { sequence } => {
                write!(f, "the host's policy chose sequence {sequence:#x}, which cannot be closed")
            }
            Self::Position { expected, given } => {
                write!(f, "position {given} is not the sequence's next one, which is {expected}")
            }
            Self::TooShort { keep, length } => write!(f, "cannot keep {keep} tokens of a sequence of {length}"),
            Self::WindowGone { position, first } => {
                write!(f, "position {position} has left the window, which begins at {first}")
            }
            Self::TooMany { given, limit } => {
                write!(f, "{given} tokens at a time; with its window the sequence takes {limit}")
            }
            Self::Shape { expected, given } => write!(f, "wrong shape: {expected} elements expected, {given} given"),
            Self::Layer { expected, given } => write!(f, "layer {given} given where {expected} was expected"),
            Self::NonFinite => f.write_str("a key or value is not finite in the cache's element type"),
            Self::NotKept => {
                f.write_str("a cache of kind off, or of a recurrent model, takes and gives no keys and values alone")
            }
            Self::OnDevice => f.write_str("keys and values lie on a device"),
            Self::DeviceLost => f.write_str("the device is gone, and keys and values with it"),
            Self::Internal(site) => write!(f, "internal error of the cache at site {site}"),
        }
    }
}

impl core::error::Error for CacheError {}
