//! Token ids to text.

use super::bytes;
use super::error::TokenError;
use super::kind::TokenKind;
use super::tokenizer::{BLANK, Tokenizer};
use super::vocab::Algorithm;

/// How to decode a stream of ids.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Write the names of control tokens. Otherwise they are left out.
    pub render_special: bool,
    /// Whether the stream starts a text. Then the blank that encoding put before the text is removed. `false` if the
    /// stream continues a text, as a generation continues its prompt.
    pub starts_text: bool,
}

impl Default for DecodeOptions {
    /// Returns the options for a whole text without control tokens.
    fn default() -> Self {
        Self { render_special: false, starts_text: true }
    }
}

impl Tokenizer<'_, '_> {
    /// Writes the bytes of a token to `out` and returns their number. The bytes need not be UTF-8: a character may
    /// consist of several tokens. The bytes of a control token are its name. A token that is not in use has no bytes.
    ///
    /// # Errors
    /// There is no such token, or `out` is too small.
    pub fn piece(&self, id: u32, out: &mut [u8]) -> Result<usize, TokenError> {
        let mut text = Text { out, len: 0 };
        self.each_byte(id, true, &mut |byte| text.push(&[byte]))?;
        text.finish().map(<[u8]>::len)
    }

    /// Writes the text of `ids` to `out` and returns it. Bytes that are not UTF-8 become U+FFFD.
    ///
    /// # Errors
    /// There is no such token, or `out` is too small.
    pub fn decode<'o>(&self, ids: &[u32], options: DecodeOptions, out: &'o mut [u8]) -> Result<&'o str, TokenError> {
        let mut state = Detokenizer::new(self, options);
        let mut text = Text { out, len: 0 };
        for &id in ids {
            state.advance(self, id, &mut text)?;
        }
        state.end(&mut text);
        text.finish().map(as_str)
    }

    /// Returns the largest number of bytes that [`Detokenizer::push`] writes for one token.
    pub fn max_push(&self) -> usize {
        self.tokens.longest().saturating_add(1).saturating_mul(char::REPLACEMENT_CHARACTER.len_utf8())
    }

    /// Calls `f` for each byte of a token that the file calls text: a normal, user-defined or byte token.
    pub(crate) fn each_byte_of_text(&self, id: u32, f: &mut dyn FnMut(u8)) {
        if self.kinds.is_text(id) {
            // An unknown id has no bytes.
            let _ = self.each_byte(id, true, &mut |byte| f(byte));
        }
    }

    /// Calls `f` for each byte that a token stands for.
    fn each_byte(&self, id: u32, render_special: bool, f: &mut impl FnMut(u8)) -> Result<(), TokenError> {
        let text = self.tokens.text(id).ok_or(TokenError::UnknownId { id, tokens: self.vocab.len() })?;
        match (self.kinds.get(id), self.vocab.algorithm) {
            (TokenKind::Control | TokenKind::Unknown, _) if !render_special => {}
            (TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined, _) => text.iter().copied().for_each(f),
            (TokenKind::Byte, _) => match byte_of_name(text) {
                Some(byte) => f(byte),
                None => text.iter().copied().for_each(f),
            },
            (TokenKind::Normal, Algorithm::SentencePiece { .. } | Algorithm::Characters { .. }) => {
                each_byte_of_blanks(text, f)
            }
            (TokenKind::Normal, Algorithm::ByteLevel { .. }) => each_byte_of_alphabet(text, f),
            #[cfg(feature = "encoder")]
            (TokenKind::Normal, Algorithm::Words { .. }) => text.iter().copied().for_each(f),
            #[cfg(feature = "encoder")]
            (TokenKind::Normal, Algorithm::WordPiece { .. } | Algorithm::Unigram(_)) => each_byte_of_blanks(text, f),
            (TokenKind::Unused | TokenKind::Undefined, _) => {}
        }
        Ok(())
    }
}

/// Returns the byte that a name `<0xXX>` stands for.
fn byte_of_name(text: &[u8]) -> Option<u8> {
    let &[b'<', b'0', b'x', high, low, b'>'] = text else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

fn each_byte_of_blanks(text: &[u8], f: &mut impl FnMut(u8)) {
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        match rest.strip_prefix(BLANK.as_bytes()) {
            Some(after) => {
                f(b' ');
                rest = after;
            }
            None => {
                f(byte);
                rest = after;
            }
        }
    }
}

/// Calls `f` for each byte that a text in the alphabet of bytes stands for. Other characters stand for themselves.
fn each_byte_of_alphabet(text: &[u8], f: &mut impl FnMut(u8)) {
    for chunk in text.utf8_chunks() {
        let valid = chunk.valid();
        for (start, c) in valid.char_indices() {
            match bytes::decode(c) {
                Some(byte) => f(byte),
                None => valid.bytes().skip(start).take(c.len_utf8()).for_each(&mut *f),
            }
        }
        chunk.invalid().iter().copied().for_each(&mut *f);
    }
}

/// Decodes a stream of ids, token by token. It keeps the bytes of a character that is not complete yet.
///
/// Bytes that cannot become a character are written as U+FFFD, one for each longest part of a character, as
/// `String::from_utf8_lossy` does. [`Tokenizer::piece`] returns the bytes unchanged.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Copy, Debug)]
pub struct Detokenizer {
    options: DecodeOptions,
    /// First `pending` bytes of a character that is not complete.
    bytes: [u8; 4],
    pending: usize,
    /// Whether the next byte is dropped if it is a blank.
    strips: bool,
}

impl Detokenizer {
    /// Returns a detokenizer at the start of a stream of ids of `tokenizer`.
    pub fn new(tokenizer: &Tokenizer<'_, '_>, options: DecodeOptions) -> Self {
        let strips = options.starts_text && tokenizer.vocab.adds_space_prefix();
        Self { options, bytes: [0; 4], pending: 0, strips }
    }

    /// Writes the text that `id` completes to `out` and returns it. [`Tokenizer::max_push`] bytes always suffice.
    ///
    /// # Errors
    /// There is no such token, or `out` is too small. After an error only the contents of `out` may have changed.
    pub fn push<'o>(
        &mut self,
        tokenizer: &Tokenizer<'_, '_>,
        id: u32,
        out: &'o mut [u8],
    ) -> Result<&'o str, TokenError> {
        let mut state = *self;
        let mut text = Text { out, len: 0 };
        state.advance(tokenizer, id, &mut text)?;
        let text = text.finish()?;
        *self = state;
        Ok(as_str(text))
    }

    /// Ends the stream. Returns U+FFFD if it ended within a character, otherwise an empty text.
    pub fn finish(&mut self) -> &'static str {
        if core::mem::take(&mut self.pending) > 0 { "\u{FFFD}" } else { "" }
    }

    fn advance(&mut self, tokenizer: &Tokenizer<'_, '_>, id: u32, out: &mut Text<'_>) -> Result<(), TokenError> {
        tokenizer.each_byte(id, self.options.render_special, &mut |byte| {
            let stripped = core::mem::take(&mut self.strips) && byte == b' ';
            if !stripped {
                self.byte(byte, out);
            }
        })?;
        if tokenizer.kind(id).is_special() {
            self.strips = tokenizer.vocab.adds_space_prefix();
        }
        Ok(())
    }

    fn byte(&mut self, byte: u8, out: &mut Text<'_>) {
        if let Some(place) = self.bytes.get_mut(self.pending) {
            *place = byte;
            self.pending += 1;
        }
        while self.pending > 0 {
            let bytes = self.bytes.get(..self.pending).unwrap_or_default();
            let taken = match core::str::from_utf8(bytes) {
                Ok(text) => {
                    out.push(text.as_bytes());
                    self.pending
                }
                Err(error) => match error.error_len() {
                    None => break,
                    Some(len) => {
                        out.push("\u{FFFD}".as_bytes());
                        len
                    }
                },
            };
            let bytes = self.bytes;
            for (to, from) in self.bytes.iter_mut().zip(bytes.iter().skip(taken)) {
                *to = *from;
            }
            self.pending = self.pending.saturating_sub(taken);
        }
    }

    fn end(&mut self, out: &mut Text<'_>) {
        out.push(self.finish().as_bytes());
    }
}

fn as_str(text: &[u8]) -> &str {
    core::str::from_utf8(text).unwrap_or_default()
}

/// Output that counts all bytes that are written to it, and stores those that fit.
struct Text<'o> {
    out: &'o mut [u8],
    len: usize,
}

impl<'o> Text<'o> {
    fn push(&mut self, bytes: &[u8]) {
        for (to, from) in self.out.iter_mut().skip(self.len).zip(bytes) {
            *to = *from;
        }
        self.len += bytes.len();
    }

    fn finish(self) -> Result<&'o [u8], TokenError> {
        let (needed, given) = (self.len, self.out.len());
        let out: &'o [u8] = self.out;
        out.get(..needed).ok_or(TokenError::OutputTooSmall { needed, given })
    }
}
