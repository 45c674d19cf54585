//! The tokenizer: the layout of its tables, and how they are filled.

use gguf_rs_lite::Gguf;

use super::error::VocabError;
use super::kind::TokenKind;
use super::kinds::Kinds;
use super::pairs::{Best, Merges, Other};
use super::slots::slot_count;
use super::special::{MAX_LEN, Specials};
use super::table::{NONE, Tokens};
use super::vocab::{Algorithm, Vocab};
use crate::mem::Arena;

/// The blank of SentencePiece, U+2581.
pub(super) const BLANK: &str = "\u{2581}";

/// A vocabulary with its tables. It never changes, so any number of threads may use it at once.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Copy, Debug)]
pub struct Tokenizer<'m, 'a> {
    pub(super) vocab: Vocab<'m>,
    pub(super) tokens: Tokens<'m, 'a>,
    pub(super) kinds: Kinds<'a>,
    pub(super) specials: Specials<'a>,
    /// The token of each byte, or [`NONE`].
    pub(super) bytes: &'a [u32],
    /// Merges of an algorithm that is BPE by rank.
    pub(super) merges: Option<Merges<'a>>,
    /// Whether no token of a SentencePiece vocabulary or of BPE by characters has a blank after another character.
    /// Then no token reaches from one word into the next.
    pub(super) words_are_apart: bool,
    /// Score of a character without a token, in a unigram vocabulary.
    #[cfg(feature = "encoder")]
    pub(super) unknown_score: f32,
}

impl<'m, 'a> Tokenizer<'m, 'a> {
    /// Returns the number of bytes of memory that [`Tokenizer::new`] needs for this file.
    ///
    /// # Errors
    /// The file's vocabulary cannot be used.
    pub fn plan(gguf: &Gguf<'m>) -> Result<usize, VocabError> {
        let mut arena = Arena::measuring();
        Tables::carve(&mut arena, &Vocab::new(gguf)?)?;
        Ok(arena.used())
    }

    /// Returns a tokenizer. It builds its tables in `memory`, which starts at a multiple of [`crate::mem::ALIGN`].
    ///
    /// The time is proportional to the vocabulary's bytes.
    ///
    /// # Errors
    /// The file's vocabulary cannot be used, or `memory` does not suit [`Tokenizer::plan`].
    pub fn new(gguf: &Gguf<'m>, memory: &'a mut [u8]) -> Result<Self, VocabError> {
        let vocab = Vocab::new(gguf)?;
        let tables = Tables::carve(&mut Arena::new(memory)?, &vocab)?;
        let tokens = Tokens::new(vocab.tokens, tables.offsets, tables.token_slots)?;
        let kinds = Kinds::new(&vocab, &tokens, tables.kinds);
        let special = select_special(&tokens, &kinds, tables.special)?;
        let (special, _) = tables.special.split_at_mut_checked(special).unwrap_or_default();
        let (lengths, _) = tables.lengths.split_at_mut_checked(special.len()).unwrap_or_default();
        let specials = Specials::new(&tokens, &kinds, special, lengths);
        let merges = match vocab.algorithm {
            Algorithm::SentencePiece { .. } => None,
            Algorithm::ByteLevel { merges, .. } | Algorithm::Characters { merges, .. } => {
                Some(Merges::new(merges, &tokens, &kinds, tables.best_merges, tables.other_merges)?)
            }
            #[cfg(feature = "encoder")]
            Algorithm::Words { merges, .. } => {
                Some(Merges::new(merges, &tokens, &kinds, tables.best_merges, tables.other_merges)?)
            }
            #[cfg(feature = "encoder")]
            Algorithm::WordPiece { .. } | Algorithm::Unigram(_) => None,
        };
        #[cfg(feature = "encoder")]
        let unknown_score = match vocab.algorithm {
            Algorithm::Unigram(unigram) => unigram.unknown_score(vocab.kinds()),
            _ => 0.0,
        };
        for (byte, id) in (0..=255).zip(&mut *tables.bytes) {
            *id = byte_token(&vocab, &tokens, byte).unwrap_or(NONE);
        }
        let words_are_apart = !matches!(vocab.algorithm, Algorithm::ByteLevel { .. })
            && (0..vocab.len() as u32).filter_map(|id| tokens.text(id)).all(begins_with_its_blanks);
        Ok(Self {
            vocab,
            tokens,
            kinds,
            specials,
            bytes: tables.bytes,
            merges,
            words_are_apart,
            #[cfg(feature = "encoder")]
            unknown_score,
        })
    }

    /// Returns the keys of the vocabulary.
    pub fn vocab(&self) -> &Vocab<'m> {
        &self.vocab
    }

    /// Returns the text of a token as the file has it, with blanks and bytes in the vocabulary's own spelling.
    pub fn text(&self, id: u32) -> Option<&'m [u8]> {
        self.tokens.text(id)
    }

    /// Returns the token that has this text in the file.
    pub fn find(&self, text: &[u8]) -> Option<u32> {
        self.tokens.find(text)
    }

    /// Returns the kind of a token. Tokens whose names show that they end a generation are always `Control`.
    pub fn kind(&self, id: u32) -> TokenKind {
        self.kinds.get(id)
    }

    /// Returns whether a token ends a generation: EOS, the end of a turn or a message, or a token with such a name.
    pub fn is_end(&self, id: u32) -> bool {
        self.kinds.is_end(id)
    }
}

/// The tables as slices of the caller's memory.
struct Tables<'a> {
    offsets: &'a mut [u32],
    token_slots: &'a mut [u32],
    kinds: &'a mut [u8],
    special: &'a mut [u32],
    lengths: &'a mut [u32],
    bytes: &'a mut [u32],
    best_merges: &'a mut [Best],
    other_merges: &'a mut [Other],
}

impl<'a> Tables<'a> {
    fn carve(arena: &mut Arena<'a>, vocab: &Vocab<'_>) -> Result<Self, VocabError> {
        let tokens = vocab.len();
        let special = vocab.kinds().filter(|kind| kind.is_special()).count().saturating_add(Kinds::NAMED).min(tokens);
        let (made, merges) = match vocab.algorithm {
            Algorithm::SentencePiece { .. } => (0, 0),
            Algorithm::ByteLevel { merges, .. } | Algorithm::Characters { merges, .. } => (tokens, merges.len()),
            #[cfg(feature = "encoder")]
            Algorithm::Words { merges, .. } => (tokens, merges.len()),
            #[cfg(feature = "encoder")]
            Algorithm::WordPiece { .. } | Algorithm::Unigram(_) => (0, 0),
        };
        Ok(Self {
            offsets: arena.slice("token offsets", tokens.saturating_add(1))?,
            token_slots: arena.slice("tokens by text", slot_count(tokens))?,
            kinds: arena.slice("token kinds", tokens)?,
            special: arena.slice("special tokens", special)?,
            lengths: arena.slice("special token lengths", special)?,
            bytes: arena.slice("byte tokens", 256)?,
            best_merges: arena.slice("best merges by token", made)?,
            other_merges: arena.slice("other merges by rank", merges)?,
        })
    }
}

/// Writes the ids of the special tokens to the front of `ids` and returns their number.
///
/// Only texts in UTF-8 count, because other texts could match in the middle of a character.
fn select_special(tokens: &Tokens<'_, '_>, kinds: &Kinds<'_>, ids: &mut [u32]) -> Result<usize, VocabError> {
    let mut count = 0;
    for id in (0..tokens.len() as u32).filter(|&id| kinds.get(id).is_special()) {
        let text = tokens.text(id).unwrap_or_default();
        if text.len() > MAX_LEN {
            return Err(VocabError::SpecialTooLong { id, bytes: text.len(), limit: MAX_LEN });
        }
        if let Some(place) = ids.get_mut(count)
            && !text.is_empty()
            && core::str::from_utf8(text).is_ok()
        {
            *place = id;
            count += 1;
        }
    }
    Ok(count)
}

fn byte_token(vocab: &Vocab<'_>, tokens: &Tokens<'_, '_>, byte: u8) -> Option<u32> {
    let digit = |digit: u8| if digit < 10 { b'0' + digit } else { b'A' - 10 + digit };
    let name = [b'<', b'0', b'x', digit(byte >> 4), digit(byte & 15), b'>'];
    match vocab.algorithm {
        Algorithm::SentencePiece { .. } | Algorithm::Characters { .. } => {
            tokens.find(&name).or_else(|| tokens.find(&[byte]))
        }
        #[cfg(feature = "encoder")]
        Algorithm::Unigram(_) => tokens.find(&name),
        Algorithm::ByteLevel { .. } => tokens.find_bytes(&[byte]),
        #[cfg(feature = "encoder")]
        Algorithm::WordPiece { .. } | Algorithm::Words { .. } => None,
    }
}

fn begins_with_its_blanks(text: &[u8]) -> bool {
    let blank = BLANK.as_bytes();
    let mut rest = text;
    while let Some(after) = rest.strip_prefix(blank) {
        rest = after;
    }
    !rest.windows(BLANK.len()).any(|window| window == blank)
}
