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
    is_blank || !c.is_control() && c != char::REPLACEMENT_CHARACTER && !is_invisible(c)
}

/// Whether a character is one of format (`\p{Cf}`), or of private use (`\p{Co}`).
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{AD}' | '\u{600}'..='\u{605}' | '\u{61C}' | '\u{6DD}' | '\u{70F}' | '\u{890}'..='\u{891}' | '\u{8E2}'
        | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{110BD}' | '\u{110CD}'
        | '\u{13430}'..='\u{1343F}' | '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' | '\u{E0001}'
        | '\u{E0020}'..='\u{E007F}' | '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{FFFFD}'
        | '\u{100000}'..='\u{10FFFD}')
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

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

    #[test]
    fn invisible_characters_are_those_of_unicode() {
        for c in '\0'..=char::MAX {
            let category = c.general_category();
            assert_eq!(
                is_invisible(c),
                matches!(category, GeneralCategory::Format | GeneralCategory::PrivateUse),
                "{c:?}"
            );
        }
    }
}
