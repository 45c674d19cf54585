//! The memory in which conversations are written. Several conversations can share it.

use core::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::ConversationError;
use super::reply::Reply;
use crate::mem::{Arena, MemoryError};
use crate::token::{TokenError, Tokenizer};
use crate::turns::{Piece, TurnText};

/// Sizes of a [`Desk`].
///
/// [Example](crate::conversation#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskLimits {
    /// Number of tokens of the longest conversation: the engine's context.
    pub context: usize,
    /// Number of bytes of the longest text between two replies that are kept, including what the format writes around
    /// messages. A conversation that was loaded without its tokens is one such text.
    pub text: usize,
    /// Number of bytes of the longest word in that text; at most `text`. Encoding a word takes about 51 bytes per byte.
    pub word: usize,
    /// Largest number of replies of a conversation whose tokens are kept.
    pub replies: usize,
}

/// Memory to write conversations in. It keeps nothing from call to call.
///
/// [Example](crate::conversation#example).
#[derive(Debug)]
pub struct Desk<'a> {
    pub(super) text: &'a mut [u8],
    pub(super) scratch: &'a mut [u32],
    pub(super) ids: &'a mut [u32],
    pub(super) kept: &'a mut [Kept],
}

/// A reply that stays, and the index of its message. `placed` is the index where it begins in the tokens that are
/// written, or [`LEFT_OUT`].
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Kept {
    pub(super) entry: u32,
    pub(super) reply: Reply,
    pub(super) placed: u32,
}

/// Value of `placed` for a reply that is left out.
pub(super) const LEFT_OUT: u32 = u32::MAX;

impl<'a> Desk<'a> {
    /// Returns the size of the memory in bytes.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`].
    pub fn plan(tokenizer: &Tokenizer<'_, '_>, limits: &DeskLimits) -> Result<usize, MemoryError> {
        let mut arena = Arena::measuring();
        Self::carve(&mut arena, tokenizer, limits)?;
        Ok(arena.used())
    }

    /// Returns a desk in `memory`.
    ///
    /// # Errors
    /// [`MemoryError`] if the memory is too small, or not aligned to [`ALIGN`](crate::mem::ALIGN).
    pub fn new(tokenizer: &Tokenizer<'_, '_>, limits: &DeskLimits, memory: &'a mut [u8]) -> Result<Self, MemoryError> {
        Self::carve(&mut Arena::new(memory)?, tokenizer, limits)
    }

    fn carve(arena: &mut Arena<'a>, tokenizer: &Tokenizer<'_, '_>, limits: &DeskLimits) -> Result<Self, MemoryError> {
        // The text of a token has to fit, too.
        let text = limits.text.max(tokenizer.max_push());
        Ok(Self {
            text: arena.slice("text", text)?,
            scratch: arena.slice("scratch", tokenizer.scratch_len(limits.word.min(limits.text)))?,
            ids: arena.slice("ids", limits.context)?,
            // One more for the reply that is being written.
            kept: arena.slice("replies", limits.replies.saturating_add(1))?,
        })
    }
}

/// Largest number of texts that are encoded at once. A longer conversation is cut between two messages.
pub(super) const MOST_TEXTS: usize = 64;
/// Largest number of texts that an entry writes. The texts of tools are written in pieces.
const TEXTS_OF_AN_ENTRY: usize = 32;

/// Tokens of a conversation that is being written.
pub(super) struct Tokens<'d> {
    tokenizer: &'d Tokenizer<'d, 'd>,
    text: TurnText<'d>,
    scratch: &'d mut [u32],
    ids: &'d mut [u32],
    len: usize,
}

impl<'d> Tokens<'d> {
    /// Returns an empty list of tokens. `plain` must have [`MOST_TEXTS`] ranges.
    pub(super) fn new(
        tokenizer: &'d Tokenizer<'d, 'd>,
        (text, plain): (&'d mut [u8], &'d mut [Range<usize>]),
        scratch: &'d mut [u32],
        ids: &'d mut [u32],
    ) -> Self {
        Self { tokenizer, text: TurnText::new(text, plain), scratch, ids, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Appends a piece to the text that is encoded next.
    pub(super) fn put(&mut self, piece: Piece<'_>) -> Result<(), ConversationError> {
        Ok(self.text.push(self.tokenizer, piece)?)
    }

    /// [`Tokens::put`] for any number of texts: it encodes the earlier ones when there is no room for another.
    pub(super) fn put_whole(&mut self, piece: Piece<'_>) -> Result<(), ConversationError> {
        if self.text.plain().len() == MOST_TEXTS {
            self.encode()?;
        }
        self.put(piece)
    }

    /// Begins an entry. If there may be no room for its texts beside the earlier ones, these are encoded first.
    pub(super) fn begin_entry(&mut self) -> Result<(), ConversationError> {
        // An entry may write the system's own message, tools and its text.
        if self.text.plain().len().saturating_add(TEXTS_OF_AN_ENTRY) > MOST_TEXTS { self.encode() } else { Ok(()) }
    }

    /// Encodes the pieces that were put.
    pub(super) fn encode(&mut self) -> Result<(), ConversationError> {
        if self.text.as_str().is_empty() {
            return Ok(());
        }
        let rest = self.ids.get_mut(self.len..).unwrap_or_default();
        let encoded = self.text.encode(self.tokenizer, self.scratch, rest);
        self.len += encoded.map_err(|error| self.full(error))?.ids;
        self.text.clear();
        Ok(())
    }

    /// Appends tokens as they are.
    pub(super) fn extend(&mut self, tokens: impl Iterator<Item = u32>) -> Result<(), ConversationError> {
        for token in tokens {
            let needed = self.len.saturating_add(1);
            let full = ConversationError::ContextFull { needed, context: self.ids.len() };
            *self.ids.get_mut(self.len).ok_or(full)? = token;
            self.len = needed;
        }
        Ok(())
    }

    /// Returns the error for the host: too little room for ids means that the context is full.
    fn full(&self, error: TokenError) -> ConversationError {
        match error {
            TokenError::OutputTooSmall { needed, .. } => {
                let needed = self.len.saturating_add(needed);
                ConversationError::ContextFull { needed, context: self.ids.len() }
            }
            error => error.into(),
        }
    }
}
