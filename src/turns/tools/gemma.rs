//! How Gemma 4 and FunctionGemma write values: sorted keys without quotes, and strings between marks.

use super::super::Piece;
use super::super::pieces::Frame;
use super::spaced::plain;
use super::{Put, ToolCall, ToolResult};
use crate::tools::Tool;
use crate::tools::json;

/// The marks of a family of models.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Marks {
    /// Mark before and after a string.
    quote: Frame,
    /// Marks before and after the declaration of a tool.
    tool: [Frame; 2],
    /// Marks before and after a call.
    call: [Frame; 2],
    /// Marks before and after the result of a call.
    pub(super) result: [Frame; 2],
    /// Whether each property has a description, which may be empty, and `nullable` is left out.
    describes_all: bool,
}

pub(super) const GEMMA4: Marks = Marks {
    quote: "<|\"|>",
    tool: ["<|tool>", "<tool|>"],
    call: ["<|tool_call>", "<tool_call|>"],
    result: ["<|tool_response>", "<tool_response|>"],
    describes_all: false,
};

pub(super) const FUNCTION: Marks = Marks {
    quote: "<escape>",
    tool: ["<start_function_declaration>", "<end_function_declaration>"],
    call: ["<start_function_call>", "<end_function_call>"],
    result: ["<start_function_response>", "<end_function_response>"],
    describes_all: true,
};

/// Names of members that describe a schema. Properties with these names are not declared.
const OWN: [&str; 5] = ["description", "type", "properties", "required", "nullable"];

impl Marks {
    /// Writes a call: `call:NAME{...}`.
    pub(super) fn call<E>(&self, call: &ToolCall<'_>, put: Put<'_, E>) -> Result<(), E> {
        let [open, close] = self.call;
        put(Piece::Frame(open))?;
        put(Piece::Text("call:"))?;
        put(Piece::Text(call.name))?;
        self.value(call.arguments.trim_ascii(), put)?;
        put(Piece::Frame(close))
    }

    /// Writes a result: `response:NAME{...}`. An object is written as it is, and another text as `value`.
    pub(super) fn result<E>(&self, result: &ToolResult<'_>, put: Put<'_, E>) -> Result<(), E> {
        let [open, close] = self.result;
        put(Piece::Frame(open))?;
        put(Piece::Text("response:"))?;
        put(Piece::Text(result.name))?;
        let end = json::object_end(result.text, 0);
        if end.is_ok_and(|end| json::skip_space(result.text, end) == result.text.len()) {
            self.value(result.text.trim_ascii(), put)?;
        } else {
            put(Piece::Text("{value:"))?;
            self.text(result.text, put)?;
            put(Piece::Text("}"))?;
        }
        put(Piece::Frame(close))
    }

    /// Writes a value, with bare names of members.
    fn value<E>(&self, value: &str, put: Put<'_, E>) -> Result<(), E> {
        self.write(value, false, put)
    }

    /// Writes a value. `marks_names` is whether names of members are between marks. It recurses into lists and objects,
    /// which are not nested more than 64 deep.
    fn write<E>(&self, value: &str, marks_names: bool, put: Put<'_, E>) -> Result<(), E> {
        if let Some(inside) = json::string(value) {
            self.string(inside, put)
        } else if value.starts_with('[') {
            put(Piece::Text("["))?;
            for (index, (element, _)) in json::elements(value).enumerate() {
                put(Piece::Text(if index == 0 { "" } else { "," }))?;
                self.write(element, marks_names, put)?;
            }
            put(Piece::Text("]"))
        } else if value.starts_with('{') {
            put(Piece::Text("{"))?;
            self.members(value, marks_names, put)?;
            put(Piece::Text("}"))
        } else {
            put(Piece::Text(value.trim_ascii()))
        }
    }

    /// Writes the members of an object, in the order of their names.
    fn members<E>(&self, object: &str, marks_names: bool, put: Put<'_, E>) -> Result<(), E> {
        for (index, (name, value)) in sorted(object).enumerate() {
            put(Piece::Text(if index == 0 { "" } else { "," }))?;
            if marks_names {
                self.string(name, put)?
            } else {
                plain(name, put)?
            }
            put(Piece::Text(":"))?;
            self.write(value, marks_names, put)?;
        }
        Ok(())
    }

    /// Writes the inside of a JSON string between marks.
    fn string<E>(&self, inside: &str, put: Put<'_, E>) -> Result<(), E> {
        put(Piece::Frame(self.quote))?;
        plain(inside, put)?;
        put(Piece::Frame(self.quote))
    }

    /// Writes a text that is not JSON between marks.
    fn text<E>(&self, text: &str, put: Put<'_, E>) -> Result<(), E> {
        put(Piece::Frame(self.quote))?;
        put(Piece::Text(text))?;
        put(Piece::Frame(self.quote))
    }

    /// Writes the declaration of a tool.
    pub(super) fn declaration<E>(&self, tool: &Tool<'_>, put: Put<'_, E>) -> Result<(), E> {
        let [open, close] = self.tool;
        put(Piece::Frame(open))?;
        put(Piece::Text("declaration:"))?;
        put(Piece::Text(tool.name()))?;
        put(Piece::Text("{description:"))?;
        self.string(json::member(tool.function(), "description").and_then(json::string).unwrap_or_default(), put)?;
        if let Some(schema) = tool.parameters().filter(|schema| json::members(schema).next().is_some()) {
            self.parameters(schema, put)?;
        }
        put(Piece::Text("}"))?;
        put(Piece::Frame(close))
    }

    fn parameters<E>(&self, schema: &str, put: Put<'_, E>) -> Result<(), E> {
        put(Piece::Text(",parameters:{"))?;
        if let Some(list) = json::member(schema, "properties").filter(|list| json::members(list).next().is_some()) {
            put(Piece::Text("properties:{"))?;
            self.properties(list, put)?;
            put(Piece::Text("},"))?;
        }
        if let Some(names) = json::member(schema, "required").filter(|names| json::elements(names).next().is_some()) {
            put(Piece::Text("required:"))?;
            self.value(names, put)?;
            put(Piece::Text(","))?;
        }
        if let Some(types) = json::member(schema, "type") {
            put(Piece::Text("type:"))?;
            self.types_of(types, put)?;
            put(Piece::Text("}"))?;
        } else if self.describes_all {
            put(Piece::Text("}"))?;
        }
        Ok(())
    }

    /// Writes the properties of an object, in the order of their names.
    fn properties<E>(&self, list: &str, put: Put<'_, E>) -> Result<(), E> {
        let mut is_first = true;
        for (name, schema) in sorted(list).filter(|(name, _)| !OWN.contains(name)) {
            put(Piece::Text(if is_first { "" } else { "," }))?;
            is_first = false;
            plain(name, put)?;
            put(Piece::Text(":{"))?;
            self.property(schema, put)?;
        }
        Ok(())
    }

    fn property<E>(&self, schema: &str, put: Put<'_, E>) -> Result<(), E> {
        let mut parts = Parts { is_first: true };
        let text = json::member(schema, "description").and_then(json::string).unwrap_or_default();
        if self.describes_all || !text.is_empty() {
            parts.begin("description:", put)?;
            self.string(text, put)?;
        }
        if !self.describes_all && json::member(schema, "nullable") == Some("true") {
            parts.begin("nullable:true", put)?;
        }
        let types = json::member(schema, "type").unwrap_or("\"\"");
        match json::string(types) {
            Some("string") => {
                if let Some(list) = json::member(schema, "enum") {
                    parts.begin("enum:", put)?;
                    self.value(list, put)?;
                }
            }
            Some("object") => {
                put(Piece::Text(",properties:{"))?;
                self.properties(json::member(schema, "properties").unwrap_or(schema), put)?;
                put(Piece::Text("}"))?;
                parts.is_first = false;
                self.required(schema, put)?;
            }
            Some("array") => self.items(schema, &mut parts, put)?,
            _ => {}
        }
        parts.begin("type:", put)?;
        self.types_of(types, put)?;
        put(Piece::Text("}"))
    }

    fn required<E>(&self, schema: &str, put: Put<'_, E>) -> Result<(), E> {
        match json::member(schema, "required").filter(|names| json::elements(names).next().is_some()) {
            Some(names) => {
                put(Piece::Text(",required:"))?;
                self.value(names, put)
            }
            None => Ok(()),
        }
    }

    fn items<E>(&self, schema: &str, parts: &mut Parts, put: Put<'_, E>) -> Result<(), E> {
        let Some(items) = json::member(schema, "items").filter(|items| json::members(items).next().is_some()) else {
            return Ok(());
        };
        put(Piece::Text(",items:{"))?;
        parts.is_first = false;
        let mut is_first = true;
        for (name, item) in sorted(items).filter(|(_, item)| *item != "null") {
            put(Piece::Text(if is_first { "" } else { "," }))?;
            is_first = false;
            plain(name, put)?;
            put(Piece::Text(":"))?;
            match name {
                "properties" => {
                    put(Piece::Text("{"))?;
                    self.properties(item, put)?;
                    put(Piece::Text("}"))?;
                }
                "type" if item.starts_with('[') => self.list_of_types(item, put)?,
                "type" => self.types_of(item, put)?,
                _ => self.write(item, true, put)?,
            }
        }
        put(Piece::Text("}"))
    }

    /// Writes types in capitals, as a list.
    fn list_of_types<E>(&self, types: &str, put: Put<'_, E>) -> Result<(), E> {
        put(Piece::Text("["))?;
        for (index, (name, _)) in json::elements(types).enumerate() {
            put(Piece::Text(if index == 0 { "" } else { "," }))?;
            self.types_of(name, put)?;
        }
        put(Piece::Text("]"))
    }

    /// Writes a type in capitals. A list of types is written as Python prints it, because the template does so, and the
    /// model was trained on it.
    fn types_of<E>(&self, types: &str, put: Put<'_, E>) -> Result<(), E> {
        put(Piece::Frame(self.quote))?;
        match json::string(types) {
            Some(name) => upper(name, put)?,
            None => {
                put(Piece::Text("["))?;
                for (index, (name, _)) in json::elements(types).enumerate() {
                    put(Piece::Text(if index == 0 { "'" } else { ", '" }))?;
                    upper(json::string(name).unwrap_or_default(), put)?;
                    put(Piece::Text("'"))?;
                }
                put(Piece::Text("]"))?;
            }
        }
        put(Piece::Frame(self.quote))
    }
}

/// Returns the members of an object in the order of their names. There is no memory for a sorted list: each next member
/// is the smallest one that is larger than the last one. Of members with the same name only the last one counts, as in
/// Python.
fn sorted(object: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut last: Option<&str> = None;
    core::iter::from_fn(move || {
        let is_new = |name: &str| last.is_none_or(|last| order(name, last).is_gt());
        let rest = json::members(object).filter(|(name, ..)| is_new(name));
        // Equal names compare as greater, because `min_by` otherwise takes the first of several members with the same
        // name.
        let (name, value, _) = rest.min_by(|(a, ..), (b, ..)| order(a, b).then(core::cmp::Ordering::Greater))?;
        last = Some(name);
        Some((name, value))
    })
}

/// Compares names in the order of Jinja's `dictsort`, which ignores case, and equal ones by their characters.
fn order(a: &str, b: &str) -> core::cmp::Ordering {
    let small = |text| json::chars(text).map(small);
    small(a).cmp(small(b)).then_with(|| json::chars(a).cmp(json::chars(b)))
}

/// Returns the small letter of a Latin letter up to U+017F, or of a Greek or Cyrillic letter. The standard library's
/// tables for all scripts take 23 KB.
fn small(c: char) -> char {
    let code = u32::from(c);
    let even = code.is_multiple_of(2);
    let small = match c {
        'A'..='Z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{DE}' | '\u{391}'..='\u{3A1}' | '\u{3A3}'..='\u{3AB}' => {
            code + 32
        }
        '\u{410}'..='\u{42F}' => code + 32,
        '\u{400}'..='\u{40F}' => code + 80,
        '\u{178}' => 0xFF,
        '\u{100}'..='\u{12F}' | '\u{132}'..='\u{137}' | '\u{14A}'..='\u{177}' if even => code + 1,
        '\u{139}'..='\u{148}' | '\u{179}'..='\u{17E}' if !even => code + 1,
        _ => code,
    };
    char::from_u32(small).unwrap_or(c)
}

/// Writer of parts with commas between them.
struct Parts {
    is_first: bool,
}

impl Parts {
    fn begin<E>(&mut self, name: &'static str, put: Put<'_, E>) -> Result<(), E> {
        put(Piece::Text(if self.is_first { "" } else { "," }))?;
        self.is_first = false;
        put(Piece::Text(name))
    }
}

fn upper<E>(name: &str, put: Put<'_, E>) -> Result<(), E> {
    // All names of types are ASCII.
    json::chars(name).try_for_each(|c| put(Piece::Text(c.to_ascii_uppercase().encode_utf8(&mut [0; 4]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All letters but U+130, which becomes two characters.
    #[test]
    fn small_letters_are_those_of_unicode() {
        let codes = (0..0x180).chain(0x391..0x3AC).chain(0x400..0x460).filter(|&code| code != 0x130);
        for c in codes.filter_map(char::from_u32) {
            assert_eq!(c.to_lowercase().collect::<Vec<char>>(), [small(c)]);
        }
        for c in ['\u{130}', '\u{3A2}', '\u{4E00}'] {
            assert_eq!(small(c), c);
        }
    }
}
