//! Why a snapshot was not written or not restored.

use core::fmt;

use super::header::{SnapshotHeader, SnapshotOptions};
use crate::cache::block::BLOCK_TOKENS;
use crate::cache::error::CacheError;
use crate::num::ARITHMETIC_VERSION;

/// Why a snapshot was not written or not restored. The cache is as it was before.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The caller's buffer is too small.
    BufferTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// The host's state is longer than a header can hold.
    StateTooLong {
        /// Number of bytes of the state.
        given: usize,
    },
    /// A delta cannot begin at this token, which is inside a block, or past the end of the sequence.
    BasePosition {
        /// Index of the first token of the delta.
        base: usize,
        /// Number of tokens in the sequence.
        tokens: usize,
    },
    /// The host did not take the bytes.
    Sink {
        /// Number of bytes that it took before.
        offset: u64,
    },
    /// The host could not give bytes, or gave more than it was asked for.
    Source {
        /// Number of bytes that it gave before.
        offset: u64,
    },
    /// The bytes end before the snapshot does.
    Truncated {
        /// Smallest number of bytes that the snapshot can have.
        needed: u64,
        /// Number of bytes that there are.
        given: u64,
    },
    /// Bytes follow the snapshot.
    Trailing {
        /// Number of bytes of the snapshot.
        total: u64,
    },
    /// The bytes do not begin like a snapshot.
    Magic,
    /// A version of the format that this library does not read.
    Version {
        /// The version found.
        found: u32,
    },
    /// A length that no header of this version has.
    HeaderLength {
        /// The length found.
        found: u32,
    },
    /// The header is damaged.
    HeaderChecksum {
        /// The checksum that is stored.
        stored: u64,
        /// The checksum of the bytes.
        computed: u64,
    },
    /// The state of the recurrent layers is damaged.
    StateChecksum {
        /// The checksum that is stored.
        stored: u64,
        /// The checksum of the bytes.
        computed: u64,
    },
    /// An element of the state is infinite or NaN.
    StateNonFinite,
    /// A block is damaged.
    BlockChecksum {
        /// Index of the block in the sequence. It holds the tokens from position 16 times the index on.
        block: usize,
        /// The checksum that is stored.
        stored: u64,
        /// The checksum of the bytes.
        computed: u64,
    },
    /// The checksum of the whole snapshot is wrong, though the checksum of each part is right.
    Checksum {
        /// The checksum that is stored.
        stored: u64,
        /// The checksum of the parts.
        computed: u64,
    },
    /// The snapshot is of another model.
    Model {
        /// The fingerprint of the engine's model.
        expected: u64,
        /// The fingerprint in the snapshot.
        found: u64,
    },
    /// The snapshot was computed with another version of the arithmetic.
    Arithmetic {
        /// The version found.
        found: u32,
    },
    /// The snapshot's keys and values are of another type or shape than the cache's.
    Geometry {
        /// Name of the thing that differs.
        what: &'static str,
        /// The cache's number (for the element types, ggml's).
        expected: u32,
        /// The snapshot's number.
        found: u32,
    },
    /// The length of the snapshot does not fit its tokens.
    Length {
        /// Number of bytes that a snapshot of these tokens has.
        expected: u64,
        /// Number of bytes that the header states.
        found: u64,
    },
    /// The snapshot is a delta, and no sequence was given that has the tokens before it.
    BaseMissing {
        /// Number of tokens that a sequence must have.
        base: usize,
        /// Number of tokens that the given sequence has, or 0 if none was given.
        given: usize,
    },
    /// The snapshot is a delta to other tokens, keys or values than the given sequence has.
    Base {
        /// The checksum that is stored.
        stored: u64,
        /// The checksum of the given sequence's blocks.
        computed: u64,
    },
    /// A token id that the model does not have.
    Token {
        /// Position of the token.
        position: usize,
        /// Id of the token.
        token: u32,
    },
    /// A key or value that is infinite or NaN.
    NonFinite {
        /// Index of its block in the sequence.
        block: usize,
    },
    /// The cache refused: no room, an unknown sequence, unfinished work.
    Cache(CacheError),
}

impl From<CacheError> for SnapshotError {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BufferTooSmall { needed, given } => {
                write!(f, "buffer too small for the snapshot: {needed} bytes needed, {given} given")
            }
            Self::StateTooLong { given } => {
                write!(f, "{given} bytes of state; a snapshot holds {}", SnapshotOptions::STATE_MAX)
            }
            Self::BasePosition { base, tokens } => {
                write!(f, "no delta of {tokens} tokens begins at {base}, only at multiples of {BLOCK_TOKENS}")
            }
            Self::Sink { offset } => write!(f, "the host did not take the snapshot from byte {offset} on"),
            Self::Source { offset } => write!(f, "the host could not give the snapshot from byte {offset} on"),
            Self::Truncated { needed, given } => write!(f, "snapshot cut off: {needed} bytes needed, {given} given"),
            Self::Trailing { total } => write!(f, "bytes follow the snapshot, which ends after {total}"),
            Self::Magic => f.write_str("not a snapshot"),
            Self::Version { found } => {
                write!(
                    f,
                    "snapshot of version {found}; this library reads versions {} to {}",
                    SnapshotHeader::VERSION,
                    SnapshotHeader::VERSION_WITH_CHECKPOINTS
                )
            }
            Self::HeaderLength { found } => write!(f, "snapshot with an impossible header of {found} bytes"),
            Self::HeaderChecksum { stored, computed } => damaged(f, "header", stored, computed),
            Self::StateChecksum { stored, computed } => damaged(f, "state", stored, computed),
            Self::StateNonFinite => f.write_str("snapshot with an element of the state that is not finite"),
            Self::BlockChecksum { block, stored, computed } => {
                write!(f, "block {block} of the ")?;
                damaged(f, "snapshot", stored, computed)
            }
            Self::Checksum { stored, computed } => damaged(f, "snapshot", stored, computed),
            Self::Model { expected, found } => {
                write!(f, "snapshot of another model: fingerprint {found:#018x} instead of {expected:#018x}")
            }
            Self::Arithmetic { found } => {
                write!(f, "snapshot of arithmetic version {found}; this library computes version {ARITHMETIC_VERSION}")
            }
            Self::Geometry { what, expected, found } => {
                write!(f, "snapshot with {what} {found}; the cache has {what} {expected}")
            }
            Self::Length { expected, found } => {
                write!(f, "snapshot of {found} bytes whose tokens would have {expected}")
            }
            Self::BaseMissing { base, given } => {
                write!(f, "snapshot that follows {base} tokens; the sequence given has {given}")
            }
            Self::Base { stored, computed } => {
                write!(f, "snapshot that follows other tokens: checksum {computed:#018x} instead of {stored:#018x}")
            }
            Self::Token { position, token } => write!(f, "snapshot with impossible token {token} at {position}"),
            Self::NonFinite { block } => write!(f, "snapshot with a key or value in block {block} that is not finite"),
            Self::Cache(error) => error.fmt(f),
        }
    }
}

fn damaged(f: &mut fmt::Formatter<'_>, what: &str, stored: u64, computed: u64) -> fmt::Result {
    write!(f, "{what} damaged: checksum {computed:#018x} instead of {stored:#018x}")
}

impl core::error::Error for SnapshotError {}
