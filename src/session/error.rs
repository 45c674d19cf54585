//! Why a session cannot go on.

use core::fmt;
use std::borrow::ToOwned;
use std::path::{Path, PathBuf};

use crate::conversation::ConversationError;
use crate::engine::EngineError;
use crate::host::OpenError;
use crate::mem::MemoryError;
use crate::sample::SampleError;
use crate::token::TokenError;

/// What is wrong with a file, a text or an option.
///
/// [Example](crate::session#example).
#[derive(Debug)]
#[non_exhaustive]
pub enum SessionError {
    /// The file cannot be opened.
    Open {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: OpenError,
    },
    /// The engine refuses it.
    Engine(EngineError),
    /// The tokenizer refuses it.
    Token(TokenError),
    /// The conversation cannot be written.
    Conversation(ConversationError),
    /// The sampling options are wrong.
    Sample(SampleError),
    /// Memory for the conversation.
    Memory(MemoryError),
}

impl SessionError {
    pub(super) fn open(path: &Path, error: OpenError) -> Self {
        Self::Open { path: path.to_owned(), error }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Engine(error) => error.fmt(f),
            Self::Token(error) => error.fmt(f),
            Self::Conversation(error) => error.fmt(f),
            Self::Sample(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SessionError {}

macro_rules! from {
    ($($error:ident => $variant:ident)*) => {
        $(impl From<$error> for SessionError {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        })*
    };
}

from! {
    EngineError => Engine  TokenError => Token  ConversationError => Conversation  SampleError => Sample
    MemoryError => Memory
}
