//! The tokens of a vocabulary by their bytes: tokens that begin alike share nodes.

use core::fmt;

use bytemuck::{Pod, Zeroable};

use super::build::TrieBuild;
use super::matcher::contains;
use crate::mem::MemoryError;
use crate::token::Tokenizer;

/// The most bytes of a token; longer ones are never allowed.
pub(super) const MAX_BYTES: usize = 512;

/// The texts of tokens.
///
/// [Example](crate::grammar#tokens).
pub trait Vocabulary {
    /// Returns the number of ids.
    fn tokens(&self) -> u32;

    /// Calls `f` with each byte that a token adds in the middle of a text. A token that is no text, as those that
    /// control a model, has none.
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

/// There is a mask of plain tokens for each number of characters up to this one.
pub(super) const SHORT: u32 = 16;

/// The tokens of a vocabulary by their bytes, in the caller's memory. It is made once and serves all grammars.
///
/// [Example](crate::grammar#tokens).
#[derive(Debug)]
pub struct TokenTrie<'m> {
    /// Nodes of all tokens, in the order of their bytes.
    pub(super) all: &'m [Node],
    /// Nodes of the tokens that are not plain.
    pub(super) rest: &'m [Node],
    /// For each byte, in `all` and then in `rest`: index of the node of the first token that begins with this byte or
    /// with a later one.
    pub(super) firsts: &'m [u32],
    /// For each codec: the tokens of strings.
    pub(super) strings: [Strings<'m>; CODECS],
    /// Masks of plain tokens, which are whole characters that a string of JSON has as they are. The first mask has all
    /// of them. Then there is one for each number of characters up to [`SHORT`], of the tokens that have no more.
    pub(super) plain: &'m [u32],
    /// Plain tokens of more than [`SHORT`] characters: the number of characters, and the id.
    pub(super) long: &'m [[u32; 2]],
    /// Pairs of ids: a token of the trie, and another one with the same bytes; or [`NONE`], and a token with too many
    /// bytes.
    pub(super) alike: &'m [[u32; 2]],
    pub(super) tokens: u32,
    /// The most bytes of a token.
    pub(super) longest: u32,
    /// Whether there are tokens without bytes.
    pub(super) has_silent: bool,
}

/// Number of different bytes with which tokens can begin.
pub(super) const FIRSTS: usize = 256;

/// The id of no token.
pub(super) const NONE: u32 = u32::MAX;

/// The tokens of strings of any characters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Strings<'m> {
    /// Mask of the tokens that stand in a string.
    pub(super) within: &'m [u32],
    /// Nodes of the tokens that end a string, by their bytes from the quote on. The number at a node is an index in
    /// `tokens`.
    pub(super) ends: &'m [Node],
    /// Ids of the tokens that end a string, in this order. Bit 31: the next one ends in the same way.
    pub(super) tokens: &'m [u32],
}

/// The codecs of strings: 1 and the following numbers.
pub(super) const CODECS: usize = 3;

/// A node of the trie: a byte of the tokens that begin alike up to it.
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Node {
    /// Upper 8 bits: the byte. Below: the id of the token that ends here plus 1, or 0.
    token: u32,
    /// Upper 22 bits: the number of nodes from this one to the next that does not begin with it. Below: the number of
    /// bytes up to this one.
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

/// The tokens over which a walk goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Part {
    #[default]
    All,
    /// The tokens that are not plain.
    Rest,
    /// The tokens in which a string of this codec ends, by their bytes from its quote on.
    Closing(u32),
}

/// The most ids and nodes that the fields of a node hold.
pub(super) const MOST: u32 = (1 << 22) - 1;

impl<'m> TokenTrie<'m> {
    /// Returns the number of 32-bit words of scratch that [`TokenTrie::plan`] and [`TokenTrie::new`] need.
    pub fn scratch_len(vocabulary: &dyn Vocabulary) -> usize {
        let mut bytes = 0_usize;
        let tokens = vocabulary.tokens();
        (0..tokens).for_each(|id| vocabulary.each_byte(id, &mut |_| bytes = bytes.saturating_add(1)));
        (tokens as usize).saturating_mul(4).saturating_add(bytes.div_ceil(4))
    }

    /// Returns the number of bytes of memory that [`TokenTrie::new`] needs.
    ///
    /// # Errors
    /// [`TrieError`]: the vocabulary is too large, or the scratch is too small.
    pub fn plan(vocabulary: &dyn Vocabulary, scratch: &mut [u32]) -> Result<usize, TrieError> {
        let mut build = TrieBuild::new(vocabulary, scratch)?;
        build.step(usize::MAX)?;
        build.bytes()
    }

    /// Makes the tables in `memory`, which starts at a multiple of [`crate::mem::ALIGN`]. [`TrieBuild`] does the same
    /// in pieces, and need not measure twice.
    ///
    /// # Errors
    /// As [`TokenTrie::plan`]; [`TrieError::Memory`] if `memory` does not suit it.
    pub fn new(vocabulary: &dyn Vocabulary, scratch: &mut [u32], memory: &'m mut [u8]) -> Result<Self, TrieError> {
        let mut build = TrieBuild::new(vocabulary, scratch)?;
        build.step(usize::MAX)?;
        build.place(memory)?;
        build.step(usize::MAX)?;
        build.finish()
    }

    /// Returns the number of elements of a mask, which has one bit for each id.
    pub fn mask_len(&self) -> usize {
        self.tokens.div_ceil(32) as usize
    }

    /// Returns the nodes of a part of the tokens.
    pub(super) fn nodes(&self, part: Part) -> &'m [Node] {
        match part {
            Part::All => self.all,
            Part::Rest => self.rest,
            Part::Closing(codec) => self.strings(codec).ends,
        }
    }

    /// Returns the index of the first node of a part whose token begins with one of `bytes` that is greater than
    /// `byte`.
    pub(super) fn begin_behind(&self, part: Part, byte: u8, bytes: &[u64; 4]) -> usize {
        let begin = if part == Part::All { 0 } else { FIRSTS };
        let next = (byte..=255).skip(1).find(|byte| contains(bytes, *byte));
        let place = next.and_then(|byte| self.firsts.get(begin + usize::from(byte)));
        place.map_or(usize::MAX, |place| *place as usize)
    }

    /// Sets the bit of the token that ends at a node, or of all tokens for which the node stands.
    #[inline]
    pub(super) fn allow(&self, part: Part, node: Node, mask: &mut [u32]) {
        let Some(number) = node.token() else { return };
        let Part::Closing(codec) = part else { return set(mask, number) };
        for &token in self.strings(codec).tokens.get(number as usize..).unwrap_or_default() {
            set(mask, token & !(1 << 31));
            if token >> 31 == 0 {
                return;
            }
        }
    }

    /// Sets the bits of the tokens that stand in a string, and clears the others.
    pub(super) fn allow_within(&self, codec: u32, mask: &mut [u32]) {
        mask.iter_mut().zip(self.strings(codec).within).for_each(|(word, bits)| *word = *bits);
    }

    #[inline]
    fn strings(&self, codec: u32) -> Strings<'m> {
        self.strings.get((codec as usize).wrapping_sub(1)).copied().unwrap_or_default()
    }

    /// Returns the most bytes of a token.
    pub(super) fn longest(&self) -> u32 {
        self.longest
    }

    /// Sets the bits of all tokens, and no others.
    pub(super) fn allow_all(&self, mask: &mut [u32]) {
        mask.fill(0);
        set_range(mask, 0, self.tokens);
    }

    /// Sets the bits of the plain tokens of at most `chars` characters, and clears the others.
    pub(super) fn allow_plain(&self, chars: u32, mask: &mut [u32]) {
        let slice = if chars >= self.longest { 0 } else { chars.min(SHORT) } as usize;
        let bits = self.plain.get(slice.saturating_mul(self.mask_len())..).unwrap_or_default();
        mask.iter_mut().zip(bits).for_each(|(word, bits)| *word = if chars == 0 { 0 } else { *bits });
        if slice > 0 {
            self.long.iter().filter(|[len, _]| *len <= chars).for_each(|[_, id]| set(mask, *id));
        }
    }

    /// Returns whether a token begins with a text and goes on with one of these bytes.
    pub(super) fn goes_on(&self, text: &[u8], next: &[u64; 4]) -> bool {
        let (mut at, mut end) = (0, self.all.len());
        let mut bytes = text.iter();
        let mut wanted = bytes.next();
        // The nodes of tokens that begin with the part of the text found so far lie from `at` to `end`.
        while let Some(node) = self.all.get(at).filter(|_| at < end) {
            let behind = at.saturating_add(node.nodes().max(1) as usize);
            match wanted {
                Some(byte) if *byte == node.byte() => {
                    (at, end, wanted) = (at + 1, behind, bytes.next());
                }
                None if contains(next, node.byte()) => return true,
                _ => at = behind,
            }
        }
        false
    }

    /// Returns pairs of ids: a token of the trie, and another one with the same bytes; or [`NONE`], and a token with
    /// too many bytes.
    pub(super) fn alike(&self) -> &'m [[u32; 2]] {
        self.alike
    }

    /// Returns whether there are tokens without bytes.
    pub(super) fn has_silent(&self) -> bool {
        self.has_silent
    }

    /// Returns the number of ids.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }
}

/// Returns the number of characters of a plain token.
pub(super) fn chars(text: &[u8]) -> u32 {
    text.iter().filter(|&&byte| byte & 0xC0 != 0x80).count() as u32
}

/// Sets the bit of a token.
pub(super) fn set(mask: &mut [u32], id: u32) {
    if let Some(word) = mask.get_mut(id as usize / 32) {
        *word |= 1 << (id % 32);
    }
}

/// Sets the bits of the tokens from `from` up to `to`, which is not among them.
pub(super) fn set_range(mask: &mut [u32], from: u32, to: u32) {
    let below = |count: u32| if count < 32 { (1 << count) - 1 } else { u32::MAX };
    let words = from as usize / 32..to.div_ceil(32) as usize;
    let mut first = from / 32 * 32;
    for word in mask.get_mut(words).unwrap_or_default() {
        *word |= below(to.saturating_sub(first)) & !below(from.saturating_sub(first));
        first = first.saturating_add(32);
    }
}

/// Clears the bit of a token.
pub(super) fn clear(mask: &mut [u32], id: u32) {
    if let Some(word) = mask.get_mut(id as usize / 32) {
        *word &= !(1 << (id % 32));
    }
}

/// Why a trie cannot be made.
///
/// [Example](crate::grammar#tokens).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrieError {
    /// There are more tokens, nodes or bytes than the tables can number.
    TooLarge {
        /// Number of tokens, nodes or bytes that there are.
        given: usize,
        /// The greatest number that the tables can have.
        limit: u32,
    },
    /// The scratch is smaller than [`TokenTrie::scratch_len`].
    ScratchTooSmall {
        /// Number of 32-bit words that are needed.
        needed: usize,
        /// Number of 32-bit words that were given.
        given: usize,
    },
    /// The tables are not made yet, or the bytes that they take are not known.
    Unfinished,
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
            Self::Unfinished => f.write_str("the trie is not finished"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TrieError {}
