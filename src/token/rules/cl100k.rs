//! GPT-2's rule, and the rules that descend from cl100k: words without regard to case, numbers, other characters, white
//! space.

use super::scan::{at_most, is_newline, isolated, optional, run, set_run};
use crate::token::class::Set;

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
pub(in crate::token) fn gpt2(text: &str) -> usize {
    if let Some(len) = contraction(text, false) {
        return len;
    }
    let (space, rest) = optional(text, |c| c == ' ');
    let run = [Set::LETTER, Set::NUMBER, OTHER].map(|set| set_run(rest, set)).into_iter().find(|&len| len > 0);
    run.map_or_else(|| spaces(text), |len| space + len)
}

/// `[^\s\p{L}\p{N}]`
const OTHER: Set = Set::SPACE.or(Set::LETTER).or(Set::NUMBER).not();

/// The differences between the rules that descend from cl100k.
pub(super) struct Style {
    /// The characters of words.
    pub(super) letters: Set,
    /// The most digits of a number.
    pub(super) digits: usize,
    /// The characters at the end of a run of other characters that the run takes with it.
    pub(super) tail: fn(char) -> bool,
}

impl Style {
    pub(super) const fn new(digits: usize) -> Self {
        Self { letters: Set::LETTER, digits, tail: is_newline }
    }
}

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?L+|\p{N}{1,D}| ?[^\s\p{N}L]+T*|\s*[\r\n]+|\s+(?!\S)|\s+` with the
/// letters L, the number of digits D and the tail T of the style.
fn cl100k(text: &str, style: &Style) -> usize {
    contraction(text, true)
        .or_else(|| prefixed(text, Set::LETTER.or(Set::NUMBER), style.letters))
        .unwrap_or_else(|| others(text, style))
}

/// The rule of Llama 3: numbers of up to three digits.
pub(in crate::token) fn llama3(text: &str) -> usize {
    cl100k(text, &const { Style::new(3) })
}

/// The rule of Qwen2: every digit by itself.
pub(in crate::token) fn qwen2(text: &str) -> usize {
    cl100k(text, &const { Style::new(1) })
}

/// The rule of Qwen3.5: marks belong to words.
pub(in crate::token) fn qwen35(text: &str) -> usize {
    cl100k(text, &const { Style { letters: Set::LETTER.or(Set::MARK), ..Style::new(1) } })
}

/// The rule of Seed-Coder: line ends never follow other characters.
pub(in crate::token) fn seed_coder(text: &str) -> usize {
    cl100k(text, &const { Style { tail: |_| false, ..Style::new(1) } })
}

/// The rule of UFAKzeka: [`qwen2`] without contractions, so that suffixes stay with their words.
pub(in crate::token) fn ufakzeka(text: &str) -> usize {
    let word = prefixed(text, Set::LETTER.or(Set::NUMBER), Set::LETTER);
    word.unwrap_or_else(|| others(text, &const { Style::new(1) }))
}

/// `C|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`
/// with the contractions C of [`llama3`]: words with single blanks between them are one piece.
pub(in crate::token) fn exaone_moe(text: &str) -> usize {
    if let Some(len) = contraction(text, true).or_else(|| phrase(text)) {
        return len;
    }
    let len = others(text, &const { Style { tail: |_| false, ..Style::new(1) } });
    let (piece, rest) = text.split_at_checked(len).unwrap_or((text, ""));
    let takes_newline = piece.chars().next_back().is_some_and(|c| OTHER.has(c));
    len + if takes_newline { optional(rest, is_newline).0 } else { 0 }
}

/// `[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+`
fn phrase(text: &str) -> Option<usize> {
    let (mut len, mut rest) = optional(text, |c| !Set::LETTER.or(Set::NUMBER).has(c) && !is_newline(c));
    let mut found = None;
    loop {
        let (blank, word) = optional(rest, |c| c == ' ' && found.is_some());
        let letters = set_run(word, Set::LETTER);
        if letters == 0 {
            return found;
        }
        let marks = word.get(letters..).map_or(0, |rest| set_run(rest, Set::MARK));
        len += blank + letters + marks;
        found = Some(len);
        rest = word.get(letters + marks..).unwrap_or_default();
    }
}

/// Cuts the white space of Jais 2 in pieces that [`llama3`] has made:
/// `\s{512}(?!\S)|\s{256}(?!\S)|...|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`
pub(in crate::token) fn jais_blanks(text: &str) -> usize {
    // A piece that ends with a blank has only blanks, and a piece with line ends ends with one.
    if !text.chars().next_back().is_some_and(|c| Set::SPACE.has(c) && !is_newline(c)) {
        return text.len();
    }
    let blanks = text.chars().take(512).count();
    let taken = [512, 256, 128, 64, 32, 16, 8, 4, 2].into_iter().find(|&count| count <= blanks);
    text.chars().take(taken.unwrap_or(1)).map(char::len_utf8).sum()
}

/// `[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
/// which does not match everything.
pub(in crate::token) fn deepseek3(text: &str) -> usize {
    isolated(text, |text| signed_word(text).unwrap_or_else(|| others_or_spaces(text, SIGNS, is_newline)))
}

/// `[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+`, which does not
/// match everything: the rule of Spark 2.5.
pub(in crate::token) fn spark(text: &str) -> usize {
    isolated(text, |text| {
        signed_word(text).unwrap_or_else(|| {
            let (space, rest) = optional(text, |c| c == ' ');
            match (set_run(rest, SIGNS), optional(text, is_newline).0) {
                (0, 0) => spaces(text),
                (0, newline) => newline,
                (signs, _) => space + signs,
            }
        })
    })
}

/// `\p{P}` and `\p{S}`
const SIGNS: Set = Set::PUNCTUATION.or(Set::SYMBOL);

/// `[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+`
fn signed_word(text: &str) -> Option<usize> {
    let (sign, rest) = optional(text, |c| c.is_ascii_punctuation());
    let word = run(rest, |c| c.is_ascii_alphabetic());
    if sign > 0 && word > 0 {
        return Some(sign + word);
    }
    prefixed(text, Set::LETTER.or(SIGNS), Set::LETTER.or(Set::MARK))
}

/// `[^\r\n<barred>]?W+`, where `barred` has all of W but the marks. The prefix gives way where no other character is
/// left for W.
fn prefixed(text: &str, barred: Set, word: Set) -> Option<usize> {
    let (prefix, rest) = optional(text, |c| !word.has(c) && !barred.has(c) && !is_newline(c));
    let len = set_run(rest, word);
    (len > 0).then_some(prefix + len)
}

/// `\p{N}{1,D}| ?[^\s\p{N}L]+T*|\s*[\r\n]+|\s+(?!\S)|\s+`
pub(super) fn others(text: &str, style: &Style) -> usize {
    match at_most(text, Set::NUMBER, style.digits) {
        0 => others_or_spaces(text, Set::SPACE.or(Set::NUMBER).or(style.letters).not(), style.tail),
        digits => digits,
    }
}

/// ` ?O+T*|\s*[\r\n]+|\s+(?!\S)|\s+`, or 0
fn others_or_spaces(text: &str, others: Set, tail: fn(char) -> bool) -> usize {
    let (space, rest) = optional(text, |c| c == ' ');
    let len = set_run(rest, others);
    if len > 0 {
        return space + len + rest.get(len..).map_or(0, |rest| run(rest, tail));
    }
    let blank = text.get(..set_run(text, Set::SPACE)).unwrap_or_default();
    blank.rfind(is_newline).map_or_else(|| spaces(text), |last| last + 1)
}

/// `\s+(?!\S)|\s+`: all white space at the start of the text. If text follows and this is more than one character, the
/// last one is left out.
fn spaces(text: &str) -> usize {
    let len = set_run(text, Set::SPACE);
    let last = text.get(..len).and_then(|blank| blank.chars().next_back()).map_or(0, char::len_utf8);
    if len == text.len() || len == last { len } else { len.saturating_sub(last) }
}

/// `'s|'t|'re|'ve|'m|'ll|'d`. With `any_case` case does not matter, and U+017F counts as an s.
pub(super) fn contraction(text: &str, any_case: bool) -> Option<usize> {
    let rest = text.as_bytes().strip_prefix(b"'")?;
    let lower = |byte: u8| if any_case { byte.to_ascii_lowercase() } else { byte };
    match *rest {
        [a, ..] if matches!(lower(a), b's' | b't' | b'm' | b'd') => Some(2),
        [a, b, ..] if matches!([lower(a), lower(b)], [b'r' | b'v', b'e'] | [b'l', b'l']) => Some(3),
        [0xC5, 0xBF, ..] if any_case => Some(3),
        _ => None,
    }
}
