//! The list of tools of Apertus: types of TypeScript, also for values inside of values.

use super::super::Piece;
use super::namespace::is_required;
use super::spaced::{self, plain};
use super::{Put, python};
use crate::tools::Tool;
use crate::tools::json;

/// The most bytes of a type of elements that is written.
const LONGEST: usize = 50;

/// Writes a tool as the type of a function.
pub(super) fn function<E>(tool: &Tool<'_>, put: Put<'_, E>) -> Result<(), E> {
    comment(tool.function(), put)?;
    for part in ["type ", tool.name(), " = "] {
        put(Piece::Text(part))?;
    }
    let schema = tool.parameters().unwrap_or("{}");
    let list = json::member(schema, "properties").unwrap_or("{}");
    if json::members(list).next().is_none() {
        return put(Piece::Text("() => any;"));
    }
    put(Piece::Text("(_: {\n"))?;
    for (index, (name, argument, _)) in json::members(list).enumerate() {
        put(Piece::Text(if index == 0 { "" } else { ",\n" }))?;
        if json::member(argument, "description").is_some_and(|text| text != "\"\"") {
            comment(argument, put)?;
        }
        member(schema, name, put)?;
        kind(argument, put)?;
        if let Some(default) = json::member(argument, "default") {
            let (is_enum, is_choice) = (is_there(argument, "enum"), is_there(argument, "oneOf"));
            put(Piece::Text(if is_choice && !is_enum { "// default: " } else { ", // default: " }))?;
            if is_enum || is_choice { python::string(default, put)? } else { spaced::json(default, put)? }
        }
    }
    put(Piece::Text("\n}) => any;"))
}

/// Writes a line with a description.
fn comment<E>(schema: &str, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Text("// "))?;
    plain(json::member(schema, "description").and_then(json::string).unwrap_or_default(), put)?;
    put(Piece::Text("\n"))
}

/// Writes the name of a member of an object, and whether it is optional.
fn member<E>(schema: &str, name: &str, put: Put<'_, E>) -> Result<(), E> {
    plain(name, put)?;
    put(Piece::Text(if is_required(schema, name) { ": " } else { "?: " }))
}

/// Returns whether a schema has a keyword whose value is not empty.
fn is_there(schema: &str, name: &str) -> bool {
    json::member(schema, name).is_some_and(|value| !matches!(value, "null" | "false" | "\"\"" | "[]" | "{}"))
}

/// Writes the type of a value. It recurses into elements and members, which are not nested more than 64 deep.
fn kind<E>(schema: &str, put: Put<'_, E>) -> Result<(), E> {
    let types = json::member(schema, "type").unwrap_or("\"\"");
    let name = json::string(types);
    if name.is_none() && json::elements(types).next().is_some() {
        for (index, (name, _)) in json::elements(types).enumerate() {
            put(Piece::Text(if index == 0 { "" } else { " | " }))?;
            plain(json::string(name).unwrap_or_default(), put)?;
        }
        return Ok(());
    }
    match name {
        Some("array") => elements(schema, put)?,
        _ if is_there(schema, "oneOf") => return choices(json::member(schema, "oneOf").unwrap_or("[]"), put),
        Some("string") if is_there(schema, "enum") => {
            for (index, (value, _)) in json::elements(json::member(schema, "enum").unwrap_or("[]")).enumerate() {
                put(Piece::Text(if index == 0 { "\"" } else { "\" | \"" }))?;
                python::string(value, put)?;
            }
            return put(Piece::Text("\""));
        }
        Some("string") => put(Piece::Text("string"))?,
        Some("object") => return members(schema, put),
        Some("number" | "integer") => return put(Piece::Text("number")),
        Some("boolean") => return put(Piece::Text("boolean")),
        _ => return put(Piece::Text("any")),
    }
    put(Piece::Text(if json::member(schema, "nullable") == Some("true") { " | null" } else { "" }))
}

/// Writes the type of a list: `any[]` if the type of its elements is long.
fn elements<E>(schema: &str, put: Put<'_, E>) -> Result<(), E> {
    let items = json::member(schema, "items").unwrap_or("{}");
    let mut text = heapless::String::<LONGEST>::new();
    let mut is_short = true;
    kind(items, &mut |piece| {
        is_short &= text.push_str(piece.text("", "")).is_ok();
        Ok(())
    })?;
    let is_known = is_there(schema, "items") && is_short && text.as_str() != "object | object";
    // Elements that are strings get only this name, without their choices.
    let is_string = json::member(items, "type") == Some("\"string\"");
    put(Piece::Text(match text.as_str() {
        _ if is_string => "string",
        text if is_known => text,
        _ => "any",
    }))?;
    put(Piece::Text("[]"))
}

/// Writes several types to choose from, each in a line.
fn choices<E>(list: &str, put: Put<'_, E>) -> Result<(), E> {
    for (index, (schema, _)) in json::elements(list).enumerate() {
        put(Piece::Text(if index == 0 { "" } else { " | \n" }))?;
        kind(schema, put)?;
        if let Some(text) = json::member(schema, "description").and_then(json::string).filter(|text| !text.is_empty()) {
            put(Piece::Text("// "))?;
            plain(text, put)?;
        }
        if let Some(default) = json::member(schema, "default") {
            put(Piece::Text("                    // default: "))?;
            spaced::json(default, put)?;
        }
    }
    Ok(())
}

/// Writes the members of an object. The text around their types is the template's.
fn members<E>(schema: &str, put: Put<'_, E>) -> Result<(), E> {
    if !is_there(schema, "properties") {
        return put(Piece::Text("object"));
    }
    put(Piece::Text("{\n"))?;
    for (index, (name, argument, _)) in json::members(json::member(schema, "properties").unwrap_or("{}")).enumerate() {
        put(Piece::Text(if index == 0 { "" } else { ", " }))?;
        member(schema, name, put)?;
        put(Piece::Text("\n                "))?;
        kind(argument, put)?;
    }
    put(Piece::Text("}"))
}
