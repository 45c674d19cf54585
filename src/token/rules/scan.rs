//! How rules read a text.

use crate::token::class::Set;

pub(super) fn is_newline(c: char) -> bool {
    c == '\r' || c == '\n'
}

pub(super) fn is_newline_or_slash(c: char) -> bool {
    is_newline(c) || c == '/'
}

/// Cuts out what `found` finds, given how long the match at the start of a text is, or 0.
pub(super) fn isolated(text: &str, found: impl Fn(&str) -> usize) -> usize {
    let len_at = |at: usize| text.get(at..).map_or(0, &found);
    match len_at(0) {
        0 => text.char_indices().map(|(at, _)| at).skip(1).find(|&at| len_at(at) > 0).unwrap_or(text.len()),
        len => len,
    }
}

/// Cuts out the runs of what `take` accepts.
pub(super) fn runs(text: &str, take: impl Fn(char) -> bool) -> usize {
    match run(text, &take) {
        0 => run(text, |c| !take(c)),
        len => len,
    }
}

/// `A?B+`, or 0: A gives way where nothing else is left for B.
pub(super) fn with_optional(text: &str, a: impl Fn(char) -> bool, b: impl Fn(char) -> bool) -> usize {
    let (prefix, rest) = optional(text, a);
    match run(rest, &b) {
        0 => run(text, b),
        len => prefix + len,
    }
}

/// The length of the first character if `take` accepts it, and what follows.
pub(super) fn optional(text: &str, take: impl Fn(char) -> bool) -> (usize, &str) {
    text.strip_prefix(take).map_or((0, text), |rest| (text.len() - rest.len(), rest))
}

/// Bytes of the characters of `set` at the start.
pub(super) fn set_run(text: &str, set: Set) -> usize {
    let ascii = set.ascii_run(text);
    match text.get(ascii..) {
        Some(rest) if !rest.as_bytes().first().is_none_or(u8::is_ascii) => ascii + run(rest, |c| set.has(c)),
        _ => ascii,
    }
}

/// Bytes of the characters at the start that `take` accepts.
pub(super) fn run(text: &str, take: impl Fn(char) -> bool) -> usize {
    text.find(|c| !take(c)).unwrap_or(text.len())
}

/// Bytes of the first characters of `set`, at most `count` of them.
pub(super) fn at_most(text: &str, set: Set, count: usize) -> usize {
    text.chars().take(count).take_while(|&c| set.has(c)).map(char::len_utf8).sum()
}
