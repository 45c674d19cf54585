//! Takes apart what a model has written: its text, its thoughts, its calls.

use core::ops::Range;

use super::arguments::Arguments;
use super::call::{self, Found, Style};
use super::error::{CallError, CallErrorKind};
use super::format::{CallFormat, ThoughtMarks};
use super::json::{self, Token};
use super::list::Tools;
use super::scan::Scan;

/// A part of what a model has written.
///
/// [Example](crate::tools#example).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'t> {
    /// Text that is neither a thought nor a call.
    Text(&'t str),
    /// A thought of the model.
    Thought(&'t str),
    /// A call of a tool.
    Call(Call<'t>),
}

/// A call of a tool in a model's text.
///
/// [Example](crate::tools#example).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'t> {
    /// The name of the tool.
    pub name: &'t str,
    /// The identifier that the model gave the call, where the format has one.
    pub id: Option<&'t str>,
    /// The arguments.
    pub arguments: Arguments<'t>,
    /// Range of the bytes of the call in the text.
    pub range: Range<usize>,
}

/// Reads what a model has written, from left to right, while the model writes it or afterwards.
///
/// White space after a thought and after a call belongs to neither and is left out. So are the marks that a format
/// writes around calls. Nothing in a thought is a call.
///
/// [Example](crate::tools#example).
#[derive(Clone, Copy, Debug)]
pub struct Reader {
    calls: Option<CallFormat>,
    marks: Option<ThoughtMarks>,
    place: Place,
    at: usize,
    /// Whether white space is left out until something else comes.
    trims: bool,
    /// Whether a call without a mark may begin here.
    is_bare: bool,
    /// Whether a `;` that comes next separates two calls without marks.
    separates: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Text,
    Thought,
    /// In a list of calls, after one of them.
    List,
    /// In the header of a message of harmony.
    Header,
    /// In a call with an error.
    Lost,
}

/// A mark in the text.
#[derive(Clone, Copy)]
enum Mark {
    Thought,
    Call,
    /// A mark that belongs to no part.
    Nothing,
    /// A message of harmony ends.
    End,
}

impl Reader {
    /// Returns a reader at the beginning of a reply. `calls` is the format of calls: without it there are no calls.
    /// `marks` are the marks around thoughts: without them there are no thoughts. `is_thinking` says that the prompt
    /// has opened a thought.
    pub fn new(calls: Option<CallFormat>, marks: Option<ThoughtMarks>, is_thinking: bool) -> Self {
        let place = match (calls, marks) {
            (Some(CallFormat::Harmony), _) => Place::Header,
            (_, Some(_)) if is_thinking => Place::Thought,
            _ => Place::Text,
        };
        Self { calls, marks, place, at: 0, trims: false, is_bare: true, separates: false }
    }

    /// Returns how many bytes of the text have been read. The text after them may be an incomplete part.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the next part of a text, or `None` if there is none yet. `text` is all that the model has written so
    /// far, with the names of its control tokens, but without the token that ends its turn. Between two calls of this
    /// method it may become longer. `is_whole` says that it will not. Until then text and thoughts come in pieces, and
    /// a call of a tool comes when it is complete. While the text ends inside a call of a tool, this method reads that
    /// call again from its beginning each time.
    ///
    /// With `tools`, the names of calls are looked up there. Arguments are not checked: [`super::Tool::check`] does
    /// that.
    ///
    /// # Errors
    /// The text at this place is no call that can be carried out. The reader goes on at the next mark behind the error.
    pub fn next<'t>(
        &mut self,
        text: &'t str,
        is_whole: bool,
        tools: Option<&Tools<'_>>,
    ) -> Option<Result<Part<'t>, CallError<'t>>> {
        loop {
            let before = *self;
            let found = match self.place {
                Place::Text => self.text(text, is_whole),
                Place::Thought => self.thought(text, is_whole).map(Ok),
                Place::List => self.list(text),
                Place::Header => self.header(text, is_whole),
                Place::Lost => self.lost(text, is_whole),
            };
            match found {
                Some(Ok(Part::Call(call))) if tools.is_some_and(|tools| tools.find(call.name).is_none()) => {
                    return Some(Err(CallError::new(CallErrorKind::UnknownTool(call.name), call.range.start)));
                }
                Some(Err(error)) if error.kind == CallErrorKind::Incomplete && !is_whole => {
                    *self = before;
                    return None;
                }
                Some(Err(error)) => {
                    (self.at, self.place, self.is_bare) = (error.at, Place::Lost, false);
                    return Some(Err(error));
                }
                Some(part) => return Some(part),
                None if (self.at, self.place) == (before.at, before.place) => return None,
                None => {}
            }
        }
    }

    /// Returns the text up to the next mark, or the part that the mark begins. `None` without a step forward: there is
    /// no part yet.
    fn text<'t>(&mut self, text: &'t str, is_whole: bool) -> Option<Result<Part<'t>, CallError<'t>>> {
        if self.trims {
            let rest = text.get(self.at..)?;
            self.at += rest.len() - rest.trim_ascii_start().len();
            self.trims = self.at >= text.len();
        }
        let rest = text.get(self.at..).filter(|rest| !rest.is_empty())?;
        if core::mem::take(&mut self.separates) && rest.starts_with(';') {
            (self.at, self.trims) = (self.at.saturating_add(1), true);
            return None;
        }
        if self.is_bare && self.calls == Some(CallFormat::Llama3) {
            match rest.trim_ascii_start() {
                // A call may follow. White space before one is left out.
                "" if !is_whole => return None,
                start if start.starts_with('{') => match self.bare(text, is_whole) {
                    Some(found) => return Some(found),
                    None => self.is_bare = false,
                },
                _ => {}
            }
        }
        match self.next_mark(text, is_whole) {
            (at, Some((mark, len))) if at == self.at => {
                self.at = at.saturating_add(len);
                self.enter(mark, at, text)
            }
            (at, _) => {
                let part = text.get(self.at..at).filter(|part| !part.is_empty())?;
                self.is_bare &= part.trim_ascii().is_empty();
                self.at = at;
                Some(Ok(Part::Text(part)))
            }
        }
    }

    /// Returns where the next mark begins, the mark, and its length. Without a mark it returns where the text ends that
    /// can be no part of one.
    fn next_mark(&self, text: &str, is_whole: bool) -> (usize, Option<(Mark, usize)>) {
        let bytes = text.as_bytes();
        let thought = self.marks.map(|marks| (Mark::Thought, marks.open));
        let own = self.calls.map_or(&[][..], CallFormat::opens).iter().map(|open| (Mark::Call, *open));
        let ends = self.calls.map_or(&[][..], CallFormat::message_ends).iter().map(|end| (Mark::End, *end));
        let idle = self.calls.map_or(&[][..], CallFormat::fillers).iter().copied();
        let idle = idle.chain(self.calls.and_then(CallFormat::close)).map(|mark| (Mark::Nothing, mark));
        let marks = thought.into_iter().chain(own).chain(ends).chain(idle);
        for (at, _) in bytes.iter().enumerate().skip(self.at) {
            let rest = bytes.get(at..).unwrap_or_default();
            for (mark, name) in marks.clone() {
                if rest.starts_with(name.as_bytes()) {
                    return (at, Some((mark, name.len())));
                }
                if !is_whole && name.as_bytes().starts_with(rest) {
                    return (at, None);
                }
            }
        }
        (bytes.len(), None)
    }

    /// Goes on behind a mark that began at `start`.
    fn enter<'t>(&mut self, mark: Mark, start: usize, text: &'t str) -> Option<Result<Part<'t>, CallError<'t>>> {
        match (mark, self.calls.and_then(CallFormat::style)) {
            (Mark::Call, Some(style)) => self.read(start, text, |scan| style.first(scan)),
            (Mark::Thought, _) => {
                self.place = Place::Thought;
                None
            }
            (Mark::End, _) => {
                (self.place, self.trims) = (Place::Header, false);
                None
            }
            _ => {
                self.trims = true;
                None
            }
        }
    }

    fn list<'t>(&mut self, text: &'t str) -> Option<Result<Part<'t>, CallError<'t>>> {
        let style = self.calls.and_then(CallFormat::style)?;
        self.read(self.at, text, |scan| Style::listed(style, scan))
    }

    /// Reads a call that began at `start`. The reader's place is behind the mark that begins the call.
    fn read<'t>(
        &mut self,
        start: usize,
        text: &'t str,
        read: impl Fn(&mut Scan<'t>) -> Result<Option<Found<'t>>, CallError<'t>>,
    ) -> Option<Result<Part<'t>, CallError<'t>>> {
        let mut scan = Scan { text, at: self.at };
        let found = match read(&mut scan) {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        (self.at, self.trims, self.is_bare) = (scan.at, true, true);
        self.place = if found.is_some_and(|found| found.is_listed) { Place::List } else { Place::Text };
        let Found { name, id, arguments, .. } = found?;
        Some(Ok(Part::Call(Call { name, id, arguments, range: start..scan.at })))
    }

    /// Reads a call without a mark, as Llama 3 writes it. `None`: there is no such call. A call that is not complete
    /// yet is an error.
    fn bare<'t>(&mut self, text: &'t str, is_whole: bool) -> Option<Result<Part<'t>, CallError<'t>>> {
        let mut scan = Scan { text, at: self.at };
        scan.space();
        let start = scan.at;
        // A text may begin with JSON that is no call.
        if !begins_call(text, start, is_whole) {
            return None;
        }
        match call::object(&mut scan) {
            Ok(found) => {
                (self.at, self.trims, self.separates) = (scan.at, true, true);
                let Found { name, id, arguments, .. } = found;
                Some(Ok(Part::Call(Call { name, id, arguments, range: start..scan.at })))
            }
            Err(error) if error.kind == CallErrorKind::Incomplete => Some(Err(error)),
            Err(_) => None,
        }
    }

    fn thought<'t>(&mut self, text: &'t str, is_whole: bool) -> Option<Part<'t>> {
        let close = match self.calls {
            Some(CallFormat::Harmony) => "<|end|>",
            _ => self.marks?.close,
        };
        let bytes = text.as_bytes();
        let is_mark = |at: &usize| {
            let rest = bytes.get(*at..).unwrap_or_default();
            rest.starts_with(close.as_bytes()) || !is_whole && close.as_bytes().starts_with(rest)
        };
        let end = (self.at..bytes.len()).find(is_mark).unwrap_or(bytes.len());
        let part = text.get(self.at..end)?;
        self.at = end;
        if bytes.get(end..)?.starts_with(close.as_bytes()) {
            self.at = end.saturating_add(close.len());
            let is_harmony = self.calls == Some(CallFormat::Harmony);
            (self.place, self.trims) = (if is_harmony { Place::Header } else { Place::Text }, true);
        }
        (!part.is_empty()).then_some(Part::Thought(part))
    }

    fn header<'t>(&mut self, text: &'t str, is_whole: bool) -> Option<Result<Part<'t>, CallError<'t>>> {
        let mut scan = Scan { text, at: self.at };
        let start = self.at;
        if scan.rest().is_empty() {
            return None;
        }
        let Ok(header) = call::header(&mut scan) else {
            if is_whole {
                // There is no header: the model was not told its format, or its text was cut.
                self.place = Place::Text;
            }
            return None;
        };
        self.at = scan.at;
        match header.recipient {
            Some(name) => {
                let found = self.read(start, text, |scan| call::harmony(name, scan).map(Some));
                if matches!(found, Some(Ok(_))) {
                    self.trims = true;
                }
                found
            }
            None => {
                self.place = if header.is_thought { Place::Thought } else { Place::Text };
                None
            }
        }
    }

    /// Goes on after a call with an error: at the next mark, or at the end of the text.
    fn lost<'t>(&mut self, text: &str, is_whole: bool) -> Option<Result<Part<'t>, CallError<'t>>> {
        (self.at, self.place, self.trims) = match self.next_mark(text, is_whole) {
            (at, Some((Mark::Thought, len))) => (at.saturating_add(len), Place::Thought, false),
            (at, Some(_)) => (at, Place::Text, true),
            // The rest of the text may be the beginning of a mark.
            (at, None) => (at, if is_whole { Place::Text } else { Place::Lost }, true),
        };
        None
    }
}

/// Returns whether the object at `start` is a call: one of its first two members is `name`. If the text ends before
/// that is known, the object counts as a call unless the text is whole.
fn begins_call(text: &str, start: usize, is_whole: bool) -> bool {
    let unknown = !is_whole;
    let mut at = start + 1;
    for _ in 0..2 {
        let Ok((token, first, end)) = json::token(text, at) else {
            return unknown && json::token(text, at).is_err_and(|fault| fault.kind == json::FaultKind::Incomplete);
        };
        if token != Token::Text {
            return false;
        }
        if text.get(first..end).and_then(json::string).is_some_and(|name| json::is_same(name, "name")) {
            return true;
        }
        let after = json::token(text, end).and_then(|(_, _, colon)| json::value_end(text, colon));
        let comma = after.and_then(|end| json::token(text, end));
        match comma {
            Ok((Token::Comma, _, end)) => at = end,
            Ok(_) => return false,
            Err(fault) => return unknown && fault.kind == json::FaultKind::Incomplete,
        }
    }
    false
}
