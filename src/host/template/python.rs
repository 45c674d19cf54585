//! Values as Python writes them.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, Value};

use super::bounds::{MAX_DEPTH, MAX_TEXT};
use super::guard::{self, at_most};
use super::{list, methods, number};

/// Calls a method of Python's strings, lists and dictionaries.
pub(super) fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.as_str() {
        None if value.kind() == ValueKind::Seq && list::METHODS.contains(&name) => {
            list::change(state, value, name, args)
        }
        _ => {
            let given: Vec<Value> = match (name, args.split_first()) {
                // The filter has the list as its first argument.
                ("join", Some((items, _))) => [items.clone(), value.clone()].into(),
                _ => std::iter::once(value).chain(args).cloned().collect(),
            };
            guard::guarded(state, name, &given, |state| match methods::call(state, value, name, args)? {
                Some(result) => Ok(result),
                None => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
            })
        }
    }
}

/// Writes `{{ value }}`.
pub(super) fn format(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    if let Some(text) = value.as_str() {
        guard::write(state, text.len())?;
        return Ok(out.write_str(text)?);
    }
    let text = string(value)?;
    guard::write(state, text.len())?;
    Ok(out.write_str(&text)?)
}

/// Returns `str(value)`.
pub(super) fn string(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_string()),
        None => Writer { scalars: &REPR, separators: (", ", ": "), indent: None, is_sorted: false }.text(value),
    }
}

/// Returns `json.dumps(value)` without escapes for HTML. Characters that are not ASCII are escaped only on request.
pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<(String, String)> = options
        .get::<Option<Vec<String>>>("separators")?
        .and_then(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone())));
    let (is_ascii, is_sorted): (Option<bool>, Option<bool>) = (options.get("ensure_ascii")?, options.get("sort_keys")?);
    options.assert_all_used()?;
    let default = if indent.is_some() { "," } else { ", " };
    let separators = separators.as_ref().map_or((default, ": "), |(item, key)| (item, key));
    let scalars = if is_ascii == Some(true) { &ASCII } else { &JSON };
    Writer { scalars, separators, indent, is_sorted: is_sorted == Some(true) }.text(value)
}

/// Spellings of scalar values.
struct Scalars {
    none: &'static str,
    yes: &'static str,
    no: &'static str,
    string: fn(&str) -> String,
}

const REPR: Scalars = Scalars { none: "None", yes: "True", no: "False", string: repr };
const JSON: Scalars = Scalars { none: "null", yes: "true", no: "false", string: quoted };
const ASCII: Scalars = Scalars { string: ascii, ..JSON };

struct Writer<'w> {
    scalars: &'w Scalars,
    /// Separators after an item and after a key.
    separators: (&'w str, &'w str),
    indent: Option<usize>,
    /// Whether dictionaries are written in the order of their keys.
    is_sorted: bool,
}

impl Writer<'_> {
    fn text(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(&mut out, value, 0)?;
        Ok(out)
    }

    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        at_most("lists and dictionaries in one another", "levels", depth, MAX_DEPTH)?;
        at_most("a text", "bytes", out.len(), MAX_TEXT)?;
        match value.kind() {
            ValueKind::Undefined if !self.is_json() => {}
            ValueKind::Undefined => {
                return Err(Error::new(ErrorKind::UndefinedError, "an undefined value cannot be written as JSON"));
            }
            ValueKind::None => out.push_str(self.scalars.none),
            ValueKind::Bool => out.push_str(if value.is_true() { self.scalars.yes } else { self.scalars.no }),
            ValueKind::String => out.push_str(&(self.scalars.string)(value.as_str().unwrap_or_default())),
            ValueKind::Map => self.items(out, ['{', '}'], value, depth, |out, key| {
                self.key(out, &key, depth + 1)?;
                out.push_str(self.separators.1);
                self.write(out, &value.get_item(&key)?, depth + 1)
            })?,
            ValueKind::Seq | ValueKind::Iterable => {
                self.items(out, ['[', ']'], value, depth, |out, item| self.write(out, &item, depth + 1))?;
            }
            ValueKind::Number => out.push_str(&self.number(value)),
            _ => out.push_str(&value.to_string()),
        }
        Ok(())
    }

    fn number(&self, value: &Value) -> String {
        let text = match f64::try_from(value.clone()) {
            Ok(number) if !value.is_integer() => number::repr(number),
            _ => return value.to_string(),
        };
        match text.as_str() {
            "nan" if self.is_json() => String::from("NaN"),
            "inf" if self.is_json() => String::from("Infinity"),
            "-inf" if self.is_json() => String::from("-Infinity"),
            _ => text,
        }
    }

    /// Writes a key. In JSON, keys are strings.
    fn key(&self, out: &mut String, key: &Value, depth: usize) -> Result<(), Error> {
        use ValueKind::{Bool, None, Number, String};
        match key.kind() {
            _ if !self.is_json() => self.write(out, key, depth),
            String => self.write(out, key, depth),
            None | Bool | Number => self.write(out, &Value::from(self.text(key)?), depth),
            kind => Err(guard::refused(format!("a key of type {kind} cannot be written as JSON"))),
        }
    }

    fn is_json(&self) -> bool {
        self.scalars.none == JSON.none
    }

    fn items(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        value: &Value,
        depth: usize,
        mut write: impl FnMut(&mut String, Value) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |out: &mut String, depth: usize| {
            if let Some(indent) = self.indent {
                let spaces = indent.saturating_mul(depth);
                at_most("a text", "bytes", out.len().saturating_add(spaces), MAX_TEXT)?;
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', spaces));
            }
            Ok::<(), Error>(())
        };
        out.push(open);
        let mut count = 0;
        let mut list: Vec<Value> = value.try_iter()?.collect();
        if self.is_sorted && value.kind() == ValueKind::Map {
            list.sort();
        }
        for item in list {
            if count > 0 {
                out.push_str(self.separators.0);
            }
            line(out, depth + 1)?;
            write(out, item)?;
            count += 1;
        }
        if count > 0 {
            line(out, depth)?;
        }
        out.push(close);
        Ok(())
    }
}

/// Returns a string of JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out + "\""
}

/// Returns a string of JSON in ASCII.
fn ascii(text: &str) -> String {
    let mut out = String::new();
    for c in quoted(text).chars() {
        match c {
            ' '..='~' => out.push(c),
            _ => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out
}

/// Returns `repr(text)`. Characters that Python escapes because they cannot be printed stay as they are, except ASCII
/// control characters.
fn repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if c == quote => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out.push(quote);
    out
}
