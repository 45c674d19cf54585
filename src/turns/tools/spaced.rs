//! JSON with the white space of Python, in pieces.

use super::super::Piece;
use super::Put;
use crate::tools::Tool;
use crate::tools::json::{self, Token};

/// Writes a value as `json.dumps` does: `{"a": 1, "b": [2, 3]}`. Strings stay as they are written.
pub(super) fn json<E>(value: &str, put: Put<'_, E>) -> Result<(), E> {
    let mut at = 0;
    while let Ok((token, start, end)) = json::token(value, at) {
        put(Piece::Text(match token {
            Token::Comma => ", ",
            Token::Colon => ": ",
            _ => value.get(start..end).unwrap_or_default(),
        }))?;
        at = end;
    }
    Ok(())
}

/// Writes a value in lines that are indented by 4, inside of a value that is indented `depth` times.
pub(super) fn indented<E>(value: &str, depth: usize, put: Put<'_, E>) -> Result<(), E> {
    let (mut at, mut depth) = (0, depth);
    while let Ok((token, start, end)) = json::token(value, at) {
        at = end;
        let text = Piece::Text(value.get(start..end).unwrap_or_default());
        match token {
            Token::Open(_) => {
                put(text)?;
                // Empty lists and objects stay in their line.
                if let Ok((Token::Close(_), start, end)) = json::token(value, at) {
                    put(Piece::Text(value.get(start..end).unwrap_or_default()))?;
                    at = end;
                } else {
                    depth = depth.saturating_add(1);
                    line(depth, put)?;
                }
            }
            Token::Close(_) => {
                depth = depth.saturating_sub(1);
                line(depth, put)?;
                put(text)?;
            }
            Token::Comma => {
                put(text)?;
                line(depth, put)?;
            }
            Token::Colon => put(Piece::Text(": "))?,
            Token::Text | Token::Scalar => put(text)?,
        }
    }
    Ok(())
}

/// Begins a line.
pub(super) fn line<E>(depth: usize, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Text("\n"))?;
    (0..depth).try_for_each(|_| put(Piece::Text("    ")))
}

/// Writes the text that the inside of a JSON string stands for.
pub(super) fn plain<E>(inside: &str, put: Put<'_, E>) -> Result<(), E> {
    let mut rest = inside;
    while !rest.is_empty() {
        let end = rest.bytes().position(|byte| byte == b'\\').unwrap_or(rest.len());
        let (text, escaped) = rest.split_at_checked(end).unwrap_or((rest, ""));
        put(Piece::Text(text))?;
        let mut chars = json::chars(escaped);
        if let Some(c) = chars.next() {
            put(Piece::Text(c.encode_utf8(&mut [0; 4])))?;
        }
        rest = chars.rest();
    }
    Ok(())
}

/// Writes a text as a JSON string with its quotes.
pub(super) fn quoted<E>(text: &str, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Text("\""))?;
    let mut rest = text;
    while !rest.is_empty() {
        let is_plain = |byte: u8| byte >= 0x20 && !matches!(byte, b'"' | b'\\');
        let end = rest.bytes().position(|byte| !is_plain(byte)).unwrap_or(rest.len());
        let (text, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        put(Piece::Text(text))?;
        let mut chars = after.chars();
        if let Some(c) = chars.next() {
            put(Piece::Text(Escape::new(c).as_str()))?;
        }
        rest = chars.as_str();
    }
    put(Piece::Text("\""))
}

/// A character, escaped for a string.
struct Escape {
    bytes: [u8; 6],
    len: usize,
}

impl Escape {
    fn new(c: char) -> Self {
        let mut escape = Self { bytes: [0; 6], len: 0 };
        // The longest escape of a control character has six bytes.
        let _ = json::write_char(c, &mut escape);
        escape
    }

    fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl core::fmt::Write for Escape {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        for byte in text.bytes() {
            *self.bytes.get_mut(self.len).ok_or(core::fmt::Error)? = byte;
            self.len += 1;
        }
        Ok(())
    }
}

/// Writes a tool with the signature of a Python function in its description, as in the training data of Hermes 3.
pub(super) fn signature<E>(tool: &Tool<'_>, put: Put<'_, E>) -> Result<(), E> {
    let text = |name| json::member(tool.function(), name).and_then(json::string).unwrap_or_default();
    let schema = tool.parameters().unwrap_or("{}");
    let properties = json::member(schema, "properties").unwrap_or("{}");
    for part in [
        "{\"type\": \"function\", \"function\": {\"name\": \"",
        tool.name(),
        "\", \"description\": \"",
        tool.name(),
        "(",
    ] {
        put(Piece::Text(part))?;
    }
    for (index, (name, schema, _)) in json::members(properties).enumerate() {
        put(Piece::Text(if index == 0 { "" } else { ", " }))?;
        put(Piece::Text(name))?;
        put(Piece::Text(": "))?;
        python_type(schema, put)?;
    }
    put(Piece::Text(") - "))?;
    plain(text("description"), put)?;
    for (index, (name, schema, _)) in json::members(properties).enumerate() {
        put(Piece::Text(if index == 0 { "\n\n    Args:\n        " } else { "        " }))?;
        put(Piece::Text(name))?;
        put(Piece::Text("("))?;
        python_type(schema, put)?;
        put(Piece::Text("): "))?;
        plain(json::member(schema, "description").and_then(json::string).unwrap_or_default(), put)?;
    }
    let is_empty = json::members(properties).next().is_none();
    put(Piece::Text(if is_empty { "\n\n\", \"parameters\": " } else { "\", \"parameters\": " }))?;
    json(if is_empty { "{}" } else { schema }, put)?;
    put(Piece::Text("}"))
}

/// Writes the name of a schema's type in Python.
fn python_type<E>(schema: &str, put: Put<'_, E>) -> Result<(), E> {
    let name = json::member(schema, "type").and_then(json::string).unwrap_or_default();
    put(Piece::Text(match name {
        "string" => "str",
        "number" => "float",
        "integer" => "int",
        "boolean" => "bool",
        "array" => "list",
        "object" => "dict",
        _ => "Any",
    }))
}

/// Writes a value as Python does, but with the quotes of JSON.
pub(super) fn python<E>(value: &str, put: Put<'_, E>) -> Result<(), E> {
    let mut at = 0;
    while let Ok((token, start, end)) = json::token(value, at) {
        put(Piece::Text(match (token, value.get(start..end).unwrap_or_default()) {
            (Token::Comma, _) => ", ",
            (Token::Colon, _) => ": ",
            (Token::Scalar, "true") => "True",
            (Token::Scalar, "false") => "False",
            (Token::Scalar, "null") => "None",
            (_, text) => text,
        }))?;
        at = end;
    }
    Ok(())
}
