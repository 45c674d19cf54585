//! Reads a text from left to right.

use super::json::{self, Fault};

/// Returns where `part` occurs first from `from` on. Unlike the standard library's search, it has no code that panics.
pub(crate) fn find(text: &str, from: usize, part: &str) -> Option<usize> {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let first = part.first()?;
    let mut at = from;
    loop {
        at = at.checked_add(text.get(at..)?.iter().position(|byte| byte == first)?)?;
        if text.get(at..)?.starts_with(part) {
            return Some(at);
        }
        at += 1;
    }
}

/// A place in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
}

impl<'t> Scan<'t> {
    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn space(&mut self) {
        self.at = json::skip_space(self.text, self.at);
    }

    /// Takes `part` if it comes next. A text that ends inside of it is incomplete.
    pub(super) fn takes(&mut self, part: &str) -> Result<bool, Fault> {
        let rest = self.rest().as_bytes();
        if rest.starts_with(part.as_bytes()) {
            self.at = self.at.saturating_add(part.len());
            Ok(true)
        } else if part.as_bytes().starts_with(rest) {
            Fault::incomplete(self.text.len())
        } else {
            Ok(false)
        }
    }

    /// Takes `part`, which has to come next.
    pub(super) fn expect(&mut self, part: &str) -> Result<(), Fault> {
        if self.takes(part)? { Ok(()) } else { Fault::invalid(self.at) }
    }

    /// Takes the text up to `part` and `part` itself.
    pub(super) fn until(&mut self, part: &str) -> Result<&'t str, Fault> {
        let Some(end) = find(self.text, self.at, part) else { return Fault::incomplete(self.text.len()) };
        let taken = self.text.get(self.at..end).unwrap_or_default();
        self.at = end.saturating_add(part.len());
        Ok(taken)
    }

    /// Takes bytes as long as `is` accepts them.
    pub(super) fn take_while(&mut self, is: impl Fn(u8) -> bool) -> &'t str {
        let start = self.at;
        self.at += self.rest().bytes().take_while(|&byte| is(byte)).count();
        self.text.get(start..self.at).unwrap_or_default()
    }

    /// Takes a name of a tool, which may not be empty.
    pub(super) fn name(&mut self) -> Result<&'t str, Fault> {
        let name = self.take_while(is_name);
        if name.is_empty() && !self.rest().is_empty() {
            return Fault::invalid(self.at);
        }
        if self.rest().is_empty() { Fault::incomplete(self.at) } else { Ok(name) }
    }

    /// Takes a JSON object.
    pub(super) fn object(&mut self) -> Result<&'t str, Fault> {
        self.space();
        let (start, end) = (self.at, json::object_end(self.text, self.at)?);
        self.at = end;
        Ok(self.text.get(start..end).unwrap_or_default())
    }
}

/// Returns whether the name of a called tool may have this byte. The names of tools in a list have only some of these
/// bytes.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/') || byte >= 0x80
}
