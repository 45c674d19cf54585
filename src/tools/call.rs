//! One call in the writing of each format.

use super::arguments::{
    Arguments, CDATA, CDATA_END, KEY, KEY_END, PARAM, PARAM_END, PARAMETER, PARAMETER_END, VALUE, VALUE_END, Writing,
    python,
};
use super::error::{CallError, CallErrorKind};
use super::json::{self, Fault};
use super::literal::{self, Nowhere, Output};
use super::scan::Scan;

/// How the calls of a format are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// JSON objects, alone or in an array; also functions and arguments in tags.
    Json,
    /// JSON objects in an array, or `NAME[CALL_ID]ID[ARGS]{...}`.
    Mistral,
    /// `[NAME(k=v), ...]`, or JSON objects in an array.
    Python,
    /// `call:NAME{...}`, with this mark around strings.
    Gemma(&'static str),
    /// `NAME">`, parameters in tags, `</function>`.
    Quoted,
    /// `{"NAME": {...}}` in an array.
    Keyed,
    /// `functions.NAME:INDEX<|tool_call_argument_begin|>{...}`.
    Kimi,
    /// `function<｜tool▁sep｜>NAME` and a block of JSON in Markdown, or `NAME<｜tool▁sep｜>{...}`.
    DeepSeek,
}

/// A call that the reader has found. The text after it begins at the scan's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'t> {
    pub(super) name: &'t str,
    pub(super) id: Option<&'t str>,
    pub(super) arguments: Arguments<'t>,
    /// Whether more calls of the same list may follow.
    pub(super) is_listed: bool,
}

impl Style {
    /// Reads the call after the mark that begins calls. `None`: the list has no more.
    pub(super) fn first<'t>(self, scan: &mut Scan<'t>) -> Result<Option<Found<'t>>, CallError<'t>> {
        scan.space();
        match self {
            Self::Json | Self::Python | Self::Mistral | Self::Keyed if scan.takes("[")? => self.listed(scan),
            Self::Json if scan.takes("<function=")? => function(scan).map(Some),
            Self::Json if scan.rest().starts_with('{') => object(scan).map(Some),
            Self::Json => keys_and_values(scan).map(Some),
            Self::Python | Self::Keyed => Err(Fault { kind: json::FaultKind::Invalid, at: scan.at }.into()),
            Self::Mistral => mistral(scan).map(Some),
            Self::Gemma(quote) => gemma(scan, quote).map(Some),
            Self::Quoted => quoted(scan).map(Some),
            Self::Kimi => kimi(scan).map(Some),
            Self::DeepSeek => deep_seek(scan).map(Some),
        }
    }

    /// Reads the next call of a list. `None`: the list has no more.
    pub(super) fn listed<'t>(self, scan: &mut Scan<'t>) -> Result<Option<Found<'t>>, CallError<'t>> {
        scan.space();
        while scan.takes(",")? {
            scan.space();
        }
        if scan.takes("]")? {
            return Ok(None);
        }
        let found = if matches!(self, Self::Keyed) {
            keyed(scan)?
        } else if scan.rest().starts_with('{') || !matches!(self, Self::Python) {
            object(scan)?
        } else {
            let name = scan.name()?;
            scan.expect("(")?;
            let start = scan.at;
            python(scan, ")", &mut Output::new(&mut Nowhere))?;
            let text = scan.text.get(start..scan.at.saturating_sub(1)).unwrap_or_default();
            Found { name, id: None, arguments: Arguments { writing: Writing::Python, text }, is_listed: false }
        };
        Ok(Some(Found { is_listed: true, ..found }))
    }
}

/// `{"name": N, "arguments": {...}, "id": "..."}`, with `parameters` for `arguments`, too.
pub(super) fn object<'t>(scan: &mut Scan<'t>) -> Result<Found<'t>, CallError<'t>> {
    let object = scan.object()?;
    let start = scan.at.saturating_sub(object.len());
    let text = |name| json::member(object, name).and_then(json::string);
    let invalid = |at| CallError::new(CallErrorKind::Invalid, at);
    let name = text("name").ok_or(invalid(start))?;
    let given = json::members(object).find(|(name, ..)| matches!(*name, "arguments" | "parameters"));
    let arguments = match given {
        // Some models leave out the arguments where there are none.
        None => Arguments { writing: Writing::Json, text: "{}" },
        Some((_, "null", _)) => Arguments { writing: Writing::Json, text: "{}" },
        Some((_, value, _)) if value.starts_with('{') => Arguments { writing: Writing::Json, text: value },
        Some((_, value, at)) => {
            let at = start.saturating_add(at);
            let inside = json::string(value).ok_or(CallError::new(CallErrorKind::NoObject, at))?;
            let mut chars = json::chars(inside).skip_while(char::is_ascii_whitespace);
            if chars.next() != Some('{') {
                return Err(CallError::new(CallErrorKind::NoObject, at));
            }
            Arguments { writing: Writing::JsonInString, text: inside }
        }
    };
    Ok(Found { name, id: text("id"), arguments, is_listed: false })
}

/// `{"NAME": {...}}`.
fn keyed<'t>(scan: &mut Scan<'t>) -> Result<Found<'t>, CallError<'t>> {
    let object = scan.object()?;
    let start = scan.at.saturating_sub(object.len());
    let mut members = json::members(object);
    let (Some((name, text, at)), None) = (members.next(), members.next()) else {
        return Err(CallError::new(CallErrorKind::Invalid, start));
    };
    if !text.starts_with('{') {
        return Err(CallError::new(CallErrorKind::NoObject, start.saturating_add(at)));
    }
    Ok(Found { name, id: None, arguments: Arguments { writing: Writing::Json, text }, is_listed: false })
}

/// `NAME>`, parameters in tags, `</function>`.
fn function<'t>(scan: &mut Scan<'t>) -> Result<Found<'t>, CallError<'t>> {
    tagged(scan, ">", Writing::Parameters, |scan| {
        scan.expect(PARAMETER)?;
        scan.until(">")?;
        scan.until(PARAMETER_END)?;
        Ok(())
    })
}

/// `NAME">`, parameters in tags with their names in quotes, `</function>`.
fn quoted<'t>(scan: &mut Scan<'t>) -> Result<Found<'t>, CallError<'t>> {
    tagged(scan, "\">", Writing::Quoted, |scan| {
        scan.expect(PARAM)?;
        scan.until("\">")?;
        if scan.takes(CDATA)? {
            scan.until(CDATA_END)?;
        }
        scan.until(PARAM_END)?;
        Ok(())
    })
}

/// A name, the text `behind`, parameters, `</function>`.
fn tagged<'t>(
    scan: &mut Scan<'t>,
    behind: &'static str,
    writing: Writing,
    parameter: impl Fn(&mut Scan<'t>) -> Result<(), CallError<'t>>,
) -> Result<Found<'t>, CallError<'t>> {
    let name = scan.name()?;
    scan.expect(behind)?;
    let start = scan.at;
    let end = loop {
        scan.space();
        let end = scan.at;
        if scan.takes("</function>")? {
            break end;
        }
        parameter(scan)?;
    };
    let text = scan.text.get(start..end).unwrap_or_default();
    Ok(Found { name, id: None, arguments: Arguments { writing, text }, is_listed: false })
}

/// `NAME` and keys with values in tags.
fn keys_and_values<'t>(scan: &mut Scan<'t>) -> Result<Found<'t>, CallError<'t>> {
    let name = scan.name()?;
    let start = scan.at;
    let end = loop {
        scan.space();
        let end = scan.at;
        // The mark is left to the reader.
        if scan.takes("</tool_call>")? {
            scan.at = end;
            break end;
        }
        scan.expect(KEY)?;
        scan.until(KEY_END)?;
        scan.space();
        scan.expect(VALUE)?;
        scan.until(VALUE_END)?;
    };
    let text = scan.text.get(start..end).unwrap_or_default();
    Ok(Found { name, id: None, arguments: Arguments { writing: Writing::KeysAndValues, text }, is_listed: false })
}

/// `NAME[CALL_ID]ID[ARGS]{...}`, without the identifier, too.
fn mistral<'t>(scan: &mut Scan<'t>) -> Result<Found<'t>, CallError<'t>> {
    let name = scan.name()?;
    let id = if scan.takes("[CALL_ID]")? { Some(scan.until("[ARGS]")?) } else { None };
    if id.is_none() && !scan.rest().starts_with('{') {
        scan.expect("[ARGS]")?;
    }
    let text = scan.object()?;
    Ok(Found { name, id, arguments: Arguments { writing: Writing::Json, text }, is_listed: false })
}

fn gemma<'t>(scan: &mut Scan<'t>, quote: &'static str) -> Result<Found<'t>, CallError<'t>> {
    scan.expect("call:")?;
    let name = scan.name()?;
    let start = scan.at;
    if !scan.rest().starts_with('{') {
        return Err(CallError::new(CallErrorKind::Invalid, start));
    }
    scan.at = literal::gemma(scan.text, start, quote, 0, &mut Output::new(&mut Nowhere))?;
    let text = scan.text.get(start..scan.at).unwrap_or_default();
    Ok(Found { name, id: None, arguments: Arguments { writing: Writing::Gemma(quote), text }, is_listed: false })
}

fn kimi<'t>(scan: &mut Scan<'t>) -> Result<Found<'t>, CallError<'t>> {
    let id = scan.until("<|tool_call_argument_begin|>")?.trim_ascii();
    let bare = id.strip_prefix("functions.").unwrap_or(id);
    // (The search from the end in the standard library has code that panics.)
    let colon = bare.bytes().rposition(|byte| byte == b':');
    let name = colon.and_then(|colon| bare.get(..colon)).unwrap_or(bare);
    let text = scan.object()?;
    Ok(Found { name, id: Some(id), arguments: Arguments { writing: Writing::Json, text }, is_listed: false })
}

fn deep_seek<'t>(scan: &mut Scan<'t>) -> Result<Found<'t>, CallError<'t>> {
    const BLOCK: &str = "```";
    let name = scan.until("<｜tool▁sep｜>")?.trim_ascii();
    scan.space();
    if scan.rest().is_empty() {
        return Err(CallError::new(CallErrorKind::Incomplete, scan.at));
    }
    // In the other form this word is the kind of the tool.
    let is_bare = scan.rest().starts_with('{');
    let name = if is_bare { name } else { scan.name()? };
    if !is_bare {
        scan.space();
        scan.expect(BLOCK)?;
        scan.expect("json")?;
    }
    let text = scan.object()?;
    if !is_bare {
        scan.space();
        scan.expect(BLOCK)?;
    }
    Ok(Found { name, id: None, arguments: Arguments { writing: Writing::Json, text }, is_listed: false })
}

/// A header of harmony: who is called, and whether the text that follows is a thought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header<'t> {
    pub(super) recipient: Option<&'t str>,
    pub(super) is_thought: bool,
}

/// Reads `... to=functions.NAME<|channel|>CHANNEL ...<|message|>`, in which most parts may be missing.
pub(super) fn header<'t>(scan: &mut Scan<'t>) -> Result<Header<'t>, Fault> {
    let text = scan.until("<|message|>")?;
    let after = |part| {
        let at = super::scan::find(text, 0, part)?.checked_add(part.len())?;
        let mut word = Scan { text, at };
        Some(word.take_while(|byte| !byte.is_ascii_whitespace() && byte != b'<'))
    };
    let recipient = after("to=").map(|to| to.strip_prefix("functions.").unwrap_or(to));
    Ok(Header { recipient, is_thought: after("<|channel|>") == Some("analysis") })
}

/// Reads the JSON of a call of harmony.
pub(super) fn harmony<'t>(name: &'t str, scan: &mut Scan<'t>) -> Result<Found<'t>, CallError<'t>> {
    let text = scan.object()?;
    Ok(Found { name, id: None, arguments: Arguments { writing: Writing::Json, text }, is_listed: false })
}
