//! The lists of tools of Nemotron 3 and Qwen3-Coder: tools in tags.

use super::super::Piece;
use super::{Put, python, spaced};
use crate::tools::Tool;
use crate::tools::json;

/// Writes a tool, its arguments and their other members. `enum` is written before the other members and `required`
/// after them, unless all members stay in their order.
pub(super) fn function<E>(tool: &Tool<'_>, in_order: bool, put: Put<'_, E>) -> Result<(), E> {
    put(Piece::Text("\n<function>\n<name>"))?;
    put(Piece::Text(tool.name()))?;
    put(Piece::Text("</name>"))?;
    description(tool.function(), put)?;
    put(Piece::Text("\n<parameters>"))?;
    let schema = tool.parameters().unwrap_or("{}");
    for (name, argument, _) in json::members(json::member(schema, "properties").unwrap_or("{}")) {
        put(Piece::Text("\n<parameter>\n<name>"))?;
        spaced::plain(name, put)?;
        put(Piece::Text("</name>"))?;
        if let Some(kind) = json::member(argument, "type") {
            tag("type", |put| python::string(kind, put), put)?;
        }
        description(argument, put)?;
        if let Some(values) = json::member(argument, "enum").filter(|_| !in_order) {
            tag("enum", |put| spaced::json(values, put), put)?;
        }
        let known = ["name", "type", "description", "enum"];
        others(argument, known.get(..if in_order { 3 } else { 4 }).unwrap_or(&known), put)?;
        put(Piece::Text("\n</parameter>"))?;
    }
    let known = ["type", "properties", "required"];
    others(schema, known.get(..if in_order { 2 } else { 3 }).unwrap_or(&known), put)?;
    if let Some(names) = json::member(schema, "required").filter(|_| !in_order) {
        tag("required", |put| spaced::json(names, put), put)?;
    }
    put(Piece::Text("\n</parameters>"))?;
    others(tool.function(), &["type", "name", "description", "parameters"], put)?;
    put(Piece::Text("\n</function>"))
}

/// Writes the description without white space around it.
fn description<E>(object: &str, put: Put<'_, E>) -> Result<(), E> {
    let Some(inside) = json::member(object, "description").and_then(json::string) else { return Ok(()) };
    tag("description", |put| trimmed(inside, put), put)
}

/// Writes the text of the inside of a JSON string, without white space around it.
pub(super) fn trimmed<E>(inside: &str, put: Put<'_, E>) -> Result<(), E> {
    let mut chars = json::chars(inside);
    let mut rest = inside;
    while chars.next().is_some_and(char::is_whitespace) {
        rest = chars.rest();
    }
    // `tail` is the text after the last character that is not white space.
    let (mut chars, mut tail) = (json::chars(rest), "");
    while let Some(c) = chars.next() {
        if !c.is_whitespace() {
            tail = chars.rest();
        }
    }
    let len = rest.len().saturating_sub(tail.len());
    spaced::plain(rest.get(..len).unwrap_or(rest), put)
}

/// Writes the members of an object that are not in `known`.
fn others<E>(object: &str, known: &[&str], put: Put<'_, E>) -> Result<(), E> {
    for (name, value, _) in json::members(object).filter(|(name, ..)| !known.contains(name)) {
        put(Piece::Text("\n<"))?;
        spaced::plain(name, put)?;
        put(Piece::Text(">"))?;
        match value.as_bytes().first() {
            Some(b'{' | b'[') => spaced::json(value, put)?,
            _ => python::string(value, put)?,
        }
        put(Piece::Text("</"))?;
        spaced::plain(name, put)?;
        put(Piece::Text(">"))?;
    }
    Ok(())
}

fn tag<E>(name: &'static str, body: impl FnOnce(Put<'_, E>) -> Result<(), E>, put: Put<'_, E>) -> Result<(), E> {
    for part in ["\n<", name, ">"] {
        put(Piece::Text(part))?;
    }
    body(&mut *put)?;
    for part in ["</", name, ">"] {
        put(Piece::Text(part))?;
    }
    Ok(())
}
