//! The words of a text for WordPiece, as BERT's own tokenizer makes them: without control characters, in lower case and
//! without accents where the file wants that; punctuation and ideographs are words of their own. (Devlin et al., "BERT",
//! 2018.)

use super::class::{Class, Set};
use super::fold::unaccented;
use super::tokenizer::BLANK;

/// What becomes of letters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub(super) lowercase: bool,
    pub(super) strip_accents: bool,
}

/// Calls `found` with the length in bytes of each word, a blank in front of it included, and with these bytes, unless they
/// are more than `scratch` holds. The first error ends it.
pub(super) fn words<E>(
    text: &str,
    fold: Fold,
    scratch: &mut [u32],
    found: &mut impl FnMut(usize, Option<&[u8]>) -> Result<(), E>,
) -> Result<(), E> {
    let mut word = Word { bytes: bytemuck::must_cast_slice_mut(scratch), len: 0 };
    for c in text.chars().filter(|&c| is_text(c)) {
        if Class::of(c) == Class::Space {
            word.end(found)?;
        } else if is_ideograph(c) {
            word.end(found)?;
            fold.each(c, &mut |c| {
                word.push(c);
                Ok(())
            })?;
            word.end(found)?;
        } else {
            fold.each(c, &mut |c| {
                if !is_punctuation(c) {
                    word.push(c);
                    return Ok(());
                }
                word.end(found)?;
                word.push(c);
                word.end(found)
            })?;
        }
    }
    word.end(found)
}

impl Fold {
    /// Calls `f` with the characters that a character becomes.
    fn each<E>(self, c: char, f: &mut impl FnMut(char) -> Result<(), E>) -> Result<(), E> {
        let mut lower = |c: char| if self.lowercase { c.to_lowercase().try_for_each(&mut *f) } else { f(c) };
        if self.strip_accents { unaccented(c).try_for_each(lower) } else { lower(c) }
    }
}

/// A word that grows. Its length counts what does not fit, too.
struct Word<'s> {
    bytes: &'s mut [u8],
    len: usize,
}

impl Word<'_> {
    fn push(&mut self, c: char) {
        if self.len == 0 {
            self.put(BLANK);
        }
        self.put(c.encode_utf8(&mut [0; 4]));
    }

    fn put(&mut self, text: &str) {
        let end = self.len.saturating_add(text.len());
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.copy_from_slice(text.as_bytes());
        }
        self.len = end;
    }

    fn end<E>(&mut self, found: &mut impl FnMut(usize, Option<&[u8]>) -> Result<(), E>) -> Result<(), E> {
        let len = core::mem::take(&mut self.len);
        if len == 0 { Ok(()) } else { found(len, self.bytes.get(..len)) }
    }
}

/// Whether a character counts at all.
fn is_text(c: char) -> bool {
    let is_blank = matches!(c, '\t' | '\n' | '\r');
    is_blank || !c.is_control() && c != char::REPLACEMENT_CHARACTER && Class::of(c) != Class::Other
}

fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || Set::PUNCTUATION.has(c)
}

/// Whether a character is an ideograph of Chinese, Japanese or Korean.
fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{2A6DF}'
        | '\u{2A700}'..='\u{2B73F}' | '\u{2B740}'..='\u{2B81F}' | '\u{2B920}'..='\u{2CEAF}' | '\u{2F800}'..='\u{2FA1F}')
}
