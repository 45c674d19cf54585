//! Values as Python writes them.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Output, State, Value};

/// Values in lists in lists, at most.
const DEPTH: usize = 64;

/// A method of Python's strings, lists and dictionaries.
pub(super) fn method(state: &mut State<'_, '_>, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) if name == "title" && args.is_empty() => Ok(Value::from(title(text))),
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// A capital letter after everything that is no letter.
fn title(text: &str) -> String {
    let mut out = String::new();
    let mut in_word = false;
    for c in text.chars() {
        match in_word {
            true => out.extend(c.to_lowercase()),
            false => out.extend(c.to_uppercase()),
        }
        in_word = c.is_alphabetic();
    }
    out
}

/// What `{{ value }}` writes.
pub(super) fn format(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    Ok(out.write_str(&string(value)?)?)
}

/// `str(value)`.
pub(super) fn string(value: &Value) -> Result<String, Error> {
    match value.as_str() {
        Some(text) => Ok(text.to_string()),
        None => Writer { scalars: &REPR, separators: (", ", ": "), indent: None }.text(value),
    }
}

/// `json.dumps`, without escapes for HTML and for characters that are not ASCII.
pub(super) fn to_json(value: &Value, options: Kwargs) -> Result<String, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<(String, String)> = options
        .get::<Option<Vec<String>>>("separators")?
        .and_then(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone())));
    let _: (Option<bool>, Option<bool>) = (options.get("ensure_ascii")?, options.get("sort_keys")?);
    options.assert_all_used()?;
    let default = if indent.is_some() { "," } else { ", " };
    let separators = separators.as_ref().map_or((default, ": "), |(item, key)| (item, key));
    Writer { scalars: &JSON, separators, indent }.text(value)
}

/// How single values are spelled.
struct Scalars {
    none: &'static str,
    yes: &'static str,
    no: &'static str,
    string: fn(&str) -> String,
}

const REPR: Scalars = Scalars { none: "None", yes: "True", no: "False", string: repr };
const JSON: Scalars = Scalars { none: "null", yes: "true", no: "false", string: quoted };

struct Writer<'w> {
    scalars: &'w Scalars,
    /// After an item, and after a key.
    separators: (&'w str, &'w str),
    indent: Option<usize>,
}

impl Writer<'_> {
    fn text(&self, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(&mut out, value, 0)?;
        Ok(out)
    }

    fn write(&self, out: &mut String, value: &Value, depth: usize) -> Result<(), Error> {
        if depth > DEPTH {
            return Err(Error::new(ErrorKind::InvalidOperation, "a value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::Undefined if self.scalars.none == REPR.none => {}
            ValueKind::Undefined => {
                return Err(Error::new(ErrorKind::UndefinedError, "an undefined value cannot be written as JSON"));
            }
            ValueKind::None => out.push_str(self.scalars.none),
            ValueKind::Bool => out.push_str(if value.is_true() { self.scalars.yes } else { self.scalars.no }),
            ValueKind::String => out.push_str(&(self.scalars.string)(value.as_str().unwrap_or_default())),
            ValueKind::Map => self.items(out, ['{', '}'], value, depth, |out, key| {
                // Keys of JSON are strings.
                let name = if key.as_str().is_some() { key.clone() } else { Value::from(self.text(&key)?) };
                let key = if self.scalars.none == JSON.none { &name } else { &key };
                self.write(out, key, depth + 1)?;
                out.push_str(self.separators.1);
                self.write(out, &value.get_item(&name)?, depth + 1)
            })?,
            ValueKind::Seq | ValueKind::Iterable => {
                self.items(out, ['[', ']'], value, depth, |out, item| self.write(out, &item, depth + 1))?;
            }
            _ => out.push_str(&value.to_string()),
        }
        Ok(())
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
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent.saturating_mul(depth)));
            }
        };
        out.push(open);
        let mut count = 0;
        for item in value.try_iter()? {
            if count > 0 {
                out.push_str(self.separators.0);
            }
            line(out, depth + 1);
            write(out, item)?;
            count += 1;
        }
        if count > 0 {
            line(out, depth);
        }
        out.push(close);
        Ok(())
    }
}

/// A string of JSON.
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

/// `repr(text)`; characters that Python does not print are left as they are.
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
