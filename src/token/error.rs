//! What can go wrong with texts and ids.

use core::fmt;

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
        /// 32-bit words that suffice.
        needed: usize,
        /// 32-bit words given.
        given: usize,
    },
    /// The output is too small.
    OutputTooSmall {
        /// Elements needed.
        needed: usize,
        /// Elements given.
        given: usize,
    },
    /// The vocabulary cannot spell a byte of the text, and [`EncodeOptions::exact`](super::EncodeOptions::exact) is set.
    NoToken {
        /// The byte.
        byte: u8,
        /// Where it is in the text.
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
