//! Errors of compilations and of matchers.

use core::fmt;

use crate::mem::MemoryError;

/// Why a grammar was refused, and where.
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrammarError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Byte offset of the error in the source.
    pub at: usize,
}

/// What is wrong with the source of a grammar.
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The source does not follow its syntax. The text says what was expected or is wrong.
    Syntax(&'static str),
    /// A keyword of a schema, or a part of an expression, that is not supported.
    Unsupported(&'static str),
    /// The value of a keyword is not what the keyword takes.
    Value(&'static str),
    /// No text satisfies the grammar.
    Empty,
    /// A rule begins with itself.
    LeftRecursion,
    /// An automaton has more states than [`Options::states`](super::Options::states).
    TooManyStates {
        /// The most states.
        limit: u32,
    },
    /// The scratch is too small.
    ScratchTooSmall {
        /// Number of 32-bit words given.
        given: usize,
    },
    /// The grammar is not made yet, or the bytes that it takes are not known.
    Unfinished,
    /// The memory does not suit what the grammar was planned for.
    Memory(MemoryError),
}

impl GrammarError {
    /// Returns the keyword that the error names.
    pub fn keyword(&self) -> Option<&'static str> {
        match self.kind {
            ErrorKind::Unsupported(keyword) | ErrorKind::Value(keyword) => Some(keyword),
            _ => None,
        }
    }
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at;
        match self.kind {
            ErrorKind::Syntax(what) => write!(f, "{what} at byte {at}"),
            ErrorKind::Unsupported(what) => write!(f, "{what} at byte {at} is not supported"),
            ErrorKind::Value(what) => write!(f, "{what} at byte {at} has a value that it does not take"),
            ErrorKind::Empty => write!(f, "no text satisfies the grammar: no end at byte {at}"),
            ErrorKind::LeftRecursion => write!(f, "left recursion at byte {at}"),
            ErrorKind::TooManyStates { limit } => write!(f, "more than {limit} states at byte {at}"),
            ErrorKind::ScratchTooSmall { given } => write!(f, "the scratch of {given} 32-bit words is too small"),
            ErrorKind::Unfinished => f.write_str("the grammar is not finished"),
            ErrorKind::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for GrammarError {}

/// Why a matcher refuses to continue. The state is as before the call.
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatchError {
    /// The text can be read in more ways at once than [`Limits::items`](super::Limits::items).
    TooAmbiguous {
        /// The most items.
        limit: usize,
    },
    /// Calls of rules are nested deeper than [`Limits::depth`](super::Limits::depth), or take more nodes than
    /// [`Limits::nodes`](super::Limits::nodes).
    TooDeep {
        /// The most calls or nodes.
        limit: usize,
    },
    /// The memory does not suit [`Matcher::plan`](super::Matcher::plan).
    Memory(MemoryError),
    /// The mask does not have one bit for each token.
    Mask {
        /// Number of elements that are needed: [`TokenTrie::mask_len`](super::TokenTrie::mask_len).
        needed: usize,
        /// Number of elements that were given.
        given: usize,
    },
    /// The text may not end here, and no token of the vocabulary begins with what has to follow.
    NoToken {
        /// The least byte that may follow; [`Matcher::next_bytes`](super::Matcher::next_bytes) says which others may.
        /// `None` where the grammar names a token that the vocabulary does not have.
        byte: Option<u8>,
    },
    /// The scratch is smaller than [`Matcher::forced_scratch_len`](super::Matcher::forced_scratch_len).
    ScratchTooSmall {
        /// 32-bit words that are needed.
        needed: usize,
        /// 32-bit words that were given.
        given: usize,
    },
    /// The grammar was compiled without [`Options::close`](super::Options::close).
    NoEnds,
    /// The state before that many tokens is not kept any more.
    NotKept {
        /// Number of tokens that were to be taken back.
        given: usize,
        /// Number of tokens that can be taken back: [`Matcher::rewindable`](super::Matcher::rewindable).
        kept: usize,
    },
    /// The buffer is smaller than the snapshot.
    Buffer {
        /// Bytes that are needed.
        needed: usize,
        /// Bytes that were given.
        given: usize,
    },
    /// These bytes are no snapshot of a matcher.
    NoSnapshot,
    /// The snapshot has a version of the format that is not read.
    Version {
        /// Its version.
        given: u32,
        /// The version that is read.
        known: u32,
    },
    /// The snapshot is of another grammar, of other options, or of another version of the compiler.
    OtherGrammar,
    /// The snapshot is damaged, or was never right.
    Damaged {
        /// Byte offset up to which the snapshot is right.
        at: usize,
    },
}

impl fmt::Display for MatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooAmbiguous { limit } => write!(f, "the text can be read in more than {limit} ways at once"),
            Self::TooDeep { limit } => write!(f, "calls are nested deeper than the limit of {limit}"),
            Self::Mask { needed, given } => write!(f, "the mask must have {needed} elements, it has {given}"),
            Self::NoToken { byte: Some(byte) } => write!(f, "no token of the vocabulary may follow; byte {byte} may"),
            Self::NoToken { byte: None } => f.write_str("no token of the vocabulary may follow"),
            Self::ScratchTooSmall { needed, given } => {
                write!(f, "forced tokens need {needed} 32-bit words of scratch, {given} given")
            }
            Self::NoEnds => f.write_str("the grammar was compiled without the option close"),
            Self::NotKept { given, kept } => write!(f, "{given} tokens cannot be taken back, {kept} can"),
            Self::Buffer { needed, given } => write!(f, "the snapshot has {needed} bytes, the buffer {given}"),
            Self::NoSnapshot => f.write_str("not a snapshot of a matcher"),
            Self::Version { given, known } => write!(f, "version {given} of snapshots is not read, but {known}"),
            Self::OtherGrammar => f.write_str("the snapshot is of another grammar"),
            Self::Damaged { at } => write!(f, "the snapshot is damaged at byte {at}"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for MatchError {}
