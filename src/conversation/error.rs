//! Why a conversation was not written for the model.

use core::fmt;

use crate::cache::SnapshotError;
use crate::engine::EngineError;
use crate::mem::MemoryError;
use crate::token::TokenError;
use crate::turns::TurnTextError;

/// Why a conversation was not brought up to date, saved or loaded. Nothing has changed then.
///
/// [Example](crate::conversation#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConversationError {
    /// The engine refuses it.
    Engine(EngineError),
    /// The tokenizer refuses it.
    Token(TokenError),
    /// The memory for text is too small.
    Text(TurnTextError),
    /// The memory for a conversation or a desk is too small or misaligned.
    Memory(MemoryError),
    /// The conversation and the reply do not fit the context, and no turn may be left out, or not enough of them.
    ContextFull {
        /// Tokens of the conversation and of the reply, at least.
        needed: usize,
        /// Tokens that a sequence can have.
        context: usize,
    },
    /// The bytes are no saved conversation.
    NoConversation,
    /// A saved conversation in a version of the format that is not known here.
    Version {
        /// The version.
        given: u32,
        /// The one that is known.
        known: u32,
    },
    /// A saved conversation is damaged.
    Damaged {
        /// The first byte that is wrong, or behind a part whose checksum is.
        at: usize,
    },
    /// A buffer is too small for a saved conversation.
    Buffer {
        /// Bytes that are needed.
        needed: usize,
        /// Bytes that there are.
        given: usize,
    },
    /// There is no entry, and the format has nothing to write either.
    Empty,
    /// The host's template cannot write the conversation.
    Template,
    /// The host's summary cannot be written.
    Summary,
    /// A result of a tool, in a script without tools.
    NoTools {
        /// The index of the entry.
        entry: usize,
    },
}

impl fmt::Display for ConversationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Token(error) => error.fmt(f),
            Self::Text(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::ContextFull { needed, context } => {
                write!(f, "the conversation and its reply take {needed} tokens or more, the context has {context}")
            }
            Self::NoConversation => f.write_str("the bytes are no saved conversation"),
            Self::Version { given, known } => {
                write!(f, "the conversation was saved in version {given}, known is {known}")
            }
            Self::Damaged { at } => write!(f, "the saved conversation is damaged at byte {at}"),
            Self::Buffer { needed, given } => {
                write!(f, "the saved conversation has {needed} bytes, the buffer has {given}")
            }
            Self::Empty => f.write_str("the conversation has no entry"),
            Self::Template => f.write_str("the template cannot write the conversation"),
            Self::Summary => f.write_str("the summary cannot be written"),
            Self::NoTools { entry } => write!(f, "entry {entry} is a tool's result, and no tools are offered"),
        }
    }
}

impl core::error::Error for ConversationError {}

macro_rules! from {
    ($($error:ident => $variant:ident)*) => {
        $(impl From<$error> for ConversationError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

impl From<SnapshotError> for ConversationError {
    fn from(error: SnapshotError) -> Self {
        Self::Engine(error.into())
    }
}

from! { EngineError => Engine  TokenError => Token  TurnTextError => Text  MemoryError => Memory }
