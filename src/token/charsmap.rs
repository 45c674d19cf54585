//! The changes that SentencePiece makes to a text before it looks for tokens: the rules of the vocabulary replace
//! characters, and blanks become U+2581. (Kudo and Richardson, "SentencePiece", 2018.)
//!
//! The rules are the array `precompiled_charsmap`: the size of a tree in bytes, the tree, and the replacements, each
//! followed by a byte of 0. The tree is a double array (Aoe, 1989) of 32-bit units. From a node at `n` with the offset
//! `o`, byte b leads to unit `n ^ o ^ b`, if the label of this unit is b. If a node at `n` with the offset `o` is
//! marked as the end of a key, then unit `n ^ o` has the offset of the replacement.

use core::str::Chars;

/// The blank of SentencePiece.
pub(super) const BLANK: char = '\u{2581}';

/// The most bytes that a rule replaces. The rules of real files replace fewer than 20.
const LONGEST_KEY: usize = 256;

/// The most bytes of a replacement. The replacements of real files have up to 33.
const LONGEST_TEXT: usize = 256;

/// The rules of a vocabulary.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'m> {
    units: &'m [[u8; 4]],
    texts: &'m str,
    /// The most bytes that one byte of a text becomes.
    growth: usize,
}

impl<'m> Rules<'m> {
    /// Returns the rules of the array, or `None` if it is damaged. An empty array has no rules.
    pub(super) fn new(bytes: &'m [u8]) -> Option<Self> {
        let mut rules = Self { units: &[], texts: "", growth: BLANK.len_utf8() };
        if bytes.is_empty() {
            return Some(rules);
        }
        let (size, rest) = bytes.split_first_chunk()?;
        let (tree, texts) = rest.split_at_checked(u32::from_le_bytes(*size).try_into().ok()?)?;
        let (units, left) = tree.as_chunks();
        let texts = core::str::from_utf8(texts).ok()?;
        if !left.is_empty() || !(texts.is_empty() || texts.ends_with('\0')) {
            return None;
        }
        let longest = texts.as_bytes().split(|&byte| byte == 0).map(spelled_len).max().unwrap_or(0);
        if longest > LONGEST_TEXT * BLANK.len_utf8() {
            return None;
        }
        rules = Self { units, texts, ..rules };
        // In real files a character of one byte becomes at most one byte, and only longer characters become long texts.
        // So the largest replacement of one byte is bounded separately, and any other one is spread over at least two
        // bytes.
        let of_ascii = (0..=0x7F_u8).filter_map(|byte| rules.longest(core::str::from_utf8(&[byte]).ok()?));
        let of_ascii = of_ascii.map(|(_, text)| spelled_len(text.as_bytes())).max().unwrap_or(0);
        rules.growth = rules.growth.max(of_ascii).max(longest.div_ceil(2));
        Some(rules)
    }

    /// Returns the most bytes that a text of `bytes` bytes becomes.
    pub(super) fn most(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.growth).saturating_add(BLANK.len_utf8())
    }

    /// Returns the length of the longest beginning of a text that a rule replaces, and its replacement.
    fn longest(&self, text: &str) -> Option<(usize, &'m str)> {
        let unit = |at: usize| self.units.get(at).map(|unit| u32::from_le_bytes(*unit));
        let (mut at, mut found) = (offset(unit(0)?), None);
        for (len, byte) in (1..=LONGEST_KEY).zip(text.bytes()) {
            at ^= usize::from(byte);
            let Some(node) = unit(at).filter(|node| node & LABEL == u32::from(byte)) else { break };
            at ^= offset(node);
            if node >> 8 & 1 == 1
                && text.is_char_boundary(len)
                && let Some(replacement) = unit(at).and_then(|leaf| self.text(leaf))
            {
                found = Some((len, replacement));
            }
        }
        found
    }

    /// Returns the replacement that a leaf names.
    fn text(&self, leaf: u32) -> Option<&'m str> {
        let text = self.texts.get((leaf & !(1 << 31)) as usize..)?;
        text.get(..text.bytes().position(|byte| byte == 0)?)
    }
}

/// Mask of the bits of a unit that are equal to the byte that leads to it. A leaf has the highest bit set, too.
const LABEL: u32 = 1 << 31 | 0xFF;

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & 1 << 9) >> 6)) as usize
}

/// Returns the number of bytes of a text in which blanks are spelled as U+2581.
fn spelled_len(text: &[u8]) -> usize {
    text.len() + 2 * text.iter().filter(|&&byte| byte == b' ').count()
}

/// How blanks are changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blanks {
    /// Whether a blank is put before the text.
    pub(super) prefix: bool,
    /// Whether several blanks become one, and blanks at the ends of a text are removed.
    pub(super) merge: bool,
}

/// Iterator over the characters that a text becomes, from left to right.
#[derive(Clone, Debug)]
pub(super) struct Spelling<'t> {
    rules: &'t Rules<'t>,
    text: &'t str,
    /// Offset of the next character to read in `text`.
    at: usize,
    /// Offset of the characters that were replaced last, or of the last character that was not replaced.
    source: usize,
    /// Rest of the replacement of these characters.
    replacement: Chars<'t>,
    blanks: Blanks,
    /// Next character, while a blank is returned before it.
    held: Option<char>,
    in_word: bool,
    has_begun: bool,
}

impl<'t> Spelling<'t> {
    pub(super) fn new(rules: &'t Rules<'t>, text: &'t str, blanks: Blanks) -> Self {
        let replacement = "".chars();
        Self { rules, text, at: 0, source: 0, replacement, blanks, held: None, in_word: false, has_begun: false }
    }

    /// Returns the offset and the characters of the text that the last character comes from. They are empty for a blank
    /// that is put before the text.
    pub(super) fn source(&self) -> (usize, &'t str) {
        (self.source, self.text.get(self.source..self.at).unwrap_or_default())
    }

    /// Returns what [`Spelling::source`] does, for a last character that is a blank. If the blank was put before the
    /// next character, the result is the character before that one in the text.
    pub(super) fn blank(&self) -> (usize, &'t str) {
        let (at, own) = self.source();
        if own == " " {
            return (at, own);
        }
        let before = self.text.get(..at).unwrap_or_default();
        let len = before.chars().next_back().map_or(0, char::len_utf8);
        (at.saturating_sub(len), before.get(at.saturating_sub(len)..).unwrap_or_default())
    }

    /// Moves to the end of the next word, which is before the next blank after other characters, or the end of the
    /// text. Returns the number of bytes of the word.
    pub(super) fn skip_word(&mut self) -> usize {
        let (mut len, mut has_text) = (0, false);
        loop {
            let before = self.clone();
            match self.next() {
                Some(BLANK) if has_text => {
                    *self = before;
                    return len;
                }
                Some(c) => (len, has_text) = (len + c.len_utf8(), has_text || c != BLANK),
                None => return len,
            }
        }
    }

    /// Returns the next character, without regard to the blanks around it.
    fn plain(&mut self) -> Option<char> {
        loop {
            if let Some(c) = self.replacement.next() {
                return Some(c);
            }
            self.source = self.at;
            let rest = self.text.get(self.at..)?;
            match self.rules.longest(rest) {
                Some((len, text)) => (self.at, self.replacement) = (self.at + len, text.chars()),
                None => {
                    let c = rest.chars().next()?;
                    self.at += c.len_utf8();
                    return Some(c);
                }
            }
        }
    }
}

impl Iterator for Spelling<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        loop {
            let c = self.plain()?;
            let is_blank = c == ' ';
            let begins = !core::mem::replace(&mut self.in_word, !is_blank) && !is_blank;
            if is_blank && self.blanks.merge {
                continue;
            }
            let c = if is_blank { BLANK } else { c };
            let between = begins && self.blanks.merge && self.has_begun;
            self.has_begun = true;
            if !core::mem::take(&mut self.blanks.prefix) && !between {
                return Some(c);
            }
            self.held = Some(c);
            return Some(BLANK);
        }
    }
}
