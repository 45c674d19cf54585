//! The list of tools of harmony: types of TypeScript.

use super::super::Piece;
use super::Put;
use super::spaced::{self, plain};
use crate::tools::Tool;
use crate::tools::json;

/// Writes a tool as the type of a function.
pub(super) fn function<E>(tool: &Tool<'_>, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Text("// "))?;
    plain(json::member(tool.function(), "description").and_then(json::string).unwrap_or_default(), put)?;
    put(Piece::Text("\ntype "))?;
    put(Piece::Text(tool.name()))?;
    put(Piece::Text(" = "))?;
    let schema = tool.parameters().unwrap_or("{}");
    let list = json::member(schema, "properties").unwrap_or("{}");
    if json::members(list).next().is_none() {
        return put(Piece::Text("() => any;\n\n"));
    }
    put(Piece::Text("(_: {\n"))?;
    for (name, property, _) in json::members(list) {
        argument(name, property, is_required(schema, name), put)?;
    }
    put(Piece::Text("}) => any;\n\n"))
}

pub(super) fn is_required(schema: &str, name: &str) -> bool {
    let names = json::member(schema, "required").unwrap_or("[]");
    json::elements(names).any(|(listed, _)| json::string(listed) == Some(name))
}

fn argument<E>(name: &str, schema: &str, is_required: bool, put: Put<'_, E>) -> Result<(), E> {
    if let Some(text) = json::member(schema, "description").and_then(json::string) {
        put(Piece::Text("// "))?;
        plain(text, put)?;
        put(Piece::Text("\n"))?;
    }
    plain(name, put)?;
    put(Piece::Text(if is_required { ": " } else { "?: " }))?;
    kind(schema, put)?;
    if let Some(default) = json::member(schema, "default") {
        put(Piece::Text(", // default: "))?;
        return default_value(default, json::member(schema, "enum").is_some(), put);
    }
    put(Piece::Text(",\n"))
}

fn default_value<E>(default: &str, is_bare: bool, put: Put<'_, E>) -> Result<(), E> {
    match json::string(default) {
        Some(text) if is_bare => plain(text, put)?,
        Some(text) => {
            put(Piece::Text("\""))?;
            plain(text, put)?;
            put(Piece::Text("\""))?;
        }
        None => spaced::json(default, put)?,
    }
    put(Piece::Text("\n"))
}

/// Writes the type of a value. The members of objects in lists are left out.
fn kind<E>(schema: &str, put: Put<'_, E>) -> Result<(), E> {
    let is_nullable = json::member(schema, "nullable") == Some("true");
    let types = json::member(schema, "type").unwrap_or("\"\"");
    match json::string(types) {
        Some("string") if json::member(schema, "enum").is_some() => {
            let list = json::member(schema, "enum").unwrap_or("[]");
            for (index, (value, _)) in json::elements(list).enumerate() {
                put(Piece::Text(if index == 0 { "" } else { " | " }))?;
                put(Piece::Text(value))?;
            }
            return Ok(());
        }
        Some("array") => {
            let items = json::member(schema, "items").and_then(|items| json::member(items, "type"));
            put(Piece::Text(match items.and_then(json::string) {
                Some("string") => "string[]",
                Some("number" | "integer") => "number[]",
                Some("boolean") => "boolean[]",
                _ => "any[]",
            }))?;
        }
        Some(name) => put(Piece::Text(name_of(name)))?,
        None => {
            for (index, (name, _)) in json::elements(types).enumerate() {
                put(Piece::Text(if index == 0 { "" } else { " | " }))?;
                put(Piece::Text(json::string(name).unwrap_or("any")))?;
            }
        }
    }
    put(Piece::Text(if is_nullable { " | null" } else { "" }))
}

fn name_of(kind: &str) -> &'static str {
    match kind {
        "string" => "string",
        "number" | "integer" => "number",
        "boolean" => "boolean",
        "object" => "object",
        _ => "any",
    }
}
