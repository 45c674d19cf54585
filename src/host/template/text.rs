//! Operations on texts for which Python and Jinja have other rules than the engine.

use std::format;
use std::string::String;
use std::vec::Vec;

use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{Error, ErrorKind, State, Value, filters};

use super::bounds::{MAX_ITEMS, MAX_TEXT};
use super::guard::at_most;
use super::methods::given;
use super::python;
use super::slice::place;

/// Returns whether a character is white space in Python, which has four separators more than Unicode.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Returns a text with a capital letter after each character that is not a letter.
pub(super) fn title(text: &str) -> String {
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

/// The filter `indent`. It puts blanks before all lines but the first one and empty ones. `first` and `blank` indent
/// these, too.
pub(super) fn indent(text: &str, args: Rest<Value>, options: Kwargs) -> Result<String, Error> {
    let given = |place: usize, name: &str| match args.get(place) {
        Some(value) => Ok(Some(value.clone())),
        None => options.get::<Option<Value>>(name),
    };
    let (width, first, blank) = (given(0, "width")?, given(1, "first")?, given(2, "blank")?);
    options.assert_all_used()?;
    let is = |value: Option<Value>| value.is_some_and(|value| value.is_true());
    let blanks = match width {
        None => String::from("    "),
        Some(width) => match (width.as_str(), width.as_usize()) {
            (Some(text), _) => String::from(text),
            (None, Some(count)) => " ".repeat(count),
            _ => return Err(Error::new(ErrorKind::InvalidOperation, format!("the width {width} of an indentation"))),
        },
    };
    let (first, blank) = (is(first), is(blank));
    // A line end is added, so that a line end at the end of the text begins an empty line.
    let text = format!("{text}\n");
    let mut out = String::new();
    for (index, line) in lines(&text).map(|(line, _)| line).enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if if index == 0 { first } else { blank || !line.is_empty() } {
            at_most("an indented text", "bytes", out.len().saturating_add(blanks.len()), MAX_TEXT)?;
            out.push_str(&blanks);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// Returns the lines of a text, as `splitlines` cuts it, each with its line end.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_end = |c: char| {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, after) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        let len = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        let (end, left) = after.split_at(len);
        rest = left;
        Some((line, end))
    })
}

/// Returns a text without white space, or the characters of `chars`, at its start, its end, or both.
pub(super) fn stripped<'t>(text: &'t str, chars: &Value, (start, end): (bool, bool)) -> Result<&'t str, Error> {
    let set: Option<Vec<char>> = match chars.as_str() {
        Some(chars) => {
            at_most("a text gone through by characters", "bytes", chars.len(), MAX_ITEMS)?;
            let mut set: Vec<char> = chars.chars().collect();
            set.sort_unstable();
            set.dedup();
            Some(set)
        }
        None if chars.is_undefined() || chars.is_none() => None,
        None => return Err(Error::new(ErrorKind::InvalidOperation, "the characters to strip are a text")),
    };
    let drops = |c: char| set.as_ref().map_or_else(|| is_space(c), |set| set.binary_search(&c).is_ok());
    let text = if start { text.trim_start_matches(drops) } else { text };
    Ok(if end { text.trim_end_matches(drops) } else { text })
}

/// The filter `trim`.
pub(super) fn trim(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let [value, chars] = given(&args.into_values(), ["value", "chars"])?;
    let text = python::string(&value)?;
    let text = String::from(stripped(&text, &chars, (true, true))?);
    Ok(if value.is_safe() { Value::from_safe_string(text) } else { Value::from(text) })
}

/// The filter `replace`.
pub(super) fn replace(args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let args = args.into_values();
    if args.len() < 3 && !args.last().is_some_and(Value::is_kwargs) {
        return Err(ErrorKind::MissingArgument.into());
    }
    let [value, old, new, count] = given(&args, ["s", "old", "new", "count"])?;
    let count = if count.is_undefined() { None } else { place(&count)? };
    let (text, old, new) = (python::string(&value)?, python::string(&old)?, python::string(&new)?);
    Ok(Value::from(replaced(&text, &old, &new, count)?))
}

/// Returns a text in which `new` replaces the first `count` occurrences of `old`, or all of them.
pub(super) fn replaced(text: &str, old: &str, new: &str, count: Option<i64>) -> Result<String, Error> {
    let most = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let found = text.matches(old).take(most).count();
    let bytes =
        text.len().saturating_sub(found.saturating_mul(old.len())).saturating_add(found.saturating_mul(new.len()));
    at_most("a text with replacements", "bytes", bytes, MAX_TEXT)?;
    Ok(if most == usize::MAX { text.replace(old, new) } else { text.replacen(old, new, most) })
}

/// The filter `join`. It is the engine's, with items that are written as Python writes them.
pub(super) fn join(state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let mut args = args.into_values();
    // With `attribute`, the engine reads the items before it writes them.
    let has_attribute = args.len() > 2 || args.last().is_some_and(Value::is_kwargs);
    match args.first_mut() {
        Some(value) if !has_attribute && matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) => {
            *value = Value::from(written(value)?);
        }
        _ => {}
    }
    Value::from_function(filters::join).call(state, &args)
}

/// Returns the items of a list as texts.
fn written(list: &Value) -> Result<Vec<Value>, Error> {
    let mut bytes = 0_usize;
    let mut items = Vec::new();
    for item in list.try_iter()? {
        if item.as_str().is_some() {
            items.push(item);
            continue;
        }
        let text = python::string(&item)?;
        bytes = bytes.saturating_add(text.len());
        at_most("a joined text", "bytes", bytes, MAX_TEXT)?;
        items.push(Value::from(text));
    }
    Ok(items)
}

/// The filter `escape`. It escapes a text for HTML, unless the text is marked as safe.
pub(super) fn escape(value: Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value);
    }
    let text = python::string(&value)?;
    let added: usize = text.chars().map(|c| entity(c).map_or(0, |entity| entity.len() - 1)).sum();
    at_most("an escaped text", "bytes", text.len().saturating_add(added), MAX_TEXT)?;
    Ok(Value::from_safe_string(escaped(&text)))
}

/// Returns `left + right` for two texts, or `None`. If one text is marked as safe, the other one is made safe: it is
/// escaped for HTML.
pub(super) fn sum(left: &Value, right: &Value) -> Option<Value> {
    let texts = (left.as_str()?, right.as_str()?);
    Some(match (left.is_safe(), right.is_safe()) {
        (false, false) => Value::from(format!("{}{}", texts.0, texts.1)),
        (true, true) => Value::from_safe_string(format!("{}{}", texts.0, texts.1)),
        (true, false) => Value::from_safe_string(format!("{}{}", texts.0, escaped(texts.1))),
        (false, true) => Value::from_safe_string(format!("{}{}", escaped(texts.0), texts.1)),
    })
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match entity(c) {
            Some(entity) => out.push_str(entity),
            None => out.push(c),
        }
    }
    out
}

/// Returns the entity of a character in HTML.
fn entity(c: char) -> Option<&'static str> {
    Some(match c {
        '&' => "&amp;",
        '<' => "&lt;",
        '>' => "&gt;",
        '\'' => "&#39;",
        '"' => "&#34;",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_in_python() {
        let cut = |text| lines(text).map(|(line, _)| line).collect::<Vec<_>>();
        assert_eq!(cut("a\r\nb\n\nc\u{2028}d\re"), ["a", "b", "", "c", "d", "e"]);
        assert_eq!(lines("a\r\nb\n").collect::<Vec<_>>(), [("a", "\r\n"), ("b", "\n")]);
        assert!(cut("").is_empty());
    }

    #[test]
    fn what_is_added_to_safe_texts_is_escaped() {
        let (safe, plain) = (Value::from_safe_string("<b>".into()), Value::from("'&<>\""));
        assert_eq!(sum(&safe, &plain).unwrap().as_str(), Some("<b>&#39;&amp;&lt;&gt;&#34;"));
        assert!(sum(&plain, &safe).unwrap().is_safe());
        assert_eq!(sum(&plain, &plain).unwrap().as_str(), Some("'&<>\"'&<>\""));
        assert_eq!(sum(&plain, &Value::from(1)), None);
    }
}
