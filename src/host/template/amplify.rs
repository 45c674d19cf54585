//! Filters, tests and methods. Those that make large values from small ones are refused before they run.

use std::vec::Vec;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, State, Value, filters, tests};

use super::bounds::{MAX_ITEMS, MAX_TEXT, MAX_WEIGHT};
use super::guard::{at_most, read, text_len, weigh};
use super::{number, python, text};

/// The largest width of a field in a format. `MAX_FORMAT` is the largest number of bytes of a format.
const MAX_WIDTH: usize = 9999;
const MAX_FORMAT: usize = 4096;

/// Filters that take a text as a whole, and do not go through its characters one by one.
const OF_TEXTS: [&str; 41] = [
    "bool",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "e",
    "endswith",
    "escape",
    "find",
    "float",
    "format",
    "indent",
    "index",
    "int",
    "length",
    "lines",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "safe",
    "split",
    "splitlines",
    "startswith",
    "string",
    "strip",
    "title",
    "tojson",
    "trim",
    "upper",
    "zfill",
];

/// Returns the filters, by name.
pub(super) fn filters() -> Vec<(&'static str, Value)> {
    [
        ("safe", Value::from_function(filters::safe)),
        ("escape", Value::from_function(text::escape)),
        ("lower", Value::from_function(filters::lower)),
        ("upper", Value::from_function(filters::upper)),
        ("title", Value::from_function(filters::title)),
        ("capitalize", Value::from_function(filters::capitalize)),
        ("replace", Value::from_function(text::replace)),
        ("length", Value::from_function(length)),
        ("dictsort", Value::from_function(filters::dictsort)),
        ("items", Value::from_function(filters::items)),
        ("reverse", Value::from_function(filters::reverse)),
        ("trim", Value::from_function(text::trim)),
        ("join", Value::from_function(text::join)),
        ("split", Value::from_function(filters::split)),
        ("lines", Value::from_function(filters::lines)),
        ("default", Value::from_function(filters::default)),
        ("round", Value::from_function(filters::round)),
        ("abs", Value::from_function(filters::abs)),
        ("int", Value::from_function(number::int)),
        ("float", Value::from_function(number::float)),
        ("attr", Value::from_function(filters::attr)),
        ("first", Value::from_function(first)),
        ("last", Value::from_function(last)),
        ("min", Value::from_function(filters::min)),
        ("max", Value::from_function(filters::max)),
        ("sort", Value::from_function(filters::sort)),
        ("list", Value::from_function(filters::list)),
        ("bool", Value::from_function(filters::bool)),
        ("batch", Value::from_function(filters::batch)),
        ("slice", Value::from_function(filters::slice)),
        ("sum", Value::from_function(filters::sum)),
        ("indent", Value::from_function(text::indent)),
        ("select", Value::from_function(filters::select)),
        ("reject", Value::from_function(filters::reject)),
        ("selectattr", Value::from_function(filters::selectattr)),
        ("rejectattr", Value::from_function(filters::rejectattr)),
        ("map", Value::from_function(filters::map)),
        ("groupby", Value::from_function(filters::groupby)),
        ("unique", Value::from_function(filters::unique)),
        ("format", Value::from_function(filters::format)),
        ("e", Value::from_function(text::escape)),
        ("count", Value::from_function(length)),
        ("d", Value::from_function(filters::default)),
        ("string", Value::from_function(|value: Value| python::string(&value))),
        ("pprint", Value::from_function(|value: Value| python::string(&value))),
        ("tojson", Value::from_function(|value: Value, options: Kwargs| python::to_json(&value, options))),
    ]
    .into()
}

/// Returns the length of a value, which is 0 if it is undefined.
fn length(value: Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { filters::length(&value) }
}

fn first(value: Value) -> Result<Value, Error> {
    if value.is_undefined() { Ok(value) } else { filters::first(&value) }
}

fn last(value: Value) -> Result<Value, Error> {
    if value.is_undefined() { Ok(value) } else { filters::last(value) }
}

/// Returns the tests that go through values, by name.
pub(super) fn comparisons() -> Vec<(&'static str, Value)> {
    [
        ("eq", Value::from_function(tests::is_eq)),
        ("equalto", Value::from_function(tests::is_eq)),
        ("==", Value::from_function(tests::is_eq)),
        ("ne", Value::from_function(tests::is_ne)),
        ("!=", Value::from_function(tests::is_ne)),
        ("lt", Value::from_function(tests::is_lt)),
        ("lessthan", Value::from_function(tests::is_lt)),
        ("<", Value::from_function(tests::is_lt)),
        ("le", Value::from_function(tests::is_le)),
        ("<=", Value::from_function(tests::is_le)),
        ("gt", Value::from_function(tests::is_gt)),
        ("greaterthan", Value::from_function(tests::is_gt)),
        (">", Value::from_function(tests::is_gt)),
        ("ge", Value::from_function(tests::is_ge)),
        (">=", Value::from_function(tests::is_ge)),
        ("in", Value::from_function(tests::is_in)),
        ("lower", Value::from_function(tests::is_lower)),
        ("upper", Value::from_function(tests::is_upper)),
        ("startingwith", Value::from_function(tests::is_startingwith)),
        ("endingwith", Value::from_function(tests::is_endingwith)),
        ("divisibleby", Value::from_function(number::is_divisible)),
    ]
    .into()
}

/// The name of a test, and the test.
type Kind = (&'static str, fn(&Value) -> bool);

/// Returns the tests of kinds of values that differ from Python's, by name.
pub(super) fn kinds() -> [Kind; 3] {
    use ValueKind::{Bool, Map, None, Seq, String, Undefined};
    [
        ("iterable", |value| value.kind() != None && value.try_iter().is_ok()),
        ("sequence", |value| matches!(value.kind(), Seq | Map | String | Undefined)),
        ("number", |value| value.is_number() || value.kind() == Bool),
    ]
}

/// Refuses a filter or method whose result would be too large. `args` begins with the value to which it is applied.
pub(super) fn check(state: &mut State<'_, '_>, name: &str, args: &[Value]) -> Result<(), Error> {
    let Some((value, rest)) = args.split_first() else { return Ok(()) };
    if !OF_TEXTS.contains(&name) {
        at_most("a text gone through by characters", "bytes", text_len(value), MAX_ITEMS)?;
    }
    let text = value.as_str().unwrap_or_default();
    match name {
        "indent" => {
            let lines = text.lines().count().saturating_add(1);
            at_most("an indented text", "bytes", lines.saturating_mul(largest(rest)), MAX_TEXT)
        }
        "batch" | "slice" => at_most("parts of a list", "items", largest(rest), MAX_ITEMS),
        "split" | "rsplit" | "lines" | "splitlines" => {
            let pieces = match rest.first().and_then(Value::as_str) {
                Some(separator) if !separator.is_empty() => text.matches(separator).count(),
                _ => text.split_whitespace().count().max(text.lines().count()),
            };
            at_most("parts of a text", "items", pieces, MAX_ITEMS)
        }
        "replace" => replaced(state, value, rest),
        "join" => {
            let separators = items(value).saturating_mul(rest.first().map_or(0, text_len));
            at_most("a joined text", "bytes", weigh(state, value)?.saturating_add(separators), MAX_WEIGHT)
        }
        "format" => formatted(state, text, rest),
        "sort" | "unique" | "groupby" | "dictsort" | "min" | "max" => {
            let bytes = weigh(state, value)?;
            read(state, bytes.saturating_mul(8))
        }
        "sum" if !of_numbers(value) => {
            let bytes = weigh(state, value)?;
            // Each addition to a sum of texts or lists makes the whole sum anew.
            read(state, bytes.saturating_mul(items(value)))
        }
        _ => Ok(()),
    }
}

/// Returns a count of repetitions. A negative count becomes 0.
pub(super) fn natural(count: Value) -> Value {
    let is_negative = count.is_integer() && i128::try_from(count.clone()).is_ok_and(|count| count < 0);
    if is_negative { Value::from(0) } else { count }
}

/// Refuses `left * right` if the result is a long text or list.
pub(super) fn times(left: &Value, right: &Value) -> Result<(), Error> {
    for (value, count) in [(left, right), (right, left)] {
        let count = count.as_usize().unwrap_or(0);
        at_most("a repeated text", "bytes", text_len(value).saturating_mul(count), MAX_TEXT)?;
        at_most("a repeated list", "items", items(value).saturating_mul(count), MAX_ITEMS)?;
    }
    Ok(())
}

/// Returns the number of bytes that a look at each character or item reads.
pub(super) fn shallow(value: &Value) -> Result<usize, Error> {
    Ok(text_len(value).saturating_add(items(value).saturating_mul(16)))
}

/// Returns the number of items of a list or dictionary.
fn items(value: &Value) -> usize {
    match value.kind() {
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => value.len().unwrap_or(0),
        _ => 0,
    }
}

fn of_numbers(list: &Value) -> bool {
    list.try_iter().is_ok_and(|mut items| items.all(|item| item.is_number()))
}

fn replaced(state: &mut State<'_, '_>, value: &Value, rest: &[Value]) -> Result<(), Error> {
    let text = value.as_str().unwrap_or_default();
    let count = match rest.first().and_then(Value::as_str) {
        Some(old) if !old.is_empty() => text.matches(old).count(),
        _ => text.chars().count().saturating_add(1),
    };
    let new = rest.get(1).map_or(Ok(0), |new| weigh(state, new))?;
    let bytes = weigh(state, value)?.saturating_add(count.saturating_mul(new));
    at_most("a text with replacements", "bytes", bytes, MAX_WEIGHT)
}

/// Checks a format in either syntax: fields from `%` to a letter, and fields between braces.
fn formatted(state: &mut State<'_, '_>, format: &str, args: &[Value]) -> Result<(), Error> {
    at_most("a format", "bytes", format.len(), MAX_FORMAT)?;
    let (mut bytes, mut given) = (format.len(), 0_usize);
    for argument in args {
        given = given.saturating_add(weigh(state, argument)?);
    }
    for (at, opener) in format.match_indices(['%', '{']) {
        let spec = format.get(at + 1..).unwrap_or_default();
        let end = match opener {
            "{" => spec.find('}'),
            // The field ends at the first letter after the name of an argument.
            _ if spec.starts_with('(') => spec.find(')').and_then(|end| {
                let letter = spec.get(end..)?.find(|c: char| c.is_alphabetic())?;
                Some(end + letter)
            }),
            _ => spec.find(|c: char| c.is_alphabetic()),
        };
        let spec = end.and_then(|end| spec.get(..end)).unwrap_or(spec);
        for digits in spec.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
            let width = digits.parse().unwrap_or(usize::MAX);
            at_most("a width in a format", "characters", width, MAX_WIDTH)?;
            bytes = bytes.saturating_add(width);
        }
        if spec.contains(['*', '{']) {
            at_most("a width in a format", "characters", largest(args), MAX_WIDTH)?;
            bytes = bytes.saturating_add(MAX_WIDTH);
        }
        bytes = bytes.saturating_add(given);
    }
    at_most("a formatted text", "bytes", bytes, MAX_WEIGHT)
}

/// Returns the largest integer among the arguments, by position or name.
fn largest(args: &[Value]) -> usize {
    let named = |value: &Value| {
        let names = value.try_iter().into_iter().flatten();
        names.filter_map(|name| value.get_item(&name).ok()?.as_usize()).max()
    };
    let numbers = args.iter().filter_map(|value| if value.is_kwargs() { named(value) } else { value.as_usize() });
    numbers.max().unwrap_or(0)
}
