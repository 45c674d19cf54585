//! The place of an error in a schema, as a JSON pointer.

use core::fmt::{self, Write};

use super::json::{Chars, Event, Pull};

/// The JSON pointer (RFC 6901) of the innermost value of a text in which a byte lies. A member begins with its name. So
/// the pointer of [`GrammarError::at`](super::GrammarError::at) names the keyword that was refused. The pointer of the
/// whole text is "".
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug)]
pub struct JsonPointer<'t> {
    text: &'t [u8],
    at: usize,
}

/// A step from a value to one of its parts.
enum Step<'t> {
    Name(&'t [u8]),
    Index(usize),
}

impl<'t> JsonPointer<'t> {
    /// Returns the pointer to the value in which byte `at` of a JSON text lies. For a byte behind an error of syntax,
    /// the pointer leads to the error.
    pub fn new(text: &'t [u8], at: usize) -> Self {
        Self { text, at }
    }

    /// Returns the part of the value at `from` in which the byte lies, and where the value of this part begins.
    fn step(&self, from: usize) -> Option<(Step<'t>, usize)> {
        let text = self.text.get(from..)?;
        let at = self.at.checked_sub(from)?;
        let mut pull = Pull::new(text);
        if !matches!(pull.next(), Ok(Event::BeginArray | Event::BeginObject)) {
            return None;
        }
        let (mut depth, mut index, mut name) = (1_usize, 0, None);
        // Where the present part begins, and where its value begins.
        let (mut begin, mut value) = (None, 0);
        loop {
            let event = pull.next();
            let is_end = matches!(event, Ok(Event::EndArray | Event::EndObject));
            if let Ok(Event::Name(start, end)) = event {
                if depth == 1 {
                    (name, begin) = (text.get(start..end), Some(start.saturating_sub(1)));
                    // Its value is not read yet.
                    value = text.len();
                }
                continue;
            }
            if depth == 1 && !is_end && event.is_ok() {
                value = start_of(event, pull.at());
                begin = begin.or(Some(value));
            }
            match event {
                Ok(Event::BeginArray | Event::BeginObject) => depth += 1,
                Ok(Event::EndArray | Event::EndObject) => depth = depth.saturating_sub(1),
                _ => {}
            }
            let is_behind = event.is_err() || depth == 1 && pull.at() > at;
            let first = begin?;
            if depth == 0 || first > at {
                return None;
            }
            if is_behind {
                return Some((name.map_or(Step::Index(index), Step::Name), from.saturating_add(value)));
            }
            if depth == 1 {
                (begin, name, index) = (None, None, index + 1);
            }
        }
    }
}

/// Returns where the value of an event begins, which ends before `end`.
fn start_of(event: super::scratch::Result<Event>, end: usize) -> usize {
    match event {
        Ok(Event::Number(start, _)) => start,
        Ok(Event::String(start, _)) => start.saturating_sub(1),
        Ok(Event::True | Event::Null) => end.saturating_sub(4),
        Ok(Event::False) => end.saturating_sub(5),
        _ => end.saturating_sub(1),
    }
}

impl fmt::Display for JsonPointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut from = 0;
        while let Some((step, value)) = self.step(from) {
            f.write_char('/')?;
            match step {
                Step::Index(index) => write!(f, "{index}")?,
                Step::Name(name) => {
                    for char in Chars(name) {
                        match char::from_u32(char).unwrap_or(char::REPLACEMENT_CHARACTER) {
                            '~' => f.write_str("~0")?,
                            '/' => f.write_str("~1")?,
                            char => f.write_char(char)?,
                        }
                    }
                }
            }
            from = value;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_a_text_has_a_pointer() {
        let text = r#" {"a" : [1, {"b/~":null}, [] ], "\u0063": false,"":{"d":"x"}}"#;
        let at =
            |part: &str, more: usize| JsonPointer::new(text.as_bytes(), text.find(part).unwrap() + more).to_string();
        assert_eq!([at("{", 0), at("\"a\"", 0), at("\"a\"", 3), at("[1", 0)], ["", "/a", "/a", "/a"]);
        assert_eq!([at("1,", 0), at(", {", 1), at("{\"b", 0), at("b/~", 0)], ["/a/0", "/a", "/a/1", "/a/1/b~1~0"]);
        assert_eq!([at("null", 3), at("[] ]", 1), at("\\u00", 2), at("false", 4)], ["/a/1/b~1~0", "/a/2", "/c", "/c"]);
        assert_eq!([at("\"\":", 1), at("\"x", 1), at("\"x", 5)], ["/", "//d", ""]);
        // A text that is no JSON has pointers as far as it goes.
        let broken = br#"{"a":[1,{"b":tru"#;
        assert_eq!(JsonPointer::new(broken, 13).to_string(), "/a/1/b");
        for end in 0..text.len() {
            for at in 0..=text.len() {
                let _any = JsonPointer::new(&text.as_bytes()[..end], at).to_string();
            }
        }
    }
}
