//! The list of tools of Seed-OSS: functions of Python with their descriptions.

use super::super::Piece;
use super::namespace::is_required;
use super::spaced::plain;
use super::tags::trimmed;
use super::{Put, python};
use crate::tools::Tool;
use crate::tools::json;

/// Writes a tool as the head of a Python function with a description.
pub(super) fn function<E>(tool: &Tool<'_>, put: Put<'_, E>) -> Result<(), E> {
    let schema = tool.parameters().unwrap_or("{}");
    let list = json::member(schema, "properties").unwrap_or("{}");
    for part in ["\n\nFunction:\ndef ", tool.name(), "("] {
        put(Piece::Text(part))?;
    }
    for (index, (name, argument, _)) in json::members(list).enumerate() {
        put(Piece::Text(if index == 0 { "" } else { "," }))?;
        plain(name, put)?;
        put(Piece::Text(": "))?;
        put(Piece::Text(kind(argument)))?;
    }
    put(Piece::Text("):\n    \"\"\"\n    "))?;
    trimmed(json::member(tool.function(), "description").and_then(json::string).unwrap_or_default(), put)?;
    put(Piece::Text("\n\n"))?;
    for (index, (name, argument, _)) in json::members(list).enumerate() {
        put(Piece::Text(if index == 0 { "    Args:\n    - " } else { "\n    - " }))?;
        plain(name, put)?;
        put(Piece::Text(" ("))?;
        put(Piece::Text(kind(argument)))?;
        put(Piece::Text(if is_required(schema, name) { ") [必填]: " } else { ") [选填]: " }))?;
        python::string(json::member(argument, "description").unwrap_or("\"\""), put)?;
    }
    put(Piece::Text("\n\n    \"\"\""))
}

fn kind(argument: &str) -> &'static str {
    match json::member(argument, "type").and_then(json::string).unwrap_or_default() {
        "string" => "str",
        "number" | "integer" => "int",
        "boolean" => "bool",
        "array" => "list",
        _ => "Any",
    }
}
