//! Why a conversation was not written for the model.

use core::fmt;

use crate::engine::EngineError;
use crate::mem::MemoryError;
use crate::token::TokenError;
use crate::turns::TurnTextError;

/// Why a conversation was not brought up to date. Nothing has changed then.
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
    /// There is no entry, and the format has nothing to write either.
    Empty,
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
            Self::Empty => f.write_str("the conversation has no entry"),
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

from! { EngineError => Engine  TokenError => Token  TurnTextError => Text  MemoryError => Memory }
