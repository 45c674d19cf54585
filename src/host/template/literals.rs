//! Changes of a template's source for the engine: to line ends, and to escapes in texts that it reads unlike Python.

use std::borrow::ToOwned;
use std::format;
use std::string::String;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Returns the source with `\n` at the end of each line, as Jinja reads it.
pub(super) fn with_line_feeds(source: &str) -> String {
    match source.contains('\r') {
        true => source.replace("\r\n", "\n").replace('\r', "\n"),
        false => source.to_owned(),
    }
}

/// Returns the source with escapes that the engine reads as Python reads the original ones. Source that is not Jinja is
/// left to the parser.
pub(super) fn with_known_escapes(source: &str, syntax: SyntaxConfig) -> String {
    let (mut out, mut done) = (String::with_capacity(source.len()), 0);
    for (token, span) in tokenize(source, false, syntax).map_while(Result::ok) {
        // The tokenizer has another token for texts without escapes.
        let Token::String(_) = token else { continue };
        let (from, to) = (span.start_offset as usize, span.end_offset as usize);
        if let (Some(before), Some(literal)) = (source.get(done..from), source.get(from..to)) {
            out.push_str(before);
            escape(literal, &mut out);
            done = to;
        }
    }
    out + source.get(done..).unwrap_or_default()
}

/// Writes a text literal with its quotes.
fn escape(literal: &str, out: &mut String) {
    let mut chars = literal.chars();
    let mut lines = 0;
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('/') => out.push_str("\\\\/"),
            Some('a') => out.push_str("\\x07"),
            Some('v') => out.push_str("\\x0b"),
            // The text continues in the next line. The line end is put after the text, so that errors name the right
            // line.
            Some('\n') => lines += 1,
            Some('U') => match chars.as_str().get(..8).and_then(character) {
                Some(character) => {
                    out.push_str(&character);
                    chars.nth(7);
                }
                None => out.push_str("\\U"),
            },
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out.extend(std::iter::repeat_n('\n', lines));
}

/// Returns the character with this code in hexadecimal digits, in a form without another meaning in a text.
fn character(digits: &str) -> Option<String> {
    let is_code = digits.chars().all(|c| c.is_ascii_hexdigit());
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok().filter(|_| is_code)?)?;
    Some(if c <= '\u{ffff}' { format!("\\u{:04x}", u32::from(c)) } else { String::from(c) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_those_of_the_engine() {
        let cases = [
            (r"{{ '\/\a\v' }}", r"{{ '\\/\x07\x0b' }}"),
            (r#"{{ "\U0001F600\U00000022\U0000d800\U+0000041\U1" }}"#, r#"{{ "😀\u0022\U0000d800\U+0000041\U1" }}"#),
            ("{{ 'a\\\nb' ~ x }}", "{{ 'ab'\n ~ x }}"),
            (r"{{ '\\a\n\'\x41' }}", r"{{ '\\a\n\'\x41' }}"),
            (r"\a {# '\a' #}{% raw %}{{ '\a' }}{% endraw %}", r"\a {# '\a' #}{% raw %}{{ '\a' }}{% endraw %}"),
            (r"{{ '\a' }}{{ '\a", r"{{ '\x07' }}{{ '\a"),
        ];
        for (source, expected) in cases {
            assert_eq!(with_known_escapes(source, SyntaxConfig::default()), expected);
        }
        assert_eq!(with_line_feeds("a\r\nb\rc\n\r"), "a\nb\nc\n\n");
    }
}
