//! The arguments of a call.

use core::fmt::{self, Write};

use super::json;
use super::list::Tool;
use super::literal::{self, Output};
use super::scan::{Scan, find};

/// The arguments of a call, as the model has written them.
///
/// [Example](crate::tools#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arguments<'t> {
    pub(super) writing: Writing,
    pub(super) text: &'t str,
}

/// How arguments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// A JSON object.
    Json,
    /// The inside of a JSON string that has an object in it.
    JsonInString,
    /// `name=value` of Python, between the parentheses.
    Python,
    /// An object of Gemma, with this mark around strings.
    Gemma(&'static str),
    /// `<parameter=name>\nvalue\n</parameter>`.
    Parameters,
    /// `<param name="name">value</param>`.
    Quoted,
    /// `<arg_key>name</arg_key>\n<arg_value>value</arg_value>`.
    KeysAndValues,
}

impl<'t> Arguments<'t> {
    /// Returns the part of the model's text that the arguments are.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// Returns the arguments if they are a JSON object as they stand in the text.
    pub fn as_json(&self) -> Option<&'t str> {
        (self.writing == Writing::Json).then_some(self.text)
    }

    /// Writes the arguments as a JSON object. A JSON object stays as it is. In formats that do not mark strings, the
    /// parameters of `tool` say which values are strings.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write_json(&self, tool: Option<&Tool<'_>>, out: &mut dyn Write) -> fmt::Result {
        match self.writing {
            Writing::Json => out.write_str(self.text),
            Writing::JsonInString => json::chars(self.text).try_for_each(|c| out.write_char(c)),
            Writing::Python => {
                let mut out = Output::new(out);
                out.text("{");
                // The reader has read these arguments to their end, so there is no fault.
                let _ = python(&mut Scan { text: self.text, at: 0 }, "", &mut out);
                out.text("}");
                out.result
            }
            Writing::Gemma(quote) => {
                let mut out = Output::new(out);
                let _ = literal::gemma(self.text, 0, quote, 0, &mut out);
                out.result
            }
            Writing::Parameters => self.write_tagged(tool, out, next_parameter),
            Writing::Quoted => self.write_tagged(tool, out, next_quoted),
            Writing::KeysAndValues => self.write_tagged(tool, out, next_pair),
        }
    }

    fn write_tagged(
        &self,
        tool: Option<&Tool<'_>>,
        out: &mut dyn Write,
        next: impl Fn(&str, &mut usize) -> Option<(usize, usize, usize, usize)>,
    ) -> fmt::Result {
        let (mut out, mut at, mut is_first) = (Output::new(out), 0, true);
        let schema = tool.and_then(|tool| tool.parameters()).and_then(|schema| json::member(schema, "properties"));
        out.text("{");
        while let Some((name, name_end, value, value_end)) = next(self.text, &mut at) {
            let (name, value) = (self.text.get(name..name_end), self.text.get(value..value_end));
            let (name, value) = (name.unwrap_or_default().trim_ascii(), value.unwrap_or_default());
            let types = schema.and_then(|schema| json::member(json::member(schema, name)?, "type"));
            if !is_first {
                out.text(", ");
            }
            is_first = false;
            out.string(name);
            out.text(": ");
            literal::tagged(value, types == Some("\"string\""), &mut out);
        }
        out.text("}");
        out.result
    }
}

/// Reads `name=value, ...` up to `close`, or to the end of the text if `close` is empty.
pub(super) fn python(scan: &mut Scan<'_>, close: &str, out: &mut Output<'_>) -> Result<(), json::Fault> {
    let mut is_first = true;
    loop {
        scan.space();
        if close.is_empty() && scan.rest().is_empty() {
            return Ok(());
        }
        if !close.is_empty() && scan.takes(close)? {
            return Ok(());
        }
        if !is_first {
            out.text(", ");
        }
        is_first = false;
        let start = scan.at;
        let name = scan.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80);
        scan.space();
        if scan.rest().is_empty() {
            return json::Fault::incomplete(scan.at);
        }
        if name.is_empty() || !scan.takes("=")? {
            return Err(json::Fault { kind: json::FaultKind::Positional, at: start });
        }
        out.string(name);
        out.text(": ");
        scan.at = literal::python(scan.text, scan.at, 0, out)?;
        scan.space();
        let has_more = scan.takes(",").or_else(|fault| if close.is_empty() { Ok(false) } else { Err(fault) })?;
        if !has_more && !scan.rest().is_empty() && !scan.rest().as_bytes().starts_with(close.as_bytes()) {
            return json::Fault::invalid(scan.at);
        }
    }
}

/// Returns where the name and the value of the next parameter begin and end. Moves `at` behind the parameter.
fn next_parameter(text: &str, at: &mut usize) -> Option<(usize, usize, usize, usize)> {
    let name = find(text, *at, PARAMETER)?.checked_add(PARAMETER.len())?;
    let name_end = find(text, name, ">")?;
    let end = find(text, name_end, PARAMETER_END)?;
    *at = end.checked_add(PARAMETER_END.len())?;
    // The line ends next to the tags belong to the tags.
    let value = name_end + 1;
    let inside = text.get(value..end)?;
    let value = value + usize::from(inside.starts_with('\n'));
    let is_cut = text.get(value..end).is_some_and(|inside| inside.ends_with('\n'));
    Some((name, name_end, value, end.saturating_sub(usize::from(is_cut))))
}

/// Returns where the name and the value of the next parameter with a name in quotes begin and end. Moves `at` behind
/// it.
fn next_quoted(text: &str, at: &mut usize) -> Option<(usize, usize, usize, usize)> {
    let name = find(text, *at, PARAM)?.checked_add(PARAM.len())?;
    let name_end = find(text, name, "\">")?;
    let value = name_end.checked_add(2)?;
    let is_raw = text.get(value..)?.as_bytes().starts_with(CDATA.as_bytes());
    let value = value.checked_add(if is_raw { CDATA.len() } else { 0 })?;
    let value_end = find(text, value, if is_raw { CDATA_END } else { PARAM_END })?;
    *at = find(text, value_end, PARAM_END)?.checked_add(PARAM_END.len())?;
    Some((name, name_end, value, value_end))
}

/// Returns where the next key and its value begin and end. Moves `at` behind the value.
fn next_pair(text: &str, at: &mut usize) -> Option<(usize, usize, usize, usize)> {
    let name = find(text, *at, KEY)?.checked_add(KEY.len())?;
    let name_end = find(text, name, KEY_END)?;
    let value = find(text, name_end, VALUE)?.checked_add(VALUE.len())?;
    let value_end = find(text, value, VALUE_END)?;
    *at = value_end.checked_add(VALUE_END.len())?;
    Some((name, name_end, value, value_end))
}

pub(super) const PARAMETER: &str = "<parameter=";
pub(super) const PARAMETER_END: &str = "</parameter>";
pub(super) const PARAM: &str = "<param name=\"";
pub(super) const PARAM_END: &str = "</param>";
pub(super) const CDATA: &str = "<![CDATA[";
pub(super) const CDATA_END: &str = "]]>";
pub(super) const KEY: &str = "<arg_key>";
pub(super) const KEY_END: &str = "</arg_key>";
pub(super) const VALUE: &str = "<arg_value>";
pub(super) const VALUE_END: &str = "</arg_value>";
