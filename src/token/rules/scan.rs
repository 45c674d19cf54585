//! Functions with which rules read a text.

use crate::token::class::Set;

pub(super) fn is_newline(c: char) -> bool {
    c == '\r' || c == '\n'
}

pub(super) fn is_newline_or_slash(c: char) -> bool {
    is_newline(c) || c == '/'
}

/// Cuts out the matches of `found`, which returns the length of the match at the start of a text, or 0.
pub(super) fn isolated(text: &str, found: impl Fn(&str) -> usize) -> usize {
    let len_at = |at: usize| text.get(at..).map_or(0, &found);
    match len_at(0) {
        0 => text.char_indices().map(|(at, _)| at).skip(1).find(|&at| len_at(at) > 0).unwrap_or(text.len()),
        len => len,
    }
}

/// Cuts out the runs of characters that `take` accepts.
pub(super) fn runs(text: &str, take: impl Fn(char) -> bool) -> usize {
    match run(text, &take) {
        0 => run(text, |c| !take(c)),
        len => len,
    }
}

/// `A?B+`, or 0 without a match. A gives way where no other character is left for B.
pub(super) fn with_optional(text: &str, a: impl Fn(char) -> bool, b: impl Fn(char) -> bool) -> usize {
    let (prefix, rest) = optional(text, a);
    match run(rest, &b) {
        0 => run(text, b),
        len => prefix + len,
    }
}

/// Returns the length of the first character if `take` accepts it, or 0, and the text after it.
pub(super) fn optional(text: &str, take: impl Fn(char) -> bool) -> (usize, &str) {
    text.strip_prefix(take).map_or((0, text), |rest| (text.len() - rest.len(), rest))
}

/// Returns the number of bytes at the start that are characters of `set`.
pub(super) fn set_run(text: &str, set: Set) -> usize {
    let ascii = set.ascii_run(text);
    match text.get(ascii..) {
        Some(rest) if !rest.as_bytes().first().is_none_or(u8::is_ascii) => ascii + run(rest, |c| set.has(c)),
        _ => ascii,
    }
}

/// Returns the number of bytes at the start that are characters that `take` accepts.
pub(super) fn run(text: &str, take: impl Fn(char) -> bool) -> usize {
    text.find(|c| !take(c)).unwrap_or(text.len())
}

/// Returns the number of bytes at the start that are characters of `set`, for at most `count` characters.
pub(super) fn at_most(text: &str, set: Set, count: usize) -> usize {
    text.chars().take(count).take_while(|&c| set.has(c)).map(char::len_utf8).sum()
}
