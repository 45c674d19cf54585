//! Words to token ids by the algorithm of the vocabulary, and the bytes that no token spells.

use gguf_rs_lite::Array;

use super::bytes;
use super::kinds::Kinds;
use super::merge::{Pairs, Word, scratch_len};
use super::pairs::{ByRank, Merges};
use super::pre::PreTokenizer;
use super::table::{NONE, Tokens};
use super::text::Piece;
use super::tokenizer::{BLANK, Tokenizer};
#[cfg(feature = "encoder")]
use super::word::{Fold, words};

impl Tokenizer<'_, '_> {
    /// Encodes a word by byte-level BPE. A byte without a token is left out.
    pub(super) fn byte_level_word(
        &self,
        word: &str,
        pre: &PreTokenizer,
        merges: &Merges<'_>,
        scratch: &mut [u32],
        output: &mut Output<'_>,
    ) {
        let text = word.as_bytes();
        if pre.ignore_merges
            && text.len() <= self.tokens.longest()
            && let Some(id) = self.tokens.find_bytes(text)
            && self.kinds.get(id).is_text()
        {
            return output.push(id);
        }
        let spelled = text.len().saturating_mul(2);
        output.need_scratch(scratch_len(text.len(), spelled), self.specials.search_len());
        let Some(mut symbols) = Word::new(text.len(), spelled, scratch) else { return };
        for &byte in text {
            let [first, second] = bytes::encode(byte);
            let id = self.bytes.get(usize::from(byte)).map_or(NONE, |&id| id);
            symbols.push(u32::from_le_bytes([first, second, 0, 0]), 1 + u32::from(second != 0), id);
        }
        symbols.merge(&ByRank { tokens: &self.tokens, merges });
        let mut places = Places::new(text.iter().map(|&byte| {
            let [_, second] = bytes::encode(byte);
            (1 + usize::from(second != 0), 1)
        }));
        let mut spelled = 0;
        for (id, symbol) in symbols.symbols() {
            match id {
                NONE => {
                    let at = places.source(spelled);
                    output.lose(at, text.get(at..at + 1).unwrap_or_default());
                }
                _ => output.push(id),
            }
            spelled += symbol.len();
        }
    }

    /// Encodes a word by BPE by characters. A character that is no token is spelled by its bytes, and a byte without a
    /// token is left out. With `prefix`, a blank is put before the word.
    pub(super) fn character_word(
        &self,
        word: &str,
        prefix: bool,
        pre: &PreTokenizer,
        merges: &Merges<'_>,
        scratch: &mut [u32],
        output: &mut Output<'_>,
    ) {
        let id_of = |text: &str| self.tokens.find(text.as_bytes()).filter(|&id| self.kinds.get(id).is_text());
        if pre.has_whole_newlines
            && word.starts_with('\n')
            && let Some(id) = id_of(word)
        {
            return output.push(id);
        }
        let symbols = self.characters(word, prefix, |text| id_of(text).unwrap_or(NONE), scratch, output);
        let Some(mut symbols) = symbols else { return };
        symbols.merge(&ByRank { tokens: &self.tokens, merges });
        let mut places = Places::new(character_lens(word, prefix));
        let mut spelled = 0;
        for (id, symbol) in symbols.symbols() {
            if id == NONE {
                let source = places.character(word, spelled);
                // A blank has one byte in the text and three in its spelling.
                let is_blank = source.1 == " ";
                for (at, byte) in symbol.iter().enumerate() {
                    match self.byte(*byte) {
                        Some(id) => output.push(id),
                        None if is_blank => output.lose(source.0, b" "),
                        None => output.lose(source.0 + at, &[*byte]),
                    }
                }
            } else {
                output.push(id);
            }
            spelled += symbol.len();
        }
    }

    /// Encodes a word by SentencePiece BPE. A character that is no token is spelled by its bytes. If one of these bytes
    /// has no token, the character becomes the unknown token, or is left out if there is no unknown token.
    pub(super) fn sentence_piece_word(
        &self,
        word: &str,
        prefix: bool,
        scores: Array<'_>,
        scratch: &mut [u32],
        output: &mut Output<'_>,
    ) {
        let Some(mut symbols) = self.characters(word, prefix, |_| NONE, scratch, output) else { return };
        symbols.merge(&ByScore { tokens: &self.tokens, kinds: &self.kinds, scores });
        let mut places = Places::new(character_lens(word, prefix));
        let mut spelled = 0;
        for (id, symbol) in symbols.symbols() {
            let id_of = |text| self.tokens.find(text).filter(|&id| self.kinds.get(id).is_text());
            if let Some(id) = if id == NONE { id_of(symbol) } else { Some(id) } {
                output.push(id);
            } else if symbol.iter().all(|&byte| self.byte(byte).is_some()) {
                symbol.iter().filter_map(|&byte| self.byte(byte)).for_each(|id| output.push(id));
            } else {
                self.vocab.unknown().into_iter().for_each(|id| output.push(id));
                let (at, character) = places.character(word, spelled);
                output.lose(at, character.as_bytes());
            }
            spelled += symbol.len();
        }
    }

    /// Encodes a word without blanks by BPE by characters. A character that is no token becomes the unknown token, or
    /// is left out if there is no unknown token.
    #[cfg(feature = "encoder")]
    pub(super) fn plain_word(
        &self,
        word: &str,
        lowercase: bool,
        merges: &Merges<'_>,
        scratch: &mut [u32],
        output: &mut Output<'_>,
    ) {
        let bytes = |(character, _): (char, usize)| character.len_utf8();
        let (count, total) = folded(word, lowercase).fold((0, 0), |(count, sum), c| (count + 1, sum + bytes(c)));
        output.need_scratch(scratch_len(count, total), self.specials.search_len());
        let Some(mut symbols) = Word::new(count, total, scratch) else { return };
        for (character, _) in folded(word, lowercase) {
            let mut text = [0; 4];
            let len = character.encode_utf8(&mut text).len();
            let id = text.get(..len).and_then(|text| self.tokens.find(text));
            let id = id.filter(|&id| self.kinds.get(id).is_text()).unwrap_or(NONE);
            symbols.push(u32::from_le_bytes(text), len as u32, id);
        }
        symbols.merge(&ByRank { tokens: &self.tokens, merges });
        let mut places = Places::new(folded(word, lowercase).map(|c| (bytes(c), c.1)));
        let mut spelled = 0;
        for (id, symbol) in symbols.symbols() {
            if id == NONE {
                self.vocab.unknown().into_iter().for_each(|id| output.push(id));
                let (at, character) = places.character(word, spelled);
                output.lose(at, character.as_bytes());
            } else {
                output.push(id);
            }
            spelled += symbol.len();
        }
    }

    /// Encodes a text by WordPiece: takes the longest token that begins a word, then the longest one that continues it,
    /// and so on. A word without such tokens becomes the unknown token, or is left out if there is no unknown token.
    #[cfg(feature = "encoder")]
    pub(super) fn word_pieces(&self, text: &str, fold: Fold, scratch: &mut [u32], output: &mut Output<'_>) {
        words(text, fold, scratch, &mut |word| {
            output.need_scratch(word.len.div_ceil(size_of::<u32>()), self.specials.search_len());
            let before = output.len;
            if word.bytes.is_some_and(|bytes| self.pieces_of_word(bytes, output).is_none()) {
                output.len = before;
                self.vocab.unknown().into_iter().for_each(|id| output.push(id));
                output.lose(word.at.start, text.as_bytes().get(word.at).unwrap_or_default());
            }
        });
    }

    /// Writes the pieces of a word. The word begins with a blank, like the tokens that begin words. `None` if it has no
    /// pieces.
    #[cfg(feature = "encoder")]
    fn pieces_of_word(&self, word: &[u8], output: &mut Output<'_>) -> Option<()> {
        let mut rest = word;
        while !rest.is_empty() {
            let most = rest.len().min(self.tokens.longest());
            let (id, after) = (1..=most).rev().find_map(|len| {
                let (piece, after) = rest.split_at_checked(len)?;
                let id = self.tokens.find(piece).filter(|&id| self.kinds.get(id).is_text())?;
                Some((id, after))
            })?;
            output.push(id);
            rest = after;
        }
        Some(())
    }

    /// Returns the characters of a word with their tokens, which `id_of` returns. A blank becomes U+2581. With
    /// `prefix`, one more is put before the word. `None` if `scratch` is too short.
    fn characters<'s>(
        &self,
        word: &str,
        prefix: bool,
        id_of: impl Fn(&str) -> u32,
        scratch: &'s mut [u32],
        output: &mut Output<'_>,
    ) -> Option<Word<'s>> {
        let count = word.chars().count() + usize::from(prefix);
        let bytes: usize = spelled(word, prefix).map(str::len).sum();
        output.need_scratch(scratch_len(count, bytes), self.specials.search_len());
        let mut symbols = Word::new(count, bytes, scratch)?;
        for character in spelled(word, prefix) {
            let bytes = character.bytes().rev().fold(0, |bytes, byte| bytes << 8 | u32::from(byte));
            symbols.push(bytes, character.len() as u32, id_of(character));
        }
        Some(symbols)
    }

    /// Returns the token of a byte.
    pub(super) fn byte(&self, byte: u8) -> Option<u32> {
        self.bytes.get(usize::from(byte)).copied().filter(|&id| id != NONE)
    }
}

/// Pairs that make a token. The pair with the highest score merges first.
///
/// As in SentencePiece, and unlike in llama.cpp, pairs do not make control tokens and the like. So text becomes such a
/// token only on request.
struct ByScore<'t> {
    tokens: &'t Tokens<'t, 't>,
    kinds: &'t Kinds<'t>,
    scores: Array<'t>,
}

impl Pairs for ByScore<'_> {
    fn pair(&self, _left: u32, _right: u32, _left_len: u32, piece: &Piece<'_>) -> Option<(u32, u32)> {
        let id = self.tokens.find_piece(piece).filter(|&id| self.kinds.get(id).is_text())?;
        let score = self.scores.get(id as usize)?.as_f32()?;
        // The bits of a float, changed so that they sort like the floats, and then reversed. Adding +0.0 turns -0.0
        // into +0.0.
        let bits = (score + 0.0).to_bits();
        let increasing = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
        Some((!increasing, id))
    }
}

/// Returns the characters of a word, in lower case if `lowercase`, and the number of bytes of the word that each one
/// stands for. If one character becomes several, the first of them stands for all of its bytes.
#[cfg(feature = "encoder")]
fn folded(word: &str, lowercase: bool) -> impl Iterator<Item = (char, usize)> {
    word.chars().flat_map(move |c| {
        let (same, lower) = if lowercase { (None, Some(c.to_lowercase())) } else { (Some(c), None) };
        let characters = same.into_iter().chain(lower.into_iter().flatten());
        characters.enumerate().map(move |(index, folded)| (folded, if index == 0 { c.len_utf8() } else { 0 }))
    })
}

/// Returns the characters of a SentencePiece word: a blank if `prefix`, then the characters of `word` with its blanks.
fn spelled(word: &str, prefix: bool) -> impl Iterator<Item = &str> {
    let mut rest = word;
    let characters = core::iter::from_fn(move || {
        let (first, after) = rest.split_at_checked(rest.chars().next()?.len_utf8())?;
        rest = after;
        Some(if first == " " { BLANK } else { first })
    });
    prefix.then_some(BLANK).into_iter().chain(characters)
}

/// Returns for each character of a spelled word its number of bytes in the spelling and in the text.
fn character_lens(word: &str, prefix: bool) -> impl Iterator<Item = (usize, usize)> {
    let sources = prefix.then_some(0).into_iter().chain(word.chars().map(char::len_utf8));
    spelled(word, prefix).map(str::len).zip(sources)
}

/// Positions in the text of the characters of a spelled word, from left to right.
struct Places<I> {
    lens: I,
    spelled: usize,
    source: usize,
}

impl<I: Iterator<Item = (usize, usize)>> Places<I> {
    fn new(lens: I) -> Self {
        Self { lens, spelled: 0, source: 0 }
    }

    /// Returns the offset in the word of the character that begins at `spelled` of the spelling.
    fn source(&mut self, spelled: usize) -> usize {
        while self.spelled < spelled
            && let Some((spelled, source)) = self.lens.next()
        {
            self.spelled += spelled;
            self.source += source;
        }
        self.source
    }

    /// Returns the offset in the word of the character that begins at `spelled` of the spelling, and the character. It
    /// is empty if the word does not have it.
    fn character<'w>(&mut self, word: &'w str, spelled: usize) -> (usize, &'w str) {
        let start = self.source(spelled);
        let len = self.lens.next().map_or(0, |(spelled, source)| {
            self.spelled += spelled;
            self.source += source;
            source
        });
        (start, word.get(start..start + len).unwrap_or_default())
    }
}

/// Output that counts all ids, and stores those that fit.
pub(super) struct Output<'o> {
    pub(super) out: &'o mut [u32],
    pub(super) len: usize,
    pub(super) scratch_needed: usize,
    /// Offset of the current word in the text.
    pub(super) word: usize,
    /// Number of bytes of the text that the vocabulary cannot spell. `first_unspelled` is the first one with its
    /// offset.
    pub(super) unspelled: usize,
    pub(super) first_unspelled: Option<(u8, usize)>,
}

impl<'o> Output<'o> {
    pub(super) fn new(out: &'o mut [u32]) -> Self {
        Self { out, len: 0, scratch_needed: 0, word: 0, unspelled: 0, first_unspelled: None }
    }

    pub(super) fn push(&mut self, id: u32) {
        if let Some(place) = self.out.get_mut(self.len) {
            *place = id;
        }
        self.len += 1;
    }

    /// Notes bytes of the text that no token spells. They are at `at` of the current word.
    pub(super) fn lose(&mut self, at: usize, bytes: &[u8]) {
        if let (None, Some(&byte)) = (self.first_unspelled, bytes.first()) {
            self.first_unspelled = Some((byte, self.word.saturating_add(at)));
        }
        self.unspelled = self.unspelled.saturating_add(bytes.len());
    }

    pub(super) fn need_scratch(&mut self, word: usize, search: usize) {
        self.scratch_needed = self.scratch_needed.max(word.saturating_add(search));
    }
}
