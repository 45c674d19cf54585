//! Why a session cannot go on.

use core::fmt;
use std::borrow::ToOwned;
use std::io;
use std::path::{Path, PathBuf};

use crate::conversation::ConversationError;
use crate::engine::EngineError;
#[cfg(feature = "grammar")]
use crate::grammar::{GrammarError, MatchError, TrieError};
use crate::host::OpenError;
use crate::mem::MemoryError;
use crate::sample::SampleError;
use crate::token::{StopError, TokenError};

/// What is wrong with a file, a text or an option. `{:?}` gives the text for a reader, too, because a `main` that
/// returns the error shows it this way.
///
/// [Example](crate::session#example).
#[non_exhaustive]
pub enum SessionError {
    /// The file cannot be opened.
    Open {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        error: OpenError,
    },
    /// A saved conversation cannot be read or written.
    File {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// A saved conversation has results of tools, which a session cannot have.
    ToolResults,
    /// [`Canceller::cancel`](super::Canceller::cancel) was called while the text was read.
    Cancelled,
    /// The engine refused.
    Engine(EngineError),
    /// The tokenizer refused.
    Token(TokenError),
    /// The conversation cannot be written.
    Conversation(ConversationError),
    /// The sampling options are wrong.
    Sample(SampleError),
    /// The memory for the conversation is refused.
    Memory(MemoryError),
    /// The strings that are to end a text cannot be looked for.
    Stop(StopError),
    /// A schema, grammar or regular expression is wrong or not supported.
    #[cfg(feature = "grammar")]
    Grammar(GrammarError),
    /// The text cannot follow its grammar.
    #[cfg(feature = "grammar")]
    Match(MatchError),
    /// The vocabulary cannot be used with grammars.
    #[cfg(feature = "grammar")]
    Trie(TrieError),
}

impl SessionError {
    pub(super) fn open(path: &Path, error: OpenError) -> Self {
        Self::Open { path: path.to_owned(), error }
    }

    pub(super) fn file(path: &Path, error: io::Error) -> Self {
        Self::File { path: path.to_owned(), error }
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, error } => write!(f, "{}: {error}", path.display()),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::ToolResults => f.write_str("the conversation has results of tools, which a session has not"),
            Self::Cancelled => f.write_str("the text was cancelled while it was read"),
            Self::Engine(error) => error.fmt(f),
            Self::Token(error) => error.fmt(f),
            Self::Conversation(error) => error.fmt(f),
            Self::Sample(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Stop(error) => error.fmt(f),
            #[cfg(feature = "grammar")]
            Self::Grammar(error) => error.fmt(f),
            #[cfg(feature = "grammar")]
            Self::Match(error) => error.fmt(f),
            #[cfg(feature = "grammar")]
            Self::Trie(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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
    MemoryError => Memory  StopError => Stop
}

#[cfg(feature = "grammar")]
from! {
    GrammarError => Grammar  MatchError => Match  TrieError => Trie
}
