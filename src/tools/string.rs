//! The inside of JSON strings.

use core::fmt::{self, Write};

/// Returns the text between the quotes of a string, with its escapes.
pub(crate) fn string(value: &str) -> Option<&str> {
    value.strip_prefix('"')?.strip_suffix('"')
}

/// Returns whether the inside of a string means this text.
pub(crate) fn is_same(inside: &str, text: &str) -> bool {
    inside == text || chars(inside).eq(text.chars())
}

/// Returns the characters that the inside of a string means.
pub(crate) fn chars(inside: &str) -> Chars<'_> {
    Chars { rest: inside }
}

#[derive(Clone, Debug)]
pub(crate) struct Chars<'t> {
    rest: &'t str,
}

impl Iterator for Chars<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let c = rest.next()?;
        self.rest = rest.as_str();
        if c != '\\' {
            return Some(c);
        }
        let escape = rest.next()?;
        self.rest = rest.as_str();
        Some(match escape {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => self.unit(),
            other => other,
        })
    }
}

impl<'t> Chars<'t> {
    /// Returns the text that has not been read.
    pub(crate) fn rest(&self) -> &'t str {
        self.rest
    }

    /// Returns the character of a `\u`. A pair of surrogates is one character, and a lone surrogate is U+FFFD.
    fn unit(&mut self) -> char {
        let Some((high, rest)) = hex4(self.rest) else { return char::REPLACEMENT_CHARACTER };
        self.rest = rest;
        let pair = || {
            let (low, rest) = hex4(rest.strip_prefix("\\u")?)?;
            let is_pair = (0xD800..0xDC00).contains(&high) && (0xDC00..0xE000).contains(&low);
            is_pair.then_some((0x10000 + ((high & 0x3FF) << 10 | low & 0x3FF), rest))
        };
        match pair() {
            Some((code, rest)) => {
                self.rest = rest;
                char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            None => char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER),
        }
    }
}

fn hex4(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    let code = digits.chars().try_fold(0, |code, digit| Some(code << 4 | digit.to_digit(16)?))?;
    Some((code, rest))
}

/// Writes one character inside of a string.
pub(crate) fn write_char(c: char, out: &mut dyn Write) -> fmt::Result {
    match c {
        '"' => out.write_str("\\\""),
        '\\' => out.write_str("\\\\"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\u{8}' => out.write_str("\\b"),
        '\u{c}' => out.write_str("\\f"),
        '\0'..' ' => {
            let digit = |value: u32| char::from_digit(value & 15, 16).unwrap_or('0');
            out.write_str("\\u00")?;
            out.write_char(digit(u32::from(c) >> 4))?;
            out.write_char(digit(u32::from(c)))
        }
        c => out.write_char(c),
    }
}

/// Writes a text as a string with its quotes.
pub(crate) fn write_string(text: &str, out: &mut dyn Write) -> fmt::Result {
    out.write_char('"')?;
    text.chars().try_for_each(|c| write_char(c, out))?;
    out.write_char('"')
}
