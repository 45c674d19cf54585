//! The rules that descend from o200k: a word ends where a capital letter begins.

use super::alphabets::is_han;
use super::cl100k::{Style, contraction, others};
use super::scan::{is_newline, is_newline_or_slash, optional, run, set_run};
use crate::token::class::Set;

/// `P?U*L+C?|P?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+` with
/// P = `[^\r\n\p{L}\p{N}]`, U = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`, L = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`,
/// C = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
pub(in crate::token) fn o200k(text: &str) -> usize {
    let style = const { Style { tail: is_newline_or_slash, ..Style::new(3) } };
    contracted(text, set_run).unwrap_or_else(|| others(text, &style))
}

/// The rule of Tekken: [`o200k`] without C, and every digit by itself.
pub(in crate::token) fn tekken(text: &str) -> usize {
    let style = const { Style { tail: is_newline_or_slash, ..Style::new(1) } };
    cased_word(text, set_run).unwrap_or_else(|| others(text, &style))
}

/// The rule of Youtu: [`o200k`] with every digit by itself.
pub(in crate::token) fn youtu(text: &str) -> usize {
    let style = const { Style { tail: is_newline_or_slash, ..Style::new(1) } };
    contracted(text, set_run).unwrap_or_else(|| others(text, &style))
}

/// `\p{Han}+|P?U*L+C?|P?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, where P and C are those
/// of [`o200k`], and U and L have no Han characters: the rule of Kimi K2.
pub(in crate::token) fn kimi(text: &str) -> usize {
    match run(text, is_han) {
        0 => contracted(text, set_run_without_han).unwrap_or_else(|| others(text, &const { Style::new(3) })),
        han => han,
    }
}

fn set_run_without_han(text: &str, set: Set) -> usize {
    run(text, |c| set.has(c) && !is_han(c))
}

/// A function that returns the number of bytes at the start of a text that are characters of a set.
type Run = fn(&str, Set) -> usize;

/// `P?U*L+C?|P?U+L*C?`
fn contracted(text: &str, run: Run) -> Option<usize> {
    let word = cased_word(text, run)?;
    Some(word + text.get(word..).and_then(|rest| contraction(rest, true)).unwrap_or(0))
}

/// Returns the length of the word of [`o200k`] at the start of `text`, without a contraction.
fn cased_word(text: &str, run: Run) -> Option<usize> {
    let (prefix, rest) = optional(text, |c| !Set::LETTER.or(Set::NUMBER).has(c) && !is_newline(c));
    let with_prefix = |find: fn(&str, Run) -> Option<usize>| Some(prefix + find(rest, run)?);
    with_prefix(capitalized)
        .or_else(|| capitalized(text, run))
        .or_else(|| with_prefix(upper_first))
        .or_else(|| upper_first(text, run))
}

const UPPER: Set = Set::UPPER.or(Set::CASELESS).or(Set::MARK);
const LOWER: Set = Set::LOWER.or(Set::CASELESS).or(Set::MARK);

/// `U*L+`. Where no lower case letter follows U*, U* gives back characters after the last one that is also in L.
fn capitalized(text: &str, run: Run) -> Option<usize> {
    let upper = run(text, UPPER);
    let (head, tail) = text.split_at_checked(upper)?;
    match run(tail, LOWER) {
        0 => head.char_indices().rev().find(|&(_, c)| LOWER.has(c)).map(|(at, c)| at + c.len_utf8()),
        lower => Some(upper + lower),
    }
}

/// `U+L*`
fn upper_first(text: &str, run: Run) -> Option<usize> {
    let upper = run(text, UPPER);
    (upper > 0).then(|| upper + text.get(upper..).map_or(0, |rest| run(rest, LOWER)))
}
