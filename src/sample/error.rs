//! What can be wrong with parameters and logits.

use core::fmt;

/// Why no token was chosen, or why a parameter was rejected. The sampler has not changed.
///
/// [Example](crate::sample#example).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum SampleError {
    /// A parameter is out of its range.
    Parameter {
        /// The name of the parameter in [`SamplerParams`](super::SamplerParams).
        name: &'static str,
        /// The value of the parameter.
        value: f32,
        /// The values that are allowed, in words.
        allowed: &'static str,
    },
    /// The penalties are to look further back than the sampler remembers.
    Window {
        /// The window that was asked for, in tokens.
        given: usize,
        /// The longest window.
        limit: usize,
    },
    /// There are more logit biases than the sampler holds.
    TooManyBiases {
        /// Number of biases that were given.
        given: usize,
        /// Number of biases that fit.
        limit: usize,
    },
    /// A logit bias is NaN or +infinity.
    Bias {
        /// The token that it is for.
        token: u32,
    },
    /// A logit bias is for no token, or for more than there is room for.
    BiasTokens {
        /// Number of tokens of the bias.
        given: usize,
        /// Largest number of tokens that it can have beside those of the other biases.
        limit: usize,
    },
    /// A logit bias is for a token that the vocabulary does not have.
    UnknownToken {
        /// The token.
        token: u32,
        /// The number of logits.
        vocab: usize,
    },
    /// The number of logits is 0 or more than there are ids.
    Vocab {
        /// The number of logits.
        given: usize,
    },
    /// A logit is infinite or NaN, or became so by a penalty or bias.
    NonFinite {
        /// The first such token.
        token: u32,
    },
    /// Biases of −infinity have banned every token that is allowed.
    AllBanned,
    /// The mask allows no token.
    AllMasked,
    /// The mask does not have one bit for each token.
    Mask {
        /// The number of logits / 32, rounded up.
        needed: usize,
        /// Number of elements that were given.
        given: usize,
    },
    /// The scratch memory is too small.
    ScratchTooSmall {
        /// Number of elements that are needed: [`scratch_len`](super::scratch_len).
        needed: usize,
        /// Number of elements that were given.
        given: usize,
    },
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Parameter { name, value, allowed } => write!(f, "{name} must be {allowed}, it is {value}"),
            Self::Window { given, limit } => {
                write!(f, "the penalties can look back at most {limit} tokens, not {given}")
            }
            Self::TooManyBiases { given, limit } => write!(f, "at most {limit} logit biases, {given} given"),
            Self::Bias { token } => write!(f, "the logit bias of token {token} must be finite, or -infinity as a ban"),
            Self::BiasTokens { given, limit } => {
                write!(f, "this logit bias must be for 1 to {limit} tokens, {given} given")
            }
            Self::UnknownToken { token, vocab } => {
                write!(f, "a logit bias is for token {token}, the vocabulary has {vocab}")
            }
            Self::Vocab { given } => write!(f, "there must be from 1 to {} logits, not {given}", u32::MAX),
            Self::NonFinite { token } => write!(f, "the logit of token {token} is not finite"),
            Self::AllBanned => f.write_str("the logit biases ban every token that is allowed"),
            Self::AllMasked => f.write_str("the mask allows no token"),
            Self::Mask { needed, given } => write!(f, "the mask must have {needed} elements, it has {given}"),
            Self::ScratchTooSmall { needed, given } => {
                write!(f, "sampling needs {needed} elements of scratch, {given} given")
            }
        }
    }
}

impl core::error::Error for SampleError {}
