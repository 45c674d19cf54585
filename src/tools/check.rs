//! Checks arguments against the schema of a tool's parameters.

use super::error::{CallError, CallErrorKind};
use super::json::{self, FaultKind};

/// Checks that a text is a JSON object and nothing else.
pub(super) fn object(text: &str) -> Result<(), CallError<'_>> {
    let end = json::object_end(text, 0).map_err(|fault| match fault.kind {
        FaultKind::Invalid => CallError::new(CallErrorKind::NoObject, fault.at),
        _ => fault.into(),
    })?;
    match json::skip_space(text, end) {
        end if end == text.len() => Ok(()),
        end => Err(CallError::new(CallErrorKind::NoObject, end)),
    }
}

/// Checks a value, which is JSON, against a schema, which is JSON.
///
/// It recurses into the value, which is not nested more than 64 deep.
pub(super) fn value<'t>(schema: &'t str, value: &'t str) -> Result<(), CallError<'t>> {
    let fails = |kind| Err(CallError::new(kind, 0));
    if !json::member(schema, "type").is_none_or(|types| is_of(types, value)) {
        return fails(CallErrorKind::Type);
    }
    let is_listed = |list| json::elements(list).any(|(listed, _)| is_equal(listed, value));
    if !json::member(schema, "enum").is_none_or(is_listed)
        || !json::member(schema, "const").is_none_or(|only| is_equal(only, value))
    {
        return fails(CallErrorKind::Value);
    }
    let text = value.trim_ascii_start();
    if text.starts_with('{') {
        members(schema, value)
    } else if text.starts_with('[') {
        let items = json::member(schema, "items").filter(|items| items.starts_with('{'));
        let mut elements = json::elements(value);
        items.map_or(Ok(()), |items| elements.try_for_each(|(element, at)| moved(at, self::value(items, element))))
    } else {
        Ok(())
    }
}

fn members<'t>(schema: &'t str, object: &'t str) -> Result<(), CallError<'t>> {
    let properties = json::member(schema, "properties").unwrap_or("{}");
    let is_closed = json::member(schema, "additionalProperties") == Some("false");
    for (name, value, at) in json::members(object) {
        let known = json::members(properties).find(|(known, ..)| json::chars(known).eq(json::chars(name)));
        match known {
            Some((_, schema, _)) => moved(at, self::value(schema, value))?,
            None if is_closed => return Err(CallError::new(CallErrorKind::UnknownArgument(name), at)),
            None => {}
        }
    }
    let required = json::elements(json::member(schema, "required").unwrap_or("[]"));
    for name in required.filter_map(|(name, _)| json::string(name)) {
        if !json::members(object).any(|(found, ..)| json::chars(found).eq(json::chars(name))) {
            return Err(CallError::new(CallErrorKind::Missing(name), 0));
        }
    }
    Ok(())
}

/// Moves the place of an error in a part that begins at `start` to the place in the whole.
fn moved(start: usize, result: Result<(), CallError<'_>>) -> Result<(), CallError<'_>> {
    result.map_err(|error| CallError { at: error.at.saturating_add(start), ..error })
}

/// Returns whether a value is of a type, or of one of a list of types.
fn is_of(types: &str, value: &str) -> bool {
    let is = |name: &str| {
        let value = value.trim_ascii_start();
        match name {
            "object" => value.starts_with('{'),
            "array" => value.starts_with('['),
            "string" => value.starts_with('"'),
            "boolean" => matches!(value, "true" | "false"),
            "null" => value == "null",
            "number" => is_number(value),
            "integer" => is_number(value) && is_integer(value),
            // A type that is not known refuses nothing.
            _ => true,
        }
    };
    match json::string(types) {
        Some(name) => is(name),
        None => json::elements(types).filter_map(|(name, _)| json::string(name)).any(is),
    }
}

fn is_number(value: &str) -> bool {
    value.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

/// Returns whether a number has an integer as its value: `2`, `2.0`, `1.5e1`, but not `0.5` or `1e-5`.
fn is_integer(number: &str) -> bool {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, ""));
    let (_, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut last_digits = mantissa.bytes().rev().filter(u8::is_ascii_digit);
    let Some(zeros) = last_digits.position(|digit| digit != b'0') else { return true };
    let append = |value: i64, digit: u8| value.saturating_mul(10).saturating_add(i64::from(digit & 15));
    let size = exponent.bytes().filter(u8::is_ascii_digit).fold(0, append);
    // The number of digits behind the point without the zeros at the end. Below 0, zeros before the point are at the
    // end, too.
    let places = (fraction.len() as i64).saturating_sub(zeros as i64);
    places <= if exponent.starts_with('-') { -size } else { size }
}

/// Returns whether two values are the same. Numbers are the same if they are written in the same way.
fn is_equal(a: &str, b: &str) -> bool {
    match (json::string(a), json::string(b)) {
        (Some(a), Some(b)) => json::chars(a).eq(json::chars(b)),
        (None, None) => a == b,
        _ => false,
    }
}
