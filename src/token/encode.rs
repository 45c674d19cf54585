//! Text to token ids.

use core::ops::Range;

use super::error::TokenError;
use super::merge::scratch_len;
use super::special::Search;
use super::spell::Output;
use super::tokenizer::{BLANK, Tokenizer};
use super::vocab::Algorithm;
#[cfg(feature = "encoder")]
use super::word::Fold;

/// How to encode a text.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Put BOS before and EOS after the text, if the vocabulary says so.
    pub add_special: bool,
    /// Turn the names of control tokens in the text into these tokens. Do not set it for untrusted text.
    pub parse_special: bool,
    /// Refuse a text with bytes that the vocabulary cannot spell, see [`Encoded::unspelled`].
    pub exact: bool,
    /// Whether the text continues another text. Then no blank is put before it, as SentencePiece vocabularies
    /// otherwise do.
    pub continues: bool,
}

/// Result of [`Tokenizer::encode`].
///
/// [Example](crate::token#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Number of ids.
    pub ids: usize,
    /// Number of bytes of the text that the vocabulary cannot spell. They are left out. In a SentencePiece vocabulary,
    /// a character with such a byte becomes the unknown token, and all of its bytes are counted.
    pub unspelled: usize,
}

impl Tokenizer<'_, '_> {
    /// The longest text that can be encoded at once, in bytes.
    pub const MAX_TEXT: usize = 1 << 28;

    /// Returns the number of 32-bit words of scratch that [`Tokenizer::encode`] needs for any text of `text_bytes`
    /// bytes.
    ///
    /// The worst case is one long word, which needs about 51 bytes per byte of text. With unigram it needs 25 bytes for
    /// each byte that the vocabulary's rules make of the text. Other texts need less, because the scratch is used for
    /// one word at a time, unless tokens of a SentencePiece vocabulary have blanks in their middle. 2,000 words of
    /// scratch suffice for most texts of any length. If they do not suffice, the error of `encode` says how many do.
    pub fn scratch_len(&self, text_bytes: usize) -> usize {
        let characters = text_bytes.saturating_add(1);
        let bytes = characters.saturating_mul(BLANK.len());
        let of_word = match self.vocab.algorithm {
            #[cfg(feature = "encoder")]
            Algorithm::Unigram(unigram) => unigram.scratch_len(text_bytes),
            _ => scratch_len(characters, bytes),
        };
        of_word.saturating_add(self.specials.search_len())
    }

    /// Writes the ids of `text` to `out`. Returns the number of ids, and of the bytes that the vocabulary cannot spell.
    ///
    /// This takes O(n log n) time in the length of the text. The factor grows with the length of the longest token. For
    /// a text that consists of pieces of special tokens, it also grows with the number of different lengths of these
    /// tokens.
    ///
    /// # Errors
    /// `scratch` or `out` is too small, the text is longer than 2^28 bytes, or the vocabulary cannot spell it and
    /// [`EncodeOptions::exact`] is set. If a slice is too small, the error says how much this text needs, and `out` is
    /// overwritten.
    pub fn encode(
        &self,
        text: &str,
        options: EncodeOptions,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<Encoded, TokenError> {
        self.encode_around(text, &[], options, scratch, out)
    }

    /// Returns the number of bytes of a text that the vocabulary cannot spell, as [`Encoded::unspelled`] does, even if
    /// [`EncodeOptions::exact`] is set.
    ///
    /// # Errors
    /// `scratch` is too small, or the text is longer than 2^28 bytes.
    pub fn unspelled(&self, text: &str, options: EncodeOptions, scratch: &mut [u32]) -> Result<usize, TokenError> {
        let options = EncodeOptions { exact: false, ..options };
        Ok(self.output_of(text, &[], options, scratch, &mut [])?.unspelled)
    }

    /// Encodes like [`Tokenizer::encode`], for untrusted text within a frame of special tokens. Names of control tokens
    /// become these tokens, except where they touch one of the ranges `plain`. These ranges are in bytes and in
    /// increasing order, and do not overlap. Neither BOS nor EOS is added.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::encode`].
    pub fn encode_framed(
        &self,
        text: &str,
        plain: &[Range<usize>],
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<Encoded, TokenError> {
        self.encode_around(text, plain, EncodeOptions { parse_special: true, ..EncodeOptions::default() }, scratch, out)
    }

    fn encode_around(
        &self,
        text: &str,
        plain: &[Range<usize>],
        options: EncodeOptions,
        scratch: &mut [u32],
        out: &mut [u32],
    ) -> Result<Encoded, TokenError> {
        let output = self.output_of(text, plain, options, scratch, out)?;
        match output.first_unspelled.filter(|_| options.exact) {
            Some((byte, at)) => Err(TokenError::NoToken { byte, at }),
            None if output.len > output.out.len() => {
                Err(TokenError::OutputTooSmall { needed: output.len, given: output.out.len() })
            }
            None => Ok(Encoded { ids: output.len, unspelled: output.unspelled }),
        }
    }

    /// Returns the encoded text and the counts. Ids that do not fit in `out` are counted, but not written.
    fn output_of<'o>(
        &self,
        text: &str,
        plain: &[Range<usize>],
        options: EncodeOptions,
        scratch: &mut [u32],
        out: &'o mut [u32],
    ) -> Result<Output<'o>, TokenError> {
        if text.len() > Self::MAX_TEXT {
            return Err(TokenError::TextTooLong { bytes: text.len(), limit: Self::MAX_TEXT });
        }
        let given = scratch.len();
        let Some((search, scratch)) = scratch.split_at_mut_checked(self.specials.search_len()) else {
            return Err(TokenError::ScratchTooSmall { needed: self.scratch_len(text.len()), given });
        };
        let mut output = Output::new(out);
        let mut search =
            Search::new(&self.specials, &self.tokens, &self.kinds, text, plain, options.parse_special, search);
        self.encode_parts(text, options, &mut search, scratch, &mut output);
        if output.scratch_needed > given {
            return Err(TokenError::ScratchTooSmall { needed: output.scratch_needed, given });
        }
        Ok(output)
    }

    fn encode_parts(
        &self,
        text: &str,
        options: EncodeOptions,
        search: &mut Search<'_>,
        scratch: &mut [u32],
        output: &mut Output<'_>,
    ) {
        let bos = self.vocab.bos().filter(|_| options.add_special && self.vocab.adds_bos());
        let eos = self.vocab.eos().filter(|_| options.add_special && self.vocab.adds_eos());
        if let Some(bos) = bos {
            output.push(bos);
        }
        let mut from = 0;
        let mut begins = !options.continues;
        loop {
            let found = search.next(from);
            let part = text.get(from..found.map_or(text.len(), |found| found.start)).unwrap_or_default();
            output.word = from;
            self.encode_part(part, begins, scratch, output);
            begins = true;
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
    }

    /// Returns whether white space after a special token is left out.
    fn swallows_space_after(&self, id: u32) -> bool {
        let keeps: [&[u8]; 3] = [b"<unk>", b"<s>", b"<|endoftext|>"];
        self.vocab.swallows_space() && self.text(id).is_some_and(|name| !keeps.contains(&name))
    }

    /// Encodes text without special tokens. `begins` is whether the start of the text or a special token is before it.
    fn encode_part(&self, part: &str, begins: bool, scratch: &mut [u32], output: &mut Output<'_>) {
        match (self.vocab.algorithm, &self.merges) {
            (Algorithm::ByteLevel { pre, .. }, Some(merges)) => {
                for word in pre.words(part) {
                    self.byte_level_word(word, pre, merges, scratch, output);
                    output.word += word.len();
                }
            }
            (Algorithm::Characters { pre, .. }, Some(merges)) if pre.has_metaspace => {
                for (word, prefix) in pre.words(part).flat_map(metaspace_words) {
                    self.character_word(word, prefix, pre, merges, scratch, output);
                    output.word += word.len();
                }
            }
            (Algorithm::Characters { pre, .. }, Some(merges)) => {
                for word in pre.words(part).flat_map(|line| self.blank_words(line)) {
                    self.character_word(word, false, pre, merges, scratch, output);
                    output.word += word.len();
                }
            }
            (Algorithm::SentencePiece { scores }, _) => {
                let mut prefix = begins && self.vocab.adds_space_prefix();
                for word in self.blank_words(part) {
                    self.sentence_piece_word(word, prefix, scores, scratch, output);
                    prefix = false;
                    output.word += word.len();
                }
            }
            #[cfg(feature = "encoder")]
            (Algorithm::Words { pre, lowercase, .. }, Some(merges)) => {
                for word in pre.words(part) {
                    if !word.starts_with(char::is_whitespace) {
                        self.plain_word(word, lowercase, merges, scratch, output);
                    }
                    output.word += word.len();
                }
            }
            #[cfg(feature = "encoder")]
            (Algorithm::WordPiece { lowercase, strip_accents }, _) => {
                self.word_pieces(part, Fold { lowercase, strip_accents }, scratch, output);
            }
            #[cfg(feature = "encoder")]
            (Algorithm::Unigram(unigram), _) => self.unigram_text(part, &unigram, scratch, output),
            _ => {}
        }
    }

    /// Returns the pieces of a text. No token reaches from one piece into the next.
    fn blank_words<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let (mut rest, words_are_apart) = (text, self.words_are_apart);
        core::iter::from_fn(move || {
            let len = if words_are_apart { blank_word(rest) } else { rest.len() };
            let (word, after) = rest.split_at_checked(len)?;
            rest = after;
            (!word.is_empty()).then_some(word)
        })
    }
}

/// Returns whether `c` is white space in C and in llama.cpp.
fn is_ascii_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// Returns the words of a line, and for each whether a blank is put before it. A word ends before the next blank. Only
/// the first word of a line that does not begin with a blank gets one. A run of line ends is one word.
fn metaspace_words(line: &str) -> impl Iterator<Item = (&str, bool)> {
    let is_blank = |c: char| c == ' ' || c == '\u{2581}';
    let mut prefix = !line.starts_with(is_blank) && !line.starts_with('\n');
    let mut rest = line;
    core::iter::from_fn(move || {
        let mut blanks = rest.char_indices().skip(1).filter(|&(_, c)| is_blank(c));
        let len = blanks.next().map_or(rest.len(), |(at, _)| at);
        let (word, after) = rest.split_at_checked(len).filter(|(word, _)| !word.is_empty())?;
        rest = after;
        Some((word, core::mem::take(&mut prefix)))
    })
}

/// Returns the number of bytes of the blanks at the start of `text` and of the text after them, up to the next blank.
fn blank_word(text: &str) -> usize {
    let is_blank = |c: char| c == ' ' || c == '\u{2581}';
    let blanks = text.find(|c| !is_blank(c)).unwrap_or(text.len());
    let rest = text.get(blanks..).unwrap_or_default();
    blanks + rest.find(is_blank).unwrap_or(rest.len())
}
