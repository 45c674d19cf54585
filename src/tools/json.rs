//! Reads JSON in place, without a copy.

pub(crate) use super::string::{chars, is_same, string, write_char, write_string};

/// The most arrays and objects inside each other.
pub(crate) const MOST_DEPTH: u32 = 64;

/// What is wrong with a text, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    pub(crate) at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// The text ends before it is complete.
    Incomplete,
    Invalid,
    TooDeep,
    /// An argument without a name.
    Positional,
}

impl Fault {
    pub(crate) fn incomplete<T>(at: usize) -> Result<T, Self> {
        Err(Self { kind: FaultKind::Incomplete, at })
    }

    pub(crate) fn invalid<T>(at: usize) -> Result<T, Self> {
        Err(Self { kind: FaultKind::Invalid, at })
    }

    pub(crate) fn too_deep<T>(at: usize) -> Result<T, Self> {
        Err(Self { kind: FaultKind::TooDeep, at })
    }
}

/// A token of JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// `{` or, if `false`, `[`.
    Open(bool),
    /// `}` or, if `false`, `]`.
    Close(bool),
    Comma,
    Colon,
    /// A string with its quotes.
    Text,
    /// A number, `true`, `false`, `null`.
    Scalar,
}

/// Returns the token at `at` or after white space, where it begins and where it ends.
pub(crate) fn token(text: &str, at: usize) -> Result<(Token, usize, usize), Fault> {
    let start = skip_space(text, at);
    let bytes = text.as_bytes();
    let Some(&byte) = bytes.get(start) else { return Fault::incomplete(start) };
    let one = |token| Ok((token, start, start + 1));
    match byte {
        b'{' | b'[' => one(Token::Open(byte == b'{')),
        b'}' | b']' => one(Token::Close(byte == b'}')),
        b',' => one(Token::Comma),
        b':' => one(Token::Colon),
        b'"' => Ok((Token::Text, start, string_end(bytes, start)?)),
        b'-' | b'0'..=b'9' => Ok((Token::Scalar, start, number_end(bytes, start)?)),
        b't' => Ok((Token::Scalar, start, word_end(bytes, start, b"true")?)),
        b'f' => Ok((Token::Scalar, start, word_end(bytes, start, b"false")?)),
        b'n' => Ok((Token::Scalar, start, word_end(bytes, start, b"null")?)),
        _ => Fault::invalid(start),
    }
}

/// Returns the first place from `at` on that is no white space of JSON.
pub(crate) fn skip_space(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

fn string_end(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start + 1;
    loop {
        match bytes.get(at) {
            None => return Fault::incomplete(at),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape_end(bytes, at)?,
            Some(0..0x20) => return Fault::invalid(at),
            Some(_) => at += 1,
        }
    }
}

fn escape_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    match bytes.get(at + 1) {
        None => Fault::incomplete(at + 1),
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match unit(bytes, at)? {
            // Half of a pair of surrogates is no character.
            0xD800..0xDC00 => match (bytes.get(at + 6), bytes.get(at + 7)) {
                (None, _) | (Some(b'\\'), None) => Fault::incomplete(bytes.len()),
                (Some(b'\\'), Some(b'u')) if (0xDC00..0xE000).contains(&unit(bytes, at + 6)?) => Ok(at + 12),
                _ => Fault::invalid(at),
            },
            0xDC00..0xE000 => Fault::invalid(at),
            _ => Ok(at + 6),
        },
        Some(_) => Fault::invalid(at),
    }
}

/// Returns the value of the four digits of the `\u` at `at`.
fn unit(bytes: &[u8], at: usize) -> Result<u32, Fault> {
    let digits = bytes.get(at + 2..).unwrap_or_default().iter().take(4);
    let is_whole = digits.len() == 4;
    let code = digits.map(|&byte| char::from(byte).to_digit(16)).try_fold(0, |code, digit| Some(code << 4 | digit?));
    match code {
        None => Fault::invalid(at),
        Some(_) if !is_whole => Fault::incomplete(bytes.len()),
        Some(code) => Ok(code),
    }
}

/// Returns where the number ends that begins at `start`.
pub(crate) fn number_end(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start + usize::from(bytes.get(start) == Some(&b'-'));
    let has_zero = bytes.get(at) == Some(&b'0');
    at = if has_zero { at + 1 } else { digits_end(bytes, at)? };
    if bytes.get(at) == Some(&b'.') {
        at = digits_end(bytes, at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
        at = digits_end(bytes, at)?;
    }
    match bytes.get(at) {
        Some(b'0'..=b'9' | b'.') => Fault::invalid(at),
        _ => Ok(at),
    }
}

fn digits_end(bytes: &[u8], at: usize) -> Result<usize, Fault> {
    let rest = bytes.get(at..).unwrap_or_default();
    match rest.iter().take_while(|byte| byte.is_ascii_digit()).count() {
        0 if rest.is_empty() => Fault::incomplete(at),
        0 => Fault::invalid(at),
        count => Ok(at + count),
    }
}

fn word_end(bytes: &[u8], start: usize, word: &[u8]) -> Result<usize, Fault> {
    let rest = bytes.get(start..).unwrap_or_default();
    if rest.starts_with(word) {
        Ok(start + word.len())
    } else if word.starts_with(rest) {
        Fault::incomplete(bytes.len())
    } else {
        Fault::invalid(start)
    }
}

/// Which arrays and objects are open: one bit each, set for an object.
struct Nest {
    bits: u64,
    depth: u32,
}

/// What may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Value,
    FirstElement,
    Key,
    FirstKey,
    Colon,
    More,
}

/// Returns where the value ends that begins at `at` or after white space. All of it is checked.
pub(crate) fn value_end(text: &str, at: usize) -> Result<usize, Fault> {
    let (mut nest, mut next, mut place) = (Nest { bits: 0, depth: 0 }, Next::Value, at);
    loop {
        let (token, start, end) = token(text, place)?;
        next = match (next, token) {
            (Next::Value | Next::FirstElement, Token::Open(is_object)) => {
                if nest.depth >= MOST_DEPTH {
                    return Fault::too_deep(start);
                }
                nest = Nest { bits: nest.bits << 1 | u64::from(is_object), depth: nest.depth + 1 };
                if is_object { Next::FirstKey } else { Next::FirstElement }
            }
            (Next::Value | Next::FirstElement, Token::Text | Token::Scalar) => Next::More,
            (Next::FirstElement, Token::Close(false)) | (Next::FirstKey, Token::Close(true)) => nest.close(),
            (Next::More, Token::Close(is_object)) if (nest.bits & 1 == 1) == is_object => nest.close(),
            (Next::Key | Next::FirstKey, Token::Text) => Next::Colon,
            (Next::Colon, Token::Colon) => Next::Value,
            (Next::More, Token::Comma) if nest.bits & 1 == 1 => Next::Key,
            (Next::More, Token::Comma) => Next::Value,
            _ => return Fault::invalid(start),
        };
        if next == Next::More && nest.depth == 0 {
            return Ok(end);
        }
        place = end;
    }
}

impl Nest {
    fn close(&mut self) -> Next {
        (self.bits, self.depth) = (self.bits >> 1, self.depth.saturating_sub(1));
        Next::More
    }
}

/// Returns where the object ends that begins at `at` or after white space.
pub(crate) fn object_end(text: &str, at: usize) -> Result<usize, Fault> {
    match token(text, at)? {
        (Token::Open(true), ..) => value_end(text, at),
        (_, start, _) => Fault::invalid(start),
    }
}

/// The members of an object: the name without its quotes, the value, and where the value begins. Ends early if the text
/// is not JSON.
#[derive(Clone, Debug)]
pub(crate) struct Members<'t> {
    text: &'t str,
    at: usize,
}

/// Returns the members of an object. Another value has none.
pub(crate) fn members(object: &str) -> Members<'_> {
    Members { text: object, at: content(object, true) }
}

impl<'t> Iterator for Members<'t> {
    type Item = (&'t str, &'t str, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.text.get(self.at..value_end(self.text, self.at).ok()?)?;
        let name = string(name.trim_ascii_start())?;
        let (_, _, colon) = token(self.text, value_end(self.text, self.at).ok()?).ok()?;
        let (start, end) = (skip_space(self.text, colon), value_end(self.text, colon).ok()?);
        self.at = after_comma(self.text, end);
        Some((name, self.text.get(start..end)?, start))
    }
}

/// The elements of an array and where they begin. Ends early if the text is not JSON.
#[derive(Clone, Debug)]
pub(crate) struct Elements<'t> {
    text: &'t str,
    at: usize,
}

/// Returns the elements of an array. Another value has none.
pub(crate) fn elements(array: &str) -> Elements<'_> {
    Elements { text: array, at: content(array, false) }
}

impl<'t> Iterator for Elements<'t> {
    type Item = (&'t str, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let (start, end) = (skip_space(self.text, self.at), value_end(self.text, self.at).ok()?);
        self.at = after_comma(self.text, end);
        Some((self.text.get(start..end)?, start))
    }
}

/// Returns where the first member or element is looked for. For another value that is the end of the text.
fn content(text: &str, is_object: bool) -> usize {
    match token(text, 0) {
        Ok((Token::Open(found), _, end)) if found == is_object => end,
        _ => text.len(),
    }
}

fn after_comma(text: &str, at: usize) -> usize {
    match token(text, at) {
        Ok((Token::Comma, _, end)) => end,
        _ => text.len(),
    }
}

/// Returns the value of a member.
pub(crate) fn member<'t>(object: &'t str, name: &str) -> Option<&'t str> {
    members(object).find(|(found, ..)| is_same(found, name)).map(|(_, value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::string::String;

    fn fault(text: &str) -> Option<(FaultKind, usize)> {
        value_end(text, 0).err().map(|fault| (fault.kind, fault.at))
    }

    #[test]
    fn values_are_checked() {
        for good in ["{}", " [ ] ", "[1,-0.5e+3,true,null,\"a\\u00e4\\\"\"]", r#"{"a":{"b":[{}]}, "c":0}"#, "\"\""] {
            assert_eq!(value_end(good, 0), Ok(good.trim_end().len()), "{good}");
        }
        for (bad, at) in [
            ("[1,]", 3),
            ("{1:2}", 1),
            ("[01]", 2),
            ("{\"a\" 1}", 5),
            ("[1}", 2),
            ("nul!", 0),
            ("[1.x]", 3),
            ("\"\\ud800x\"", 1),
            ("\"\\udc00\"", 1),
        ] {
            assert_eq!(fault(bad), Some((FaultKind::Invalid, at)), "{bad}");
        }
        for cut in [
            "",
            "[",
            "{\"a",
            "{\"a\":",
            "[tru",
            "[1,",
            "\"\\",
            "\"\\u00",
            "\"\\ud800",
            "\"\\ud800\\",
            "\"\\ud800\\udc",
            "-",
            "{\"a\":1",
        ] {
            assert_eq!(fault(cut), Some((FaultKind::Incomplete, cut.len())), "{cut}");
        }
        let deep = "[".repeat(64) + &"]".repeat(64);
        assert_eq!(value_end(&deep, 0), Ok(128));
        assert_eq!(fault(&"[".repeat(65)), Some((FaultKind::TooDeep, 64)));
    }

    #[test]
    fn members_elements_and_strings() {
        let text = r#" {"a" : 1 , "b":[ {"x":2} ,3] }"#;
        assert!(members(text).map(|(name, value, _)| (name, value)).eq([("a", "1"), ("b", "[ {\"x\":2} ,3]")]));
        assert!(elements("[ {\"x\":2} ,3]").map(|(value, _)| value).eq(["{\"x\":2}", "3"]));
        assert!(members("[1]").next().is_none() && elements("{}").next().is_none() && elements("[]").next().is_none());
        assert_eq!(member(text, "b"), Some("[ {\"x\":2} ,3]"));
        let inside = r#"a\n\u00e4\ud83d\ude00\ud800x\/"#;
        let plain: String = chars(inside).collect();
        assert_eq!(plain, "a\nä😀\u{fffd}x/");
        let mut out = String::new();
        write_string("a\"\\\n\u{1}ä", &mut out).unwrap();
        assert_eq!(out, r#""a\"\\\n\u0001ä""#);
    }
}
