//! The pieces of a conversation as one text, and its tokens.

use core::fmt;
use core::ops::Range;

use super::Piece;
use crate::token::{Encoded, TokenError, Tokenizer};

/// The text of pieces in the caller's memory, with the ranges of it that are text of messages.
///
/// [The guide has an example](crate::guide#chat).
#[derive(Debug)]
pub struct TurnText<'b> {
    text: &'b mut [u8],
    len: usize,
    plain: &'b mut [Range<usize>],
    parts: usize,
}

impl<'b> TurnText<'b> {
    /// Returns an empty text. `text` is the memory for its bytes. `plain` has one range for each text of a message that
    /// is not empty. Texts without a frame between them share one range.
    pub fn new(text: &'b mut [u8], plain: &'b mut [Range<usize>]) -> Self {
        Self { text, len: 0, plain, parts: 0 }
    }

    /// Appends a piece. BOS and EOS are written by their names in the vocabulary.
    ///
    /// # Errors
    /// The piece does not fit into the caller's memory. Then nothing has changed.
    pub fn push(&mut self, tokenizer: &Tokenizer<'_, '_>, piece: Piece<'_>) -> Result<(), TurnTextError> {
        let vocab = tokenizer.vocab();
        let name = |id: Option<u32>| id.and_then(|id| tokenizer.text(id)).unwrap_or_default();
        let bytes = match piece {
            Piece::Bos => name(vocab.bos()),
            Piece::Eos => name(vocab.eos()),
            Piece::Frame(text) | Piece::Text(text) => text.as_bytes(),
        };
        // A name that is not UTF-8 would make the whole text invalid.
        let bytes = core::str::from_utf8(bytes).unwrap_or_default().as_bytes();
        let is_plain = matches!(piece, Piece::Text(_)) && !bytes.is_empty();
        let last = self.parts.checked_sub(1).and_then(|last| self.plain.get(last)).map(|range| range.end);
        // A message's text that comes in several pieces has one range.
        let goes_on = is_plain && last == Some(self.len);
        if is_plain && !goes_on && self.parts >= self.plain.len() {
            return Err(TurnTextError::TooManyTexts { limit: self.plain.len() });
        }
        let (start, end) = (self.len, self.len.saturating_add(bytes.len()));
        let Some(place) = self.text.get_mut(start..end) else {
            return Err(TurnTextError::TooLong { needed: end, given: self.text.len() });
        };
        for (to, from) in place.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.len = end;
        self.parts += usize::from(is_plain && !goes_on);
        if is_plain && let Some(range) = self.parts.checked_sub(1).and_then(|last| self.plain.get_mut(last)) {
            *range = if goes_on { range.start..end } else { start..end };
        }
        Ok(())
    }

    /// Empties the text.
    pub fn clear(&mut self) {
        (self.len, self.parts) = (0, 0);
    }

    /// Returns the whole text.
    pub fn as_str(&self) -> &str {
        self.text.get(..self.len).and_then(|text| core::str::from_utf8(text).ok()).unwrap_or_default()
    }

    /// Returns the byte ranges that are text of messages, from left to right.
    pub fn plain(&self) -> &[Range<usize>] {
        self.plain.get(..self.parts).unwrap_or_default()
    }

    /// Writes the ids of the text to `out`. Returns the number of ids, and of the bytes that the vocabulary cannot
    /// spell. Names of control tokens become these tokens only in the format's own parts. All text between two special
    /// tokens is encoded as one text, so the ids are those of the whole text if no message names a special token. See
    /// [`Tokenizer::encode_framed`].
    ///
    /// # Errors
    /// The errors of [`Tokenizer::encode`].
    pub fn encode(
        &self,
        tokenizer: &Tokenizer<'_, '_>,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<Encoded, TokenError> {
        tokenizer.encode_framed(self.as_str(), self.plain(), scratch, out)
    }
}

/// Why a piece was not appended.
///
/// [Example](crate::turns#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnTextError {
    /// The caller's memory is too small for the text.
    TooLong {
        /// Number of bytes needed so far.
        needed: usize,
        /// Number of bytes given.
        given: usize,
    },
    /// There are more texts of messages than ranges were given.
    TooManyTexts {
        /// Number of ranges given.
        limit: usize,
    },
}

impl fmt::Display for TurnTextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooLong { needed, given } => {
                write!(f, "no room for the conversation: {needed} bytes needed, {given} given")
            }
            Self::TooManyTexts { limit } => write!(f, "more than {limit} messages at once"),
        }
    }
}

impl core::error::Error for TurnTextError {}
