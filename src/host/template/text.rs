//! What Python and Jinja do with texts, where the engine does something else.

use std::format;
use std::string::String;
use std::vec::Vec;

use minijinja::value::{Kwargs, Rest};
use minijinja::{Error, ErrorKind, Value};

/// A capital letter after everything that is no letter.
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

/// The filter `indent`: all lines but the first and empty ones begin with blanks; `first` and `blank` indent these,
/// too.
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
    // A line end is added, so that one at the end begins an empty line.
    let text = format!("{text}\n");
    let mut out = String::new();
    for (index, line) in lines(&text).into_iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if if index == 0 { first } else { blank || !line.is_empty() } {
            out.push_str(&blanks);
        }
        out.push_str(line);
    }
    Ok(out)
}

/// The lines of a text, as `splitlines` cuts it.
fn lines(text: &str) -> Vec<&str> {
    let is_end = |c: char| {
        matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(is_end) {
        let (line, end) = rest.split_at(at);
        out.push(line);
        let len = end.chars().next().map_or(0, char::len_utf8);
        let len = if end.starts_with("\r\n") { 2 } else { len };
        rest = end.get(len..).unwrap_or_default();
    }
    if !rest.is_empty() {
        out.push(rest);
    }
    out
}

/// `left + right` of two texts, or `None`. A text that is marked as safe makes the other one safe: it is escaped for
/// HTML.
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
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_as_in_python() {
        assert_eq!(lines("a\r\nb\n\nc\u{2028}d\re"), ["a", "b", "", "c", "d", "e"]);
        assert_eq!(lines("a\n"), ["a"]);
        assert!(lines("").is_empty());
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
