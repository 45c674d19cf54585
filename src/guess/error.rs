//! Errors of guesses.

use core::fmt;

use crate::engine::EngineError;
#[cfg(feature = "grammar")]
use crate::grammar::MatchError;
use crate::mem::MemoryError;

/// Why tokens could not be guessed, or guesses not be checked.
///
/// [Example](crate::guess#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuessError {
    /// The engine that checks guesses refused.
    Engine(EngineError),
    /// The engine that guesses refused: that of a second model, or of a layer that predicts further ahead.
    Draft(EngineError),
    /// The matcher refused.
    #[cfg(feature = "grammar")]
    Match(MatchError),
    /// The engine's model is no layer that predicts further ahead, or it is the layer of another model.
    NotPredictor,
    /// The tokens that were queued before have not been taken: [`Guessing::end`](super::Guessing::end) comes first.
    Open,
    /// This number of guesses at a time is not possible.
    Most {
        /// Number of guesses that were asked for.
        given: usize,
        /// The greatest number that is possible.
        limit: usize,
    },
    /// The memory does not suit.
    Memory(MemoryError),
}

impl From<EngineError> for GuessError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

impl From<MemoryError> for GuessError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for GuessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Draft(error) => write!(f, "the engine that guesses: {error}"),
            #[cfg(feature = "grammar")]
            Self::Match(error) => error.fmt(f),
            Self::NotPredictor => {
                f.write_str("the engine is not that of the model's layer that predicts further ahead")
            }
            Self::Open => f.write_str("the tokens queued before have not been taken"),
            Self::Most { given, limit } => write!(f, "at most {limit} tokens can be guessed at a time, not {given}"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for GuessError {}
