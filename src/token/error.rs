//! Errors of vocabularies, texts and ids.

use core::fmt;

use gguf_rs_lite::Name;

use crate::mem::MemoryError;

/// Why a text was not encoded, or an id not decoded.
///
/// [Example](crate::token#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The text is too long to be encoded at once.
    TextTooLong {
        /// The length of the text, in bytes.
        bytes: usize,
        /// The most bytes that a text may have.
        limit: usize,
    },
    /// The scratch is too small for the longest word of this text.
    ScratchTooSmall {
        /// Number of 32-bit words that suffice.
        needed: usize,
        /// Number of 32-bit words given.
        given: usize,
    },
    /// The output is too small.
    OutputTooSmall {
        /// Number of elements needed.
        needed: usize,
        /// Number of elements given.
        given: usize,
    },
    /// The vocabulary cannot spell a byte of the text, and [`EncodeOptions::exact`](super::EncodeOptions::exact) is
    /// set.
    NoToken {
        /// The byte.
        byte: u8,
        /// Offset of the byte in the text.
        at: usize,
    },
    /// The vocabulary has no token with this id.
    UnknownId {
        /// The id.
        id: u32,
        /// Number of tokens.
        tokens: usize,
    },
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TextTooLong { bytes, limit } => {
                write!(f, "a text of {bytes} bytes is too long, the limit is {limit}")
            }
            Self::ScratchTooSmall { needed, given } => {
                write!(f, "scratch too small: {needed} 32-bit words needed, {given} given")
            }
            Self::OutputTooSmall { needed, given } => write!(f, "output too small: {needed} needed, {given} given"),
            Self::NoToken { byte, at } => {
                write!(f, "the vocabulary has no token for byte {byte:#04x} at {at}")
            }
            Self::UnknownId { id, tokens } => write!(f, "no token has the id {id}, there are {tokens}"),
        }
    }
}

impl core::error::Error for TokenError {}

/// Why a file's vocabulary cannot be used.
///
/// [Example](crate::token#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VocabError {
    /// The file lacks this key.
    Missing(&'static str),
    /// The value of this key has a type that is not allowed.
    WrongType(&'static str),
    /// `tokenizer.ggml.model` is not `llama`, `gpt2` or `gemma4` nor, in builds with encoders, `bert`, `t5` or
    /// `whitespace`.
    UnknownModel(Name),
    /// The value of this key is damaged.
    Damaged(&'static str),
    /// `tokenizer.ggml.pre` names a pre-tokenizer that is not supported.
    UnknownPreTokenizer(Name),
    /// There are no tokens, or more than 2^28.
    TokenCount {
        /// The number of tokens.
        tokens: usize,
    },
    /// An array does not have one element for each token.
    WrongLength {
        /// The array's key.
        key: &'static str,
        /// Number of tokens.
        needed: usize,
        /// Number of elements.
        found: usize,
    },
    /// A token id is not in the vocabulary.
    IdOutOfRange {
        /// The id's key.
        key: &'static str,
        /// The id.
        id: i64,
        /// Number of tokens.
        tokens: usize,
    },
    /// The texts of the tokens are too large for 32-bit numbers.
    TooLarge {
        /// The key of the array.
        key: &'static str,
        /// The size of the array in the file, in bytes.
        bytes: usize,
    },
    /// So many tokens have the same hash that the file must have been made to cause this.
    Collisions {
        /// The key of the array.
        key: &'static str,
    },
    /// A special token is longer than any useful one.
    SpecialTooLong {
        /// Id of the token.
        id: u32,
        /// The length of the token, in bytes.
        bytes: usize,
        /// The most bytes that such a token may have.
        limit: usize,
    },
    /// The caller's memory is too small or misaligned.
    Memory(MemoryError),
}

impl From<MemoryError> for VocabError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for VocabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Missing(key) => write!(f, "the file has no {key}"),
            Self::Damaged(key) => write!(f, "{key} is damaged"),
            Self::WrongType(key) => write!(f, "{key} has a type that it cannot have"),
            Self::UnknownModel(name) => {
                let more = if cfg!(feature = "encoder") { ", bert, t5, whitespace" } else { "" };
                write!(f, "tokenizer model {name} is not supported (llama, gpt2, gemma4{more})")
            }
            Self::UnknownPreTokenizer(name) => write!(f, "pre-tokenizer {name} is not supported"),
            Self::TokenCount { tokens } => write!(f, "a vocabulary of {tokens} tokens"),
            Self::WrongLength { key, needed, found } => {
                write!(f, "{key} has {found} elements for {needed} tokens")
            }
            Self::IdOutOfRange { key, id, tokens } => write!(f, "{key} is {id}, but there are {tokens} tokens"),
            Self::TooLarge { key, bytes } => write!(f, "{key} takes {bytes} bytes, more than 4 GiB"),
            Self::Collisions { key } => write!(f, "too many entries of {key} have the same hash"),
            Self::SpecialTooLong { id, bytes, limit } => {
                write!(f, "special token {id} has {bytes} bytes, the limit is {limit}")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for VocabError {}
