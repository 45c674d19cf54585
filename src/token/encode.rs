//! Text to token ids.

use core::fmt;
use core::ops::Range;

use super::bytes;
use super::kinds::Kinds;
use super::merge::{Pairs, Word, scratch_len};
use super::pairs::{ByRank, Merges};
use super::pre::PreTokenizer;
use super::special::Search;
use super::table::{NONE, Tokens};
use super::text::Piece;
use super::tokenizer::{BLANK, Tokenizer};
use super::vocab::Algorithm;
#[cfg(feature = "encoder")]
use super::word::{Fold, words};
use gguf_rs_lite::Array;

/// How to encode a text.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put BOS before and EOS after the text, if the vocabulary says so.
    pub add_special: bool,
    /// Turn the names of control tokens in the text into these tokens. Do not set it for untrusted text.
    pub parse_special: bool,
}

impl Tokenizer<'_, '_> {
    /// The longest text that can be encoded at once, in bytes.
    pub const MAX_TEXT: usize = 1 << 28;

    /// Returns the number of 32-bit words of scratch with which [`Tokenizer::encode`] encodes any text of `text_bytes`
    /// bytes.
    ///
    /// The worst case is one long word, which needs about 51 bytes per byte of text. Other texts need less, because the
    /// scratch is used for one word at a time (unless tokens of a SentencePiece vocabulary have blanks in their
    /// middle). 2,000 words of scratch suffice for most texts of any length. If they do not, the error of `encode` says
    /// how many do.
    pub fn scratch_len(&self, text_bytes: usize) -> usize {
        let characters = text_bytes.saturating_add(1);
        let bytes = characters.saturating_mul(BLANK.len());
        scratch_len(characters, bytes).saturating_add(self.specials.search_len())
    }

    /// Writes the ids of `text` to `out` and returns their number.
    ///
    /// Takes O(n log n) time in the length of the text. The factor grows with the length of the longest token. For a
    /// text that consists of pieces of special tokens, it also grows with the number of their lengths.
    ///
    /// # Errors
    /// `scratch` or `out` is too small (the error says how much this text needs; `out` is overwritten), the text is
    /// longer than 2^28 bytes, or the vocabulary cannot spell it.
    pub fn encode(
        &self,
        text: &str,
        options: EncodeOptions,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<usize, TokenError> {
        self.encode_around(text, &[], options, scratch, out)
    }

    /// Encodes like [`Tokenizer::encode`], for untrusted text within a frame of special tokens. Names of control tokens
    /// become these tokens, except where they touch one of the ranges `plain`. The ranges are in bytes, in increasing
    /// order, and do not overlap. Nothing is put before or after the text.
    ///
    /// # Errors
    /// Those of [`Tokenizer::encode`].
    pub fn encode_framed(
        &self,
        text: &str,
        plain: &[Range<usize>],
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<usize, TokenError> {
        self.encode_around(text, plain, EncodeOptions { add_special: false, parse_special: true }, scratch, out)
    }

    fn encode_around(
        &self,
        text: &str,
        plain: &[Range<usize>],
        options: EncodeOptions,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<usize, TokenError> {
        if text.len() > Self::MAX_TEXT {
            return Err(TokenError::TextTooLong { bytes: text.len(), limit: Self::MAX_TEXT });
        }
        let given = scratch.len();
        let Some((search, scratch)) = scratch.split_at_mut_checked(self.specials.search_len()) else {
            return Err(TokenError::ScratchTooSmall { needed: self.scratch_len(text.len()), given });
        };
        let mut output = Output { out, len: 0, scratch_needed: 0 };
        let mut search =
            Search::new(&self.specials, &self.tokens, &self.kinds, text, plain, options.parse_special, search);
        self.encode_parts(text, options, &mut search, scratch, &mut output)?;
        if output.scratch_needed > given {
            return Err(TokenError::ScratchTooSmall { needed: output.scratch_needed, given });
        }
        if output.len > output.out.len() {
            return Err(TokenError::OutputTooSmall { needed: output.len, given: output.out.len() });
        }
        Ok(output.len)
    }

    fn encode_parts(
        &self,
        text: &str,
        options: EncodeOptions,
        search: &mut Search<'_>,
        scratch: &mut [u32],
        output: &mut Output<'_>,
    ) -> Result<(), TokenError> {
        let bos = self.vocab.bos().filter(|_| options.add_special && self.vocab.adds_bos());
        let eos = self.vocab.eos().filter(|_| options.add_special && self.vocab.adds_eos());
        if let Some(bos) = bos {
            output.push(bos);
        }
        let mut from = 0;
        loop {
            let found = search.next(from);
            let part = text.get(from..found.map_or(text.len(), |found| found.start)).unwrap_or_default();
            self.encode_part(part, scratch, output)?;
            let Some(found) = found else { break };
            output.push(found.id);
            from = found.end;
            if self.swallows_space_after(found.id) {
                let rest = text.get(from..).unwrap_or_default();
                from = text.len().saturating_sub(rest.trim_start_matches(is_ascii_space).len());
            }
        }
        if let Some(eos) = eos {
            output.push(eos);
        }
        Ok(())
    }

    /// Returns whether white space after a special token is left out.
    fn swallows_space_after(&self, id: u32) -> bool {
        let keeps: [&[u8]; 3] = [b"<unk>", b"<s>", b"<|endoftext|>"];
        self.vocab.swallows_space() && self.text(id).is_some_and(|name| !keeps.contains(&name))
    }

    /// Encodes text without special tokens. What is before it is the start of the text, or a special token.
    fn encode_part(&self, part: &str, scratch: &mut [u32], output: &mut Output<'_>) -> Result<(), TokenError> {
        match (self.vocab.algorithm, &self.merges) {
            (Algorithm::ByteLevel { pre, .. }, Some(merges)) => {
                pre.words(part).try_for_each(|word| self.byte_level_word(word, pre, merges, scratch, output))
            }
            (Algorithm::SentencePiece { scores }, _) => {
                let mut rest = part;
                let mut prefix = self.vocab.adds_space_prefix();
                while !rest.is_empty() {
                    let len = if self.words_are_apart { blank_word(rest) } else { rest.len() };
                    let (word, after) = rest.split_at_checked(len).unwrap_or((rest, ""));
                    self.sentence_piece_word(word, prefix, scores, scratch, output)?;
                    prefix = false;
                    rest = after;
                }
                Ok(())
            }
            #[cfg(feature = "encoder")]
            (Algorithm::WordPiece { lowercase, strip_accents }, _) => {
                let fold = Fold { lowercase, strip_accents };
                words(part, fold, scratch, &mut |bytes, word| {
                    output.need_scratch(bytes.div_ceil(size_of::<u32>()), self.specials.search_len());
                    word.map_or(Ok(()), |word| self.word_pieces(word, output))
                })
            }
            _ => Ok(()),
        }
    }

    /// The longest token that begins a word, then the longest that goes on, and so on; the unknown token where there is
    /// none. The word begins with a blank, as the tokens do that begin words.
    #[cfg(feature = "encoder")]
    fn word_pieces(&self, word: &[u8], output: &mut Output<'_>) -> Result<(), TokenError> {
        let (before, mut rest) = (output.len, word);
        while !rest.is_empty() {
            let most = rest.len().min(self.tokens.longest());
            let found = (1..=most).rev().find_map(|len| {
                let (piece, after) = rest.split_at_checked(len)?;
                let id = self.tokens.find(piece).filter(|&id| self.kinds.get(id).is_text())?;
                Some((id, after))
            });
            let Some((id, after)) = found else {
                output.len = before;
                let byte = rest.first().copied().unwrap_or_default();
                output.push(self.vocab.unknown().ok_or(TokenError::NoToken { byte })?);
                return Ok(());
            };
            output.push(id);
            rest = after;
        }
        Ok(())
    }

    fn byte_level_word(
        &self,
        word: &str,
        pre: &PreTokenizer,
        merges: &Merges<'_>,
        scratch: &mut [u32],
        output: &mut Output<'_>,
    ) -> Result<(), TokenError> {
        let text = word.as_bytes();
        if pre.ignore_merges
            && text.len() <= self.tokens.longest()
            && let Some(id) = self.tokens.find_bytes(text)
            && self.kinds.get(id).is_text()
        {
            output.push(id);
            return Ok(());
        }
        let spelled = text.len().saturating_mul(2);
        output.need_scratch(scratch_len(text.len(), spelled), self.specials.search_len());
        let Some(mut symbols) = Word::new(text.len(), spelled, scratch) else { return Ok(()) };
        for &byte in text {
            let [first, second] = bytes::encode(byte);
            let id = self.bytes.get(usize::from(byte)).map_or(NONE, |&id| id);
            symbols.push(u32::from_le_bytes([first, second, 0, 0]), 1 + u32::from(second != 0), id);
        }
        symbols.merge(&ByRank { tokens: &self.tokens, merges });
        for (id, text) in symbols.symbols() {
            match id {
                NONE => {
                    let byte = str::from_utf8(text).ok().and_then(|text| bytes::decode(text.chars().next()?));
                    self.push_bytes(byte.as_slice(), output)?;
                }
                _ => output.push(id),
            }
        }
        Ok(())
    }

    fn sentence_piece_word(
        &self,
        word: &str,
        prefix: bool,
        scores: Array<'_>,
        scratch: &mut [u32],
        output: &mut Output<'_>,
    ) -> Result<(), TokenError> {
        let count = word.chars().count() + usize::from(prefix);
        let bytes: usize = spelled(word, prefix).map(str::len).sum();
        output.need_scratch(scratch_len(count, bytes), self.specials.search_len());
        let Some(mut symbols) = Word::new(count, bytes, scratch) else { return Ok(()) };
        for character in spelled(word, prefix) {
            let bytes = character.bytes().rev().fold(0, |bytes, byte| bytes << 8 | u32::from(byte));
            symbols.push(bytes, character.len() as u32, NONE);
        }
        symbols.merge(&ByScore { tokens: &self.tokens, kinds: &self.kinds, scores });
        for (id, text) in symbols.symbols() {
            let found =
                if id == NONE { self.tokens.find(text).filter(|&id| self.kinds.get(id).is_text()) } else { Some(id) };
            match found {
                Some(id) => output.push(id),
                None => self.push_bytes(text, output)?,
            }
        }
        Ok(())
    }

    /// Spells a character that is no token: by its bytes, or else as the unknown token.
    fn push_bytes(&self, text: &[u8], output: &mut Output<'_>) -> Result<(), TokenError> {
        let id_of = |&byte: &u8| self.bytes.get(usize::from(byte)).copied().filter(|&id| id != NONE);
        match text.iter().find(|byte| id_of(byte).is_none()) {
            None => text.iter().filter_map(id_of).for_each(|id| output.push(id)),
            Some(&byte) => output.push(self.vocab.unknown().ok_or(TokenError::NoToken { byte })?),
        }
        Ok(())
    }
}

/// Pairs that make a token; the highest score merges first.
///
/// As in SentencePiece, and unlike in llama.cpp, control tokens and the like are not made of pairs: text never becomes
/// one unless it is asked for.
struct ByScore<'t> {
    tokens: &'t Tokens<'t, 't>,
    kinds: &'t Kinds<'t>,
    scores: Array<'t>,
}

impl Pairs for ByScore<'_> {
    fn pair(&self, _left: u32, _right: u32, _left_len: u32, piece: &Piece<'_>) -> Option<(u32, u32)> {
        let id = self.tokens.find_piece(piece).filter(|&id| self.kinds.get(id).is_text())?;
        let score = self.scores.get(id as usize)?.as_f32()?;
        // The bits of a float, turned so that they sort as the floats do, and then the other way round. Adding
        // +0.0 makes -0.0 equal to it.
        let bits = (score + 0.0).to_bits();
        let increasing = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        Some((!increasing, id))
    }
}

/// The characters of a SentencePiece word: a blank if `prefix`, then those of `word` with its blanks.
fn spelled(word: &str, prefix: bool) -> impl Iterator<Item = &str> {
    let mut rest = word;
    let characters = core::iter::from_fn(move || {
        let (first, after) = rest.split_at_checked(rest.chars().next()?.len_utf8())?;
        rest = after;
        Some(if first == " " { BLANK } else { first })
    });
    prefix.then_some(BLANK).into_iter().chain(characters)
}

/// Returns whether `c` is white space in C and in llama.cpp.
fn is_ascii_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// Bytes of the blanks at the start of `text` and of what follows up to the next blank.
fn blank_word(text: &str) -> usize {
    let is_blank = |c: char| c == ' ' || c == '\u{2581}';
    let blanks = text.find(|c| !is_blank(c)).unwrap_or(text.len());
    let rest = text.get(blanks..).unwrap_or_default();
    blanks + rest.find(is_blank).unwrap_or(rest.len())
}

/// Counts what is needed, and keeps what fits.
struct Output<'o> {
    out: &'o mut [u32],
    len: usize,
    scratch_needed: usize,
}

impl Output<'_> {
    fn push(&mut self, id: u32) {
        if let Some(place) = self.out.get_mut(self.len) {
            *place = id;
        }
        self.len += 1;
    }

    fn need_scratch(&mut self, word: usize, search: usize) {
        self.scratch_needed = self.scratch_needed.max(word.saturating_add(search));
    }
}

/// Why a text was not encoded, or an id not decoded.
///
/// [Example](crate::token#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The text is too long to be encoded at once.
    TextTooLong {
        /// The length of the text, in bytes.
        bytes: usize,
        /// The most bytes that a text may have.
        limit: usize,
    },
    /// The scratch is too small for the longest word of this text.
    ScratchTooSmall {
        /// 32-bit words that suffice.
        needed: usize,
        /// 32-bit words given.
        given: usize,
    },
    /// The output is too small.
    OutputTooSmall {
        /// Elements needed.
        needed: usize,
        /// Elements given.
        given: usize,
    },
    /// The vocabulary has neither a token for this byte nor an unknown token.
    NoToken {
        /// The byte.
        byte: u8,
    },
    /// The vocabulary has no token with this id.
    UnknownId {
        /// The id.
        id: u32,
        /// Number of tokens.
        tokens: usize,
    },
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TextTooLong { bytes, limit } => {
                write!(f, "a text of {bytes} bytes is too long, the limit is {limit}")
            }
            Self::ScratchTooSmall { needed, given } => {
                write!(f, "scratch too small: {needed} 32-bit words needed, {given} given")
            }
            Self::OutputTooSmall { needed, given } => write!(f, "output too small: {needed} needed, {given} given"),
            Self::NoToken { byte } => {
                write!(f, "the vocabulary has no token for byte {byte:#04x}, nor for the unknown")
            }
            Self::UnknownId { id, tokens } => write!(f, "no token has the id {id}, there are {tokens}"),
        }
    }
}

impl core::error::Error for TokenError {}
