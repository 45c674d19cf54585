//! A pull parser of JSON: it returns one event at a time, and keeps one bit for each level of nesting.

use super::error::{ErrorKind, GrammarError};
use super::scratch::Result;

/// The deepest nesting that is read.
pub(super) const DEPTH: usize = 256;

/// What comes next in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    BeginObject,
    EndObject,
    BeginArray,
    EndArray,
    /// The name of a member, without its quotes: where its bytes begin and end.
    Name(usize, usize),
    /// A string, without its quotes: where its bytes begin and end.
    String(usize, usize),
    /// A number: where its bytes begin and end.
    Number(usize, usize),
    True,
    False,
    Null,
    End,
}

/// What may stand at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// The first element or the end of an array.
    ElementOrEnd,
    /// The first name or the end of an object.
    NameOrEnd,
    /// A comma or the end of the container.
    Comma,
    End,
}

/// Reads one JSON text.
pub(super) struct Pull<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    /// One bit for each level: whether it is an object.
    objects: [u64; DEPTH / 64],
    expect: Expect,
}

impl<'t> Pull<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0, depth: 0, objects: [0; DEPTH / 64], expect: Expect::Value }
    }

    /// Returns where the next byte is.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the next event.
    pub(super) fn next(&mut self) -> Result<Event> {
        self.blanks();
        let expect = self.expect;
        match expect {
            Expect::End if self.peek().is_none() => Ok(Event::End),
            Expect::End => self.wrong("expected the end of the text"),
            Expect::Value => self.value(),
            Expect::ElementOrEnd if self.take(b']') => self.close(Event::EndArray),
            Expect::ElementOrEnd => self.value(),
            Expect::NameOrEnd if self.take(b'}') => self.close(Event::EndObject),
            Expect::NameOrEnd => self.name(),
            Expect::Comma => self.after_element(),
        }
    }

    fn after_element(&mut self) -> Result<Event> {
        let object = self.in_object();
        if self.take(b',') {
            self.blanks();
            return if object { self.name() } else { self.value() };
        }
        match object {
            true if self.take(b'}') => self.close(Event::EndObject),
            false if self.take(b']') => self.close(Event::EndArray),
            true => self.wrong("expected , or }"),
            false => self.wrong("expected , or ]"),
        }
    }

    fn name(&mut self) -> Result<Event> {
        if self.peek() != Some(b'"') {
            return self.wrong("expected a name");
        }
        let (start, end) = self.string()?;
        self.blanks();
        if !self.take(b':') {
            return self.wrong("expected :");
        }
        self.expect = Expect::Value;
        Ok(Event::Name(start, end))
    }

    fn value(&mut self) -> Result<Event> {
        let event = match self.peek() {
            Some(b'{') => return self.open(true),
            Some(b'[') => return self.open(false),
            Some(b'"') => {
                let (start, end) = self.string()?;
                Event::String(start, end)
            }
            Some(b't') => self.word(b"true", Event::True)?,
            Some(b'f') => self.word(b"false", Event::False)?,
            Some(b'n') => self.word(b"null", Event::Null)?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            _ => return self.wrong("expected a value"),
        };
        self.after_value();
        Ok(event)
    }

    fn after_value(&mut self) {
        self.expect = if self.depth == 0 { Expect::End } else { Expect::Comma };
    }

    fn open(&mut self, object: bool) -> Result<Event> {
        let (word, bit) = (self.depth / 64, 1 << (self.depth % 64));
        let Some(bits) = self.objects.get_mut(word) else { return self.wrong("nested too deeply") };
        *bits = if object { *bits | bit } else { *bits & !bit };
        self.depth += 1;
        self.at += 1;
        self.expect = if object { Expect::NameOrEnd } else { Expect::ElementOrEnd };
        Ok(if object { Event::BeginObject } else { Event::BeginArray })
    }

    fn close(&mut self, event: Event) -> Result<Event> {
        self.depth = self.depth.saturating_sub(1);
        self.after_value();
        Ok(event)
    }

    fn in_object(&self) -> bool {
        let level = self.depth.saturating_sub(1);
        self.objects.get(level / 64).is_some_and(|bits| bits & (1 << (level % 64)) != 0)
    }

    fn word(&mut self, word: &[u8], event: Event) -> Result<Event> {
        if self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            self.at += word.len();
            return Ok(event);
        }
        self.wrong("expected a value")
    }

    fn number(&mut self) -> Result<Event> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && self.digits() == 0 {
            return self.wrong("expected a digit");
        }
        if self.take(b'.') && self.digits() == 0 {
            return self.wrong("expected a digit");
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            if self.digits() == 0 {
                return self.wrong("expected a digit");
            }
        }
        Ok(Event::Number(start, self.at))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.at - start
    }

    /// Reads a string and returns where its content is.
    fn string(&mut self) -> Result<(usize, usize)> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek() {
                None => return self.wrong("string without end"),
                Some(b'"') => break,
                Some(0..0x20) => return self.wrong("control character in a string"),
                Some(b'\\') => self.escape()?,
                Some(_) => self.at += 1,
            }
        }
        let end = self.at;
        self.at += 1;
        match core::str::from_utf8(self.text.get(start..end).unwrap_or(&[])) {
            Ok(_) => Ok((start, end)),
            Err(error) => syntax("not UTF-8", start.saturating_add(error.valid_up_to())),
        }
    }

    fn escape(&mut self) -> Result<()> {
        let rest = self.text.get(self.at..).unwrap_or(&[]);
        match rest.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match escaped(rest) {
                Some((_, length)) => self.at += length,
                None => return self.wrong("no code point"),
            },
            _ => return self.wrong("unknown escape"),
        }
        Ok(())
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn wrong<T>(&self, what: &'static str) -> Result<T> {
        syntax(what, self.at)
    }
}

/// Returns a syntax error.
pub(super) fn syntax<T>(what: &'static str, at: usize) -> Result<T> {
    Err(GrammarError { kind: ErrorKind::Syntax(what), at })
}

/// The characters of a string of JSON, given without its quotes.
#[derive(Clone)]
pub(super) struct Chars<'t>(pub(super) &'t [u8]);

impl Iterator for Chars<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let (value, length) = match *self.0.first()? {
            b'\\' => escaped(self.0)?,
            _ => first_char(self.0)?,
        };
        self.0 = self.0.get(length..)?;
        Some(value)
    }
}

/// Returns the first character of valid UTF-8, and the number of its bytes.
pub(super) fn first_char(text: &[u8]) -> Option<(u32, usize)> {
    let lead = *text.first()?;
    let (length, bits) = match lead {
        0..0x80 => return Some((u32::from(lead), 1)),
        0xC2..0xE0 => (2, lead & 0x1F),
        0xE0..0xF0 => (3, lead & 0x0F),
        0xF0..0xF5 => (4, lead & 0x07),
        _ => return None,
    };
    let rest = text.get(1..length)?;
    Some((rest.iter().fold(u32::from(bits), |value, byte| value << 6 | u32::from(byte & 0x3F)), length))
}

/// Returns the character of an escape, which begins with a backslash, and the number of the escape's bytes.
fn escaped(text: &[u8]) -> Option<(u32, usize)> {
    let simple = match *text.get(1)? {
        b'b' => 8,
        b'f' => 12,
        b'n' => 10,
        b'r' => 13,
        b't' => 9,
        b'u' => return unicode(text),
        other => u32::from(other),
    };
    Some((simple, 2))
}

fn unicode(text: &[u8]) -> Option<(u32, usize)> {
    let unit = hex(text.get(2..6)?)?;
    match unit {
        0xD800..0xDC00 => {
            let low = text.get(6..12)?.strip_prefix(b"\\u").and_then(hex)?;
            let low = low.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
            Some((0x1_0000 + ((unit - 0xD800) << 10) + low, 12))
        }
        0xDC00..0xE000 => None,
        _ => Some((unit, 6)),
    }
}

/// Returns the number that hexadecimal digits write.
pub(super) fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0_u32, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}
