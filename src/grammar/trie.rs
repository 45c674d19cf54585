//! The tokens of a vocabulary by their bytes: tokens that begin alike share nodes.

use core::fmt;

use bytemuck::{Pod, Zeroable};

use super::sorted::Sorted;
use crate::mem::{Arena, MemoryError};
use crate::token::Tokenizer;

/// The most bytes of a token; longer ones are never allowed.
pub(super) const MAX_BYTES: usize = 512;

/// The texts of tokens.
///
/// [Example](crate::grammar#tokens).
pub trait Vocabulary {
    /// Returns the number of ids.
    fn tokens(&self) -> u32;

    /// Calls `f` with each byte that a token adds in the middle of a text. A token that is no text, as those that control a
    /// model, has none.
    fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8));
}

/// Tokens that the file calls normal, user-defined or bytes are text, also those whose names control models elsewhere.
impl Vocabulary for Tokenizer<'_, '_> {
    fn tokens(&self) -> u32 {
        u32::try_from(self.vocab().len()).unwrap_or(u32::MAX)
    }

    fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
        self.each_byte_of_text(id, f);
    }
}

/// The tokens of a vocabulary by their bytes, in the caller's memory. It is made once and serves all grammars.
///
/// [Example](crate::grammar#tokens).
#[derive(Debug)]
pub struct TokenTrie<'m> {
    /// Of all tokens, in the order of their bytes.
    all: &'m [Node],
    /// Of those that are not plain.
    rest: &'m [Node],
    /// Plain tokens: whole characters that a string of JSON has as they are.
    plain: &'m [u32],
    /// A token of the trie, and another one with the same bytes.
    alike: &'m [[u32; 2]],
    tokens: u32,
}

/// A byte of tokens.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Node {
    /// The byte in the upper 8 bits; below the token that ends here, plus 1, or 0.
    token: u32,
    /// The number of nodes from here to the next that does not begin with this one, in the upper 22 bits; below the number
    /// of bytes up to here.
    tree: u32,
}

impl Node {
    pub(super) fn new(byte: u8, depth: usize, token: Option<u32>) -> Self {
        Self { token: u32::from(byte) << 24 | token.map_or(0, |id| id + 1), tree: depth as u32 }
    }

    pub(super) fn set_nodes(&mut self, nodes: usize) {
        self.tree |= (nodes as u32) << 10;
    }

    pub(super) fn byte(self) -> u8 {
        (self.token >> 24) as u8
    }

    pub(super) fn token(self) -> Option<u32> {
        (self.token & 0xFF_FFFF).checked_sub(1)
    }

    pub(super) fn nodes(self) -> u32 {
        self.tree >> 10
    }

    pub(super) fn depth(self) -> usize {
        (self.tree & 0x3FF) as usize
    }
}

/// The most ids and nodes that the fields of a node hold.
pub(super) const MOST: u32 = (1 << 22) - 1;

impl<'m> TokenTrie<'m> {
    /// Returns the 32-bit words of scratch that [`TokenTrie::plan`] and [`TokenTrie::new`] need.
    pub fn scratch_len(vocabulary: &dyn Vocabulary) -> usize {
        let mut bytes = 0_usize;
        let tokens = vocabulary.tokens();
        (0..tokens).for_each(|id| vocabulary.each_byte(id, &mut |_| bytes = bytes.saturating_add(1)));
        (2 * tokens as usize).saturating_add(1).saturating_add(bytes.div_ceil(4))
    }

    /// Returns the bytes of memory that [`TokenTrie::new`] needs.
    ///
    /// # Errors
    /// [`TrieError`]: the vocabulary is too large, or the scratch is too small.
    pub fn plan(vocabulary: &dyn Vocabulary, scratch: &mut [u32]) -> Result<usize, TrieError> {
        let sorted = Sorted::new(vocabulary, scratch)?;
        let mut arena = Arena::measuring();
        Self::carve(&mut arena, &sorted)?;
        Ok(arena.used())
    }

    /// Makes the tables in `memory`, which starts at a multiple of [`crate::mem::ALIGN`].
    ///
    /// # Errors
    /// As [`TokenTrie::plan`]; [`TrieError::Memory`] if `memory` does not suit it.
    pub fn new(vocabulary: &dyn Vocabulary, scratch: &mut [u32], memory: &'m mut [u8]) -> Result<Self, TrieError> {
        let sorted = Sorted::new(vocabulary, scratch)?;
        let mut arena = Arena::new(memory).map_err(TrieError::Memory)?;
        let (all, rest, plain, alike) = Self::carve(&mut arena, &sorted)?;
        sorted.fill(|_| true, all);
        sorted.fill(|text| !is_plain(text), rest);
        plain.fill(0);
        for (id, _) in sorted.texts().filter(|(_, text)| is_plain(text)) {
            if let Some(word) = plain.get_mut(id as usize / 32) {
                *word |= 1 << (id % 32);
            }
        }
        sorted.pairs(&mut |index, pair| alike.get_mut(index).into_iter().for_each(|place| *place = pair));
        Ok(Self { all, rest, plain, alike, tokens: vocabulary.tokens() })
    }

    /// Returns the elements of a mask: one bit for each id.
    pub fn mask_len(&self) -> usize {
        self.tokens.div_ceil(32) as usize
    }

    /// The nodes of all tokens, or of those that are not plain.
    pub(super) fn nodes(&self, rest: bool) -> &'m [Node] {
        if rest { self.rest } else { self.all }
    }

    /// The bits of the plain tokens.
    pub(super) fn plain(&self) -> &'m [u32] {
        self.plain
    }

    /// Tokens of the trie, each with another one with the same bytes.
    pub(super) fn alike(&self) -> &'m [[u32; 2]] {
        self.alike
    }

    /// Returns the number of ids.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    #[allow(clippy::type_complexity)] // The tables, once.
    fn carve(
        arena: &mut Arena<'m>,
        sorted: &Sorted<'_>,
    ) -> Result<(&'m mut [Node], &'m mut [Node], &'m mut [u32], &'m mut [[u32; 2]]), TrieError> {
        let (mut pairs, [all, rest]) = (0, [sorted.count(|_| true), sorted.count(|text| !is_plain(text))]);
        sorted.pairs(&mut |_, _| pairs += 1);
        if all > MOST as usize {
            return Err(TrieError::TooLarge { given: all, limit: MOST });
        }
        let words = (sorted.ids.len()).div_ceil(32);
        let carve = |error| TrieError::Memory(error);
        Ok((
            arena.slice("tokens", all).map_err(carve)?,
            arena.slice("other tokens", rest).map_err(carve)?,
            arena.slice("plain tokens", words).map_err(carve)?,
            arena.slice("tokens alike", pairs).map_err(carve)?,
        ))
    }
}

/// Whether a token is whole characters that a string of JSON has as they are.
fn is_plain(text: &[u8]) -> bool {
    let plain = |&byte: &u8| byte >= 0x20 && !matches!(byte, b'"' | b'\\' | 0x7F);
    text.iter().all(plain) && core::str::from_utf8(text).is_ok()
}

/// Why a trie cannot be made.
///
/// [Example](crate::grammar#tokens).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrieError {
    /// There are more tokens, nodes or bytes than the tables can number.
    TooLarge {
        /// How many there are.
        given: usize,
        /// The most that there can be.
        limit: u32,
    },
    /// The scratch is smaller than [`TokenTrie::scratch_len`].
    ScratchTooSmall {
        /// 32-bit words that are needed.
        needed: usize,
        /// 32-bit words given.
        given: usize,
    },
    /// The memory does not suit [`TokenTrie::plan`].
    Memory(MemoryError),
}

impl fmt::Display for TrieError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { given, limit } => write!(f, "the vocabulary is too large: {given}, the limit is {limit}"),
            Self::ScratchTooSmall { needed, given } => {
                write!(f, "the trie needs {needed} 32-bit words of scratch, {given} given")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TrieError {}
