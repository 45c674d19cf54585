//! The words of a text for WordPiece, as BERT's own tokenizer makes them: without control characters, and in lower case
//! and without accents if the file asks for it. Signs of punctuation and ideographs are words of their own. (Devlin et
//! al., "BERT", 2018.)

use core::ops::Range;

use super::class::{Class, Set};
use super::fold::unaccented;
use super::tokenizer::BLANK;

/// How letters are changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    pub(super) lowercase: bool,
    pub(super) strip_accents: bool,
}

/// A word as the vocabulary spells it: with a blank in front of it.
#[derive(Debug)]
pub(super) struct Found<'w> {
    /// Byte range of the word in the text.
    pub(super) at: Range<usize>,
    /// Length of the spelled word in bytes, with the blank.
    pub(super) len: usize,
    /// Bytes of the spelled word, or `None` if the scratch is too small.
    pub(super) bytes: Option<&'w [u8]>,
}

/// Calls `found` with each word.
pub(super) fn words(text: &str, fold: Fold, scratch: &mut [u32], found: &mut impl FnMut(Found<'_>)) {
    let mut word = Word { bytes: bytemuck::must_cast_slice_mut(scratch), len: 0, at: 0..0 };
    for (at, c) in text.char_indices().filter(|&(_, c)| is_text(c)) {
        let at = at..at + c.len_utf8();
        if Class::of(c) == Class::Space {
            word.end(found);
        } else if is_ideograph(c) {
            word.end(found);
            fold.each(c, &mut |c| word.push(c, &at));
            word.end(found);
        } else {
            fold.each(c, &mut |c| {
                if !is_punctuation(c) {
                    return word.push(c, &at);
                }
                word.end(found);
                word.push(c, &at);
                word.end(found);
            });
        }
    }
    word.end(found);
}

impl Fold {
    /// Calls `f` with the characters that a character becomes.
    fn each(self, c: char, f: &mut impl FnMut(char)) {
        let mut lower = |c: char| if self.lowercase { c.to_lowercase().for_each(&mut *f) } else { f(c) };
        if self.strip_accents { unaccented(c).for_each(lower) } else { lower(c) }
    }
}

/// A word that grows. `len` also counts bytes that do not fit.
struct Word<'s> {
    bytes: &'s mut [u8],
    len: usize,
    /// Byte range of the word in the text.
    at: Range<usize>,
}

impl Word<'_> {
    /// Appends a character. It comes from the character at `at` of the text.
    fn push(&mut self, c: char, at: &Range<usize>) {
        if self.len == 0 {
            self.put(BLANK);
            self.at.start = at.start;
        }
        self.at.end = at.end;
        self.put(c.encode_utf8(&mut [0; 4]));
    }

    fn put(&mut self, text: &str) {
        let end = self.len.saturating_add(text.len());
        if let Some(place) = self.bytes.get_mut(self.len..end) {
            place.iter_mut().zip(text.bytes()).for_each(|(place, byte)| *place = byte);
        }
        self.len = end;
    }

    fn end(&mut self, found: &mut impl FnMut(Found<'_>)) {
        let len = core::mem::take(&mut self.len);
        if len > 0 {
            found(Found { at: self.at.clone(), len, bytes: self.bytes.get(..len) });
        }
    }
}

/// Returns whether a character belongs to the text. Other characters are left out.
fn is_text(c: char) -> bool {
    let is_blank = matches!(c, '\t' | '\n' | '\r');
    is_blank || !c.is_control() && c != char::REPLACEMENT_CHARACTER && !is_invisible(c)
}

/// Returns whether a character is a format character (`\p{Cf}`) or of private use (`\p{Co}`).
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

/// Returns whether a character is an ideograph of Chinese, Japanese or Korean.
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
