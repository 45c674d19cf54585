//! JSON as Python prints it.

use core::fmt::Write;

use super::super::Piece;
use super::Put;
use crate::tools::Tool;
use crate::tools::json::{self, Token};

/// Writes a tool as an object with its type.
pub(super) fn tool<E>(tool: &Tool<'_>, put: Put<'_, E>) -> Result<(), E> {
    if tool.is_wrapped() {
        return repr(tool.json(), put);
    }
    put(Piece::Text("{'type': 'function', 'function': "))?;
    repr(tool.json(), put)?;
    put(Piece::Text("}"))
}

/// Writes a value as `str` does: a string without quotes.
pub(super) fn string<E>(value: &str, put: Put<'_, E>) -> Result<(), E> {
    match json::string(value.trim_ascii()) {
        Some(inside) => super::spaced::plain(inside, put),
        None => repr(value, put),
    }
}

/// Writes a value as `repr` does: `{'a': 1, 'b': [True, None]}`. Numbers stay as they are written.
pub(super) fn repr<E>(value: &str, put: Put<'_, E>) -> Result<(), E> {
    let mut at = 0;
    while let Ok((token, start, end)) = json::token(value, at) {
        let text = value.get(start..end).unwrap_or_default();
        match (token, json::string(text)) {
            (Token::Text, Some(inside)) => quoted(inside, put)?,
            (Token::Comma, _) => put(Piece::Text(", "))?,
            (Token::Colon, _) => put(Piece::Text(": "))?,
            _ => put(Piece::Text(match text {
                "true" => "True",
                "false" => "False",
                "null" => "None",
                _ => text,
            }))?,
        }
        at = end;
    }
    Ok(())
}

/// Writes the inside of a JSON string as a string of Python: between apostrophes, or between quotes if it has
/// apostrophes and no quotes. Of the characters that cannot be printed, only control characters are escaped.
fn quoted<E>(inside: &str, put: Put<'_, E>) -> Result<(), E> {
    let has = |wanted: char| json::chars(inside).any(|c| c == wanted);
    let (quote, mark) = if has('\'') && !has('"') { ('"', "\"") } else { ('\'', "'") };
    put(Piece::Text(mark))?;
    for c in json::chars(inside) {
        let mut buffer = heapless::String::<8>::new();
        // The longest escape has four characters.
        let _ = match c {
            '\n' => buffer.write_str("\\n"),
            '\r' => buffer.write_str("\\r"),
            '\t' => buffer.write_str("\\t"),
            '\\' => buffer.write_str("\\\\"),
            c if c == quote => buffer.write_str("\\").and_then(|()| buffer.write_char(c)),
            c if c.is_control() => escaped(c, &mut buffer),
            c => buffer.write_char(c),
        };
        put(Piece::Text(&buffer))?;
    }
    put(Piece::Text(mark))
}

/// Writes a character as `\xNN`.
fn escaped(c: char, out: &mut heapless::String<8>) -> core::fmt::Result {
    out.write_str("\\x")?;
    for digit in [u32::from(c) >> 4 & 15, u32::from(c) & 15] {
        out.write_char(char::from_digit(digit, 16).unwrap_or('0'))?;
    }
    Ok(())
}
