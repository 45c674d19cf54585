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
    /// The engine refused.
    Engine(EngineError),
    /// The tokenizer refused.
    Token(TokenError),
    /// The memory for text is too small.
    Text(TurnTextError),
    /// The memory for a conversation or a desk is too small or misaligned.
    Memory(MemoryError),
    /// The conversation and the reply do not fit the context, and no turns, or not enough of them, may be left out.
    ContextFull {
        /// Smallest number of tokens of the conversation and the reply.
        needed: usize,
        /// Number of tokens that a sequence can have.
        context: usize,
    },
    /// The bytes are no saved conversation.
    NoConversation,
    /// A saved conversation has a version of the format that is not known here.
    Version {
        /// Version of the saved conversation.
        given: u32,
        /// Version that is known.
        known: u32,
    },
    /// A saved conversation is damaged.
    Damaged {
        /// Index of the first wrong byte, or of the byte behind a part whose checksum is wrong.
        at: usize,
    },
    /// A buffer is too small for a saved conversation.
    Buffer {
        /// Number of bytes that are needed.
        needed: usize,
        /// Number of bytes that there are.
        given: usize,
    },
    /// There is no entry, and the format writes nothing by itself.
    Empty,
    /// The host's template cannot write the conversation.
    Template,
    /// The host's summary cannot be written.
    Summary,
    /// An entry is a result of a tool, and the script has no tools.
    NoTools {
        /// Index of the entry.
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
