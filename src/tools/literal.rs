//! Writes values as JSON that are not written in JSON.
//!
//! Each function writes the value that begins at `at` and returns where it ends. A fault says where the text stops
//! being such a value. The output that was written until then is worth nothing. All functions recurse into lists and
//! objects, at most 64 deep.

use core::fmt::{self, Write};

use super::json::{self, Fault, MOST_DEPTH};
use super::scan::find;

/// A writer that drops all text.
pub(super) struct Nowhere;

impl Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

/// A writer that remembers that it failed, so that faults of the text stay apart from those of the output.
pub(super) struct Output<'o> {
    pub(super) out: &'o mut dyn Write,
    pub(super) result: fmt::Result,
}

impl<'o> Output<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out, result: Ok(()) }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.result.is_ok() {
            self.result = self.out.write_str(text);
        }
    }

    pub(super) fn inside(&mut self, c: char) {
        if self.result.is_ok() {
            self.result = json::write_char(c, self.out);
        }
    }

    pub(super) fn string(&mut self, text: &str) {
        if self.result.is_ok() {
            self.result = json::write_string(text, self.out);
        }
    }
}

/// Writes a literal of Python. `None`, `True` and `False` may be written as in JSON, too.
pub(super) fn python(text: &str, at: usize, depth: u32, out: &mut Output<'_>) -> Result<usize, Fault> {
    let at = json::skip_space(text, at);
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    match rest.first() {
        None => Fault::incomplete(at),
        Some(b'"' | b'\'') => python_string(text, at, out),
        Some(b'[' | b'(' | b'{') if depth >= MOST_DEPTH => Fault::too_deep(at),
        Some(b'[') => list(text, at, "]", out, |at, out| python(text, at, depth + 1, out)),
        Some(b'(') => list(text, at, ")", out, |at, out| python(text, at, depth + 1, out)),
        Some(b'{') => object(text, at, out, |at, out| {
            let end = match text.as_bytes().get(at) {
                Some(b'"' | b'\'') => python_string(text, at, out)?,
                None => return Fault::incomplete(at),
                _ => return Fault::invalid(at),
            };
            python(text, colon(text, end, out)?, depth + 1, out)
        }),
        Some(_) => scalar(text, at, out),
    }
}

fn python_string(text: &str, at: usize, out: &mut Output<'_>) -> Result<usize, Fault> {
    let mut chars = text.get(at..).unwrap_or_default().char_indices();
    let Some((_, quote)) = chars.next() else { return Fault::incomplete(at) };
    out.text("\"");
    while let Some((offset, c)) = chars.next() {
        if c == quote {
            out.text("\"");
            return Ok(at + offset + 1);
        }
        let meant = match c {
            '\\' => match chars.next() {
                None => break,
                Some((_, escape)) => python_escape(escape, &mut chars, at + offset)?,
            },
            // In Python such a string ends in its line, but models write line ends into it.
            c => Some(c),
        };
        meant.into_iter().for_each(|c| out.inside(c));
    }
    Fault::incomplete(text.len())
}

/// Returns the character that an escape means, or `None` where it only continues a line. An escape that Python does not
/// know stands for its last character.
fn python_escape(escape: char, rest: &mut core::str::CharIndices<'_>, at: usize) -> Result<Option<char>, Fault> {
    let digits = match escape {
        'n' => return Ok(Some('\n')),
        'r' => return Ok(Some('\r')),
        't' => return Ok(Some('\t')),
        'a' => return Ok(Some('\u{7}')),
        'b' => return Ok(Some('\u{8}')),
        'f' => return Ok(Some('\u{c}')),
        'v' => return Ok(Some('\u{b}')),
        '0' => return Ok(Some('\0')),
        '\n' => return Ok(None),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        other => return Ok(Some(other)),
    };
    let mut code = 0_u32;
    for _ in 0..digits {
        let Some((_, digit)) = rest.next() else { return Fault::incomplete(at) };
        let Some(digit) = digit.to_digit(16) else { return Fault::invalid(at) };
        code = code << 4 | digit;
    }
    Ok(Some(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)))
}

/// Writes a value of Gemma. It has strings between two marks and bare keys, and is otherwise as in JSON.
pub(super) fn gemma(text: &str, at: usize, quote: &str, depth: u32, out: &mut Output<'_>) -> Result<usize, Fault> {
    let at = json::skip_space(text, at);
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    match rest.first() {
        None => Fault::incomplete(at),
        Some(b'[' | b'{') if depth >= MOST_DEPTH => Fault::too_deep(at),
        Some(b'[') => list(text, at, "]", out, |at, out| gemma(text, at, quote, depth + 1, out)),
        Some(b'{') => object(text, at, out, |at, out| {
            let end = gemma_key(text, at, quote, out)?;
            gemma(text, end, quote, depth + 1, out)
        }),
        Some(_) if rest.starts_with(quote.as_bytes()) => gemma_string(text, at, quote, out),
        Some(_) if quote.as_bytes().starts_with(rest) => Fault::incomplete(text.len()),
        Some(_) => scalar(text, at, out),
    }
}

fn gemma_string(text: &str, at: usize, quote: &str, out: &mut Output<'_>) -> Result<usize, Fault> {
    let start = at.saturating_add(quote.len());
    let Some(end) = find(text, start, quote) else { return Fault::incomplete(text.len()) };
    out.string(text.get(start..end).unwrap_or_default());
    Ok(end.saturating_add(quote.len()))
}

/// Writes a key and the colon after it.
fn gemma_key(text: &str, at: usize, quote: &str, out: &mut Output<'_>) -> Result<usize, Fault> {
    let rest = text.get(at..).unwrap_or_default();
    if rest.as_bytes().starts_with(quote.as_bytes()) {
        return colon(text, gemma_string(text, at, quote, out)?, out);
    }
    let is_bare =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'$') || *byte >= 0x80;
    let len = rest.bytes().take_while(|byte| is_bare(byte)).count();
    match rest.as_bytes().get(len) {
        None => Fault::incomplete(text.len()),
        Some(b'<') if len == 0 && quote.as_bytes().starts_with(rest.as_bytes()) => Fault::incomplete(text.len()),
        _ if len == 0 => Fault::invalid(at),
        _ => {
            out.string(rest.get(..len).unwrap_or_default());
            colon(text, at + len, out)
        }
    }
}

/// Writes the text between two tags of XML. It is written as a string where `is_text` says so and where it is no value
/// of JSON or Python.
pub(super) fn tagged(inside: &str, is_text: bool, out: &mut Output<'_>) {
    let is_whole = |end: Result<usize, Fault>| end.is_ok_and(|end| json::skip_space(inside, end) == inside.len());
    if is_text {
        out.string(inside);
    } else if is_whole(json::value_end(inside, 0)) {
        out.text(inside.trim_ascii());
    } else if is_whole(python(inside, 0, 0, &mut Output::new(&mut Nowhere))) {
        // The same text was read to its end above, so there is no fault.
        let _ = python(inside, 0, 0, out);
    } else {
        out.string(inside);
    }
}

/// Writes a number, or one of the words of JSON and Python.
fn scalar(text: &str, at: usize, out: &mut Output<'_>) -> Result<usize, Fault> {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    for (word, meant) in
        [("true", "true"), ("True", "true"), ("false", "false"), ("False", "false"), ("null", "null"), ("None", "null")]
    {
        if rest.starts_with(word.as_bytes()) {
            out.text(meant);
            return Ok(at + word.len());
        } else if word.as_bytes().starts_with(rest) {
            return Fault::incomplete(text.len());
        }
    }
    match rest.first() {
        Some(b'-' | b'0'..=b'9') => {
            let end = json::number_end(text.as_bytes(), at)?;
            out.text(text.get(at..end).unwrap_or_default());
            Ok(end)
        }
        _ => Fault::invalid(at),
    }
}

/// Writes the elements between a bracket of one byte, which is at `at`, and `close`.
fn list(
    text: &str,
    at: usize,
    close: &str,
    out: &mut Output<'_>,
    mut element: impl FnMut(usize, &mut Output<'_>) -> Result<usize, Fault>,
) -> Result<usize, Fault> {
    out.text("[");
    let end = separated(text, at + 1, close, out, &mut element)?;
    out.text("]");
    Ok(end)
}

fn object(
    text: &str,
    at: usize,
    out: &mut Output<'_>,
    mut member: impl FnMut(usize, &mut Output<'_>) -> Result<usize, Fault>,
) -> Result<usize, Fault> {
    out.text("{");
    let end = separated(text, at + 1, "}", out, &mut member)?;
    out.text("}");
    Ok(end)
}

fn separated(
    text: &str,
    start: usize,
    close: &str,
    out: &mut Output<'_>,
    one: &mut dyn FnMut(usize, &mut Output<'_>) -> Result<usize, Fault>,
) -> Result<usize, Fault> {
    let is_at = |at: usize, part: &str| text.as_bytes().get(at..).is_some_and(|rest| rest.starts_with(part.as_bytes()));
    let mut at = json::skip_space(text, start);
    let mut is_first = true;
    loop {
        if is_at(at, close) {
            return Ok(at + 1);
        }
        if !is_first {
            out.text(", ");
        }
        is_first = false;
        at = json::skip_space(text, one(at, out)?);
        if is_at(at, ",") {
            at = json::skip_space(text, at + 1);
        } else if at >= text.len() {
            return Fault::incomplete(at);
        } else if !is_at(at, close) {
            return Fault::invalid(at);
        }
    }
}

/// Writes the colon that stands at `at` or after white space. Returns where the text after it begins.
fn colon(text: &str, at: usize, out: &mut Output<'_>) -> Result<usize, Fault> {
    let at = json::skip_space(text, at);
    match text.as_bytes().get(at) {
        None => Fault::incomplete(at),
        Some(b':') => {
            out.text(": ");
            Ok(at + 1)
        }
        Some(_) => Fault::invalid(at),
    }
}
