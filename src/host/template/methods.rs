//! Methods of Python's strings, lists and dictionaries that the engine's library lacks or implements differently.

use std::borrow::ToOwned;
use std::format;
use std::vec::Vec;

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::bounds::{MAX_ITEMS, MAX_TEXT};
use super::guard::{at_most, refused, weigh};
use super::slice::place;
use super::text::{self, is_space};

/// Calls a method. `None` if it is not one of these.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    name: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    // A comparison with an item reads everything in the item.
    if let "count" | "index" | "startswith" | "endswith" = name {
        for list in std::iter::once(value).chain(args).filter(|value| value.kind() == ValueKind::Seq) {
            weigh(state, list)?;
        }
    }
    match (value.as_str(), value.kind(), name) {
        (Some(text), ..) => of_text(text, name, args),
        (None, ValueKind::Seq, "index") => Ok(Some(Value::from(index(value, args)?))),
        (None, ValueKind::Seq, "copy") => {
            let [] = given(args, [])?;
            Ok(Some(Value::from(value.try_iter()?.collect::<Vec<_>>())))
        }
        (None, ValueKind::Map, "copy") => {
            let [] = given(args, [])?;
            // Dictionaries cannot be changed, so a copy need not be made.
            Ok(Some(value.clone()))
        }
        _ => Ok(None),
    }
}

/// Returns the arguments with these names, by position or name. An argument that is missing is undefined.
pub(super) fn given<const N: usize>(args: &[Value], names: [&str; N]) -> Result<[Value; N], Error> {
    let (places, named) = match args.split_last() {
        Some((last, before)) if last.is_kwargs() => (before, Some(last)),
        _ => (args, None),
    };
    if places.len() > N {
        return Err(ErrorKind::TooManyArguments.into());
    }
    let mut out = std::array::from_fn(|at| places.get(at).cloned().unwrap_or(Value::UNDEFINED));
    for name in named.map(Value::try_iter).transpose()?.into_iter().flatten() {
        let at = names.iter().position(|&known| name.as_str() == Some(known)).filter(|&at| at >= places.len());
        match (at.and_then(|at| out.get_mut(at)), named) {
            (Some(slot), Some(named)) => *slot = named.get_item(&name)?,
            _ => return Err(Error::new(ErrorKind::TooManyArguments, format!("unexpected argument `{name}`"))),
        }
    }
    Ok(out)
}

fn of_text(text: &str, name: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(Some(match name {
        "title" => {
            let [] = given(args, [])?;
            Value::from(text::title(text))
        }
        "isspace" => {
            let [] = given(args, [])?;
            Value::from(!text.is_empty() && text.chars().all(is_space))
        }
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = given(args, ["chars"])?;
            Value::from(text::stripped(text, &chars, (name != "rstrip", name != "lstrip"))?)
        }
        "split" | "rsplit" => split(text, args, name == "rsplit")?,
        "splitlines" => {
            let [keeps] = given(args, ["keepends"])?;
            let whole = |(line, end): (&str, &str)| Value::from(format!("{line}{end}"));
            match keeps.is_true() {
                true => list(text::lines(text).map(whole))?,
                false => list(text::lines(text).map(|(line, _)| Value::from(line)))?,
            }
        }
        "partition" | "rpartition" => {
            let [separator] = given(args, ["sep"])?;
            parts(text, separator_of(name, &separator)?, name == "rpartition")
        }
        "removeprefix" | "removesuffix" => {
            let [affix] = given(args, ["affix"])?;
            let affix = word(name, &affix)?;
            let rest = if name == "removeprefix" { text.strip_prefix(affix) } else { text.strip_suffix(affix) };
            Value::from(rest.unwrap_or(text))
        }
        "replace" => {
            let [old, new, count] = given(args, ["old", "new", "count"])?;
            Value::from(text::replaced(text, word(name, &old)?, word(name, &new)?, optional(&count)?)?)
        }
        "find" | "rfind" | "index" | "rindex" => {
            let [what, start, end] = given(args, ["sub", "start", "end"])?;
            let what = word(name, &what)?;
            let at = part(text, &start, &end)?.and_then(|(before, part)| {
                let at = if name.starts_with('r') { part.rfind(what)? } else { part.find(what)? };
                Some(before + part.get(..at)?.chars().count())
            });
            match at {
                Some(at) => Value::from(at),
                None if name.ends_with("find") => Value::from(-1),
                None => return Err(refused(format!("{name}(): the text is not there"))),
            }
        }
        "count" => {
            let [what, start, end] = given(args, ["sub", "start", "end"])?;
            let what = word(name, &what)?;
            Value::from(part(text, &start, &end)?.map_or(0, |(_, part)| part.matches(what).count()))
        }
        "startswith" | "endswith" => {
            let [affixes, start, end] = given(args, ["affix", "start", "end"])?;
            Value::from(borders(name, part(text, &start, &end)?, &affixes)?)
        }
        "zfill" | "center" | "ljust" | "rjust" => padded(text, name, args)?,
        _ => return Ok(None),
    }))
}

/// Returns an argument that must be a text.
fn word<'v>(name: &str, value: &'v Value) -> Result<&'v str, Error> {
    value.as_str().ok_or_else(|| refused(format!("{name}() takes a text")))
}

fn separator_of<'v>(name: &str, value: &'v Value) -> Result<&'v str, Error> {
    match word(name, value)? {
        "" => Err(refused(format!("{name}() by an empty text"))),
        separator => Ok(separator),
    }
}

/// Returns an integer that may be left out.
fn optional(value: &Value) -> Result<Option<i64>, Error> {
    if value.is_undefined() { Ok(None) } else { place(value) }
}

/// Returns a list, if it is within its bound.
fn list(items: impl Iterator<Item = Value>) -> Result<Value, Error> {
    let items: Vec<Value> = items.take(MAX_ITEMS + 1).collect();
    at_most("parts of a text", "items", items.len(), MAX_ITEMS)?;
    Ok(Value::from(items))
}

/// Implements `split`, and `rsplit`, which counts from the end.
fn split(text: &str, args: &[Value], is_back: bool) -> Result<Value, Error> {
    let [separator, most] = given(args, ["sep", "maxsplit"])?;
    // A negative number means no limit. More splits than `MAX_ITEMS` are refused anyway.
    let most = optional(&most)?.and_then(|most| usize::try_from(most).ok()).unwrap_or(MAX_ITEMS).min(MAX_ITEMS);
    let mut pieces: Vec<&str> = if separator.is_undefined() || separator.is_none() {
        words(text, most, is_back)
    } else {
        let separator = separator_of("split", &separator)?;
        match is_back {
            true => text.rsplitn(most + 1, separator).collect(),
            false => text.splitn(most + 1, separator).collect(),
        }
    };
    if is_back {
        pieces.reverse();
    }
    list(pieces.into_iter().map(Value::from))
}

/// Returns the words, and after `most` words the rest as one. If `is_back`, they go from the last word to the first.
fn words(text: &str, most: usize, is_back: bool) -> Vec<&str> {
    let trimmed = |text: &'_ str| -> usize {
        match is_back {
            true => text.trim_end_matches(is_space).len(),
            false => text.trim_start_matches(is_space).len(),
        }
    };
    let mut out = Vec::new();
    let mut rest = text;
    loop {
        let len = trimmed(rest);
        rest = if is_back { rest.get(..len) } else { rest.get(rest.len() - len..) }.unwrap_or_default();
        if rest.is_empty() {
            return out;
        }
        if out.len() == most {
            out.push(rest);
            return out;
        }
        let (before, after) = match is_back {
            true => rest.split_at(rest.trim_end_matches(|c| !is_space(c)).len()),
            false => rest.split_at(rest.find(is_space).unwrap_or(rest.len())),
        };
        let (word, left) = if is_back { (after, before) } else { (before, after) };
        out.push(word);
        rest = left;
    }
}

/// Returns the text before a separator, the separator, and the text after it.
fn parts(text: &str, separator: &str, is_last: bool) -> Value {
    let found = if is_last { text.rsplit_once(separator) } else { text.split_once(separator) };
    let parts = match found {
        Some((before, after)) => [before, separator, after],
        None if is_last => ["", "", text],
        None => [text, "", ""],
    };
    Value::from(Tuple::from(parts.map(Value::from)))
}

/// Returns the part of a text between two positions, and the number of characters before it. `None` if it ends before
/// its start.
fn part<'t>(text: &'t str, start: &Value, end: &Value) -> Result<Option<(usize, &'t str)>, Error> {
    let (start, end) = match (optional(start)?, optional(end)?) {
        (None, None) => return Ok(Some((0, text))),
        ends => ends,
    };
    let len = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let (start, end) = (from_end(start.unwrap_or(0), len), from_end(end.unwrap_or(len), len).min(len));
    let byte = |place: i64| {
        let at = text.char_indices().nth(usize::try_from(place).ok()?);
        Some(at.map_or(text.len(), |(at, _)| at))
    };
    if start > end {
        return Ok(None);
    }
    Ok(byte(start).zip(byte(end)).and_then(|(from, to)| Some((usize::try_from(start).ok()?, text.get(from..to)?))))
}

/// Returns a position from the start. A negative one counts from the end.
fn from_end(place: i64, len: i64) -> i64 {
    if place < 0 { place.saturating_add(len).max(0) } else { place }
}

/// Returns whether a part of a text begins or ends with a text, or with one of several texts.
fn borders(name: &str, part: Option<(usize, &str)>, affixes: &Value) -> Result<bool, Error> {
    let Some((_, part)) = part else { return Ok(false) };
    let has = |affix: &Value| {
        let affix = word(name, affix)?;
        Ok(if name == "startswith" { part.starts_with(affix) } else { part.ends_with(affix) })
    };
    if affixes.kind() != ValueKind::Seq {
        return has(affixes);
    }
    for affix in affixes.try_iter()? {
        if has(&affix)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns a text with blanks, zeros or another character added at its ends, up to a width.
fn padded(text: &str, name: &str, args: &[Value]) -> Result<Value, Error> {
    let [width, fill] = given(args, ["width", "fillchar"])?;
    let width = place(&width)?.ok_or_else(|| refused(format!("{name}() takes a width")))?;
    let width = usize::try_from(width).unwrap_or(0);
    let fill = if fill.is_undefined() { " " } else { word(name, &fill)? };
    let fill = if name == "zfill" { "0" } else { fill };
    if fill.chars().count() != 1 {
        return Err(refused(format!("{name}() fills with one character")));
    }
    let missing = width.saturating_sub(text.chars().count());
    let bytes = missing.saturating_mul(fill.len()).saturating_add(text.len());
    at_most("a padded text", "bytes", bytes, MAX_TEXT)?;
    let left = match name {
        "ljust" => 0,
        // An odd number of characters is split as in Python.
        "center" => missing / 2 + (missing & width & 1),
        _ => missing,
    };
    let (sign, digits) = match text.chars().next() {
        Some('+' | '-') if name == "zfill" => text.split_at(1),
        _ => ("", text),
    };
    let (before, after) = (fill.repeat(left), fill.repeat(missing - left));
    Ok(Value::from([sign, &before, digits, &after].concat()))
}

/// Implements `index` of a list.
fn index(value: &Value, args: &[Value]) -> Result<usize, Error> {
    let [what, start, stop] = given(args, ["value", "start", "stop"])?;
    let len = i64::try_from(value.len().unwrap_or(0)).unwrap_or(i64::MAX);
    let end = |place: Option<i64>, default: i64| usize::try_from(from_end(place.unwrap_or(default), len)).unwrap_or(0);
    let (start, stop) = (end(optional(&start)?, 0), end(optional(&stop)?, len));
    let mut places = value.try_iter()?.enumerate().take(stop).skip(start);
    let found = places.find(|(_, item)| *item == what);
    found.map(|(at, _)| at).ok_or_else(|| refused("index(): the value is not in the list".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_python() {
        let text = "  1  2   3  ";
        assert_eq!(words(text, 9, false), ["1", "2", "3"]);
        assert_eq!(words(text, 1, false), ["1", "2   3  "]);
        assert_eq!(words(text, 0, false), ["1  2   3  "]);
        assert_eq!(words(text, 1, true), ["3", "  1  2"]);
        assert_eq!(words("a\u{1c}b\u{a0}", 9, true), ["b", "a"]);
        assert!(words(" \u{1f}", 9, false).is_empty());
    }
}
