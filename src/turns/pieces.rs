//! The pieces of a conversation.

use super::{Message, Role, Turn, TurnFormat};

/// A piece of a conversation.
///
/// [The guide has an example](crate::guide#chat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'t> {
    /// The token that begins a text, if the vocabulary has one.
    Bos,
    /// The token that ends a text, if the vocabulary has one.
    Eos,
    /// Text of the format. Names of special tokens in it become these tokens.
    Frame(&'t str),
    /// Text of a message. Names of special tokens in it are ordinary text.
    Text(&'t str),
}

impl<'t> Piece<'t> {
    /// Returns the text of the piece. `bos` and `eos` are the names of these tokens.
    pub fn text(self, bos: &'t str, eos: &'t str) -> &'t str {
        match self {
            Self::Bos => bos,
            Self::Eos => eos,
            Self::Frame(text) | Self::Text(text) => text,
        }
    }
}

/// Text of a format, in which [`bos!`] and [`eos!`] stand for these tokens. One text takes less memory in the tables of
/// formats than a list of pieces.
pub(super) type Frame = &'static str;

/// The token that begins a text, in a [`Frame`].
macro_rules! bos {
    () => {
        "\u{1}"
    };
}

/// The token that ends a text, in a [`Frame`].
macro_rules! eos {
    () => {
        "\u{2}"
    };
}

/// Returns the piece of a frame that begins at byte `at`, and the offset of the next piece.
#[inline(never)]
pub(super) fn piece(frame: Frame, at: usize) -> Option<(Piece<'static>, usize)> {
    let rest = frame.get(at..)?;
    let (bos, eos) = (rest.starts_with(bos!()), rest.starts_with(eos!()));
    if bos || eos {
        return Some((if bos { Piece::Bos } else { Piece::Eos }, at.saturating_add(1)));
    }
    let is_mark = |byte: u8| bos!().as_bytes() == [byte] || eos!().as_bytes() == [byte];
    let len = rest.bytes().position(is_mark).unwrap_or(rest.len());
    let text = rest.get(..len).filter(|text| !text.is_empty())?;
    Some((Piece::Frame(text), at.saturating_add(len)))
}

/// The part of a message's text that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trim {
    Nothing,
    /// Leaves out white space at both ends.
    Ends,
    /// Leaves out white space at the end.
    End,
    /// Leaves out white space at the beginning.
    Start,
    /// Leaves out line ends at the beginning.
    Lines,
    /// Leaves out the thought of a model, up to `</think>`.
    Thought,
    /// Leaves out the thought of a model, up to `</think>`, and the line ends after it.
    ThoughtAndLines,
    /// Leaves out the thought of a model, up to `</think>`, and white space at both ends.
    ThoughtAndEnds,
    /// Leaves out the thought of a model, up to `</think>`, and white space at the end.
    ThoughtAndEnd,
    /// Leaves out the thought of a model, up to `</think>`, and white space at both ends of the text after it. A text
    /// without a thought stays as it is.
    ThoughtAndEndsAfter,
    /// Leaves out the text of other channels, up to `<channel|>`, and white space at both ends.
    ChannelAndEnds,
}

impl Trim {
    pub(super) fn apply(self, text: &str) -> &str {
        let after = |end: &str| text.get(find_last(text, end)? + end.len()..);
        let answer = || after(END_OF_THOUGHT);
        match self {
            Self::Nothing => text,
            Self::Ends => text.trim_matches(is_space),
            Self::End => text.trim_end_matches(is_space),
            Self::Start => text.trim_start_matches(is_space),
            Self::Lines => text.trim_start_matches('\n'),
            Self::Thought => answer().unwrap_or(text),
            Self::ThoughtAndLines => answer().map_or(text, |text| text.trim_start_matches('\n')),
            Self::ThoughtAndEnds => Self::Ends.apply(answer().unwrap_or(text)),
            Self::ThoughtAndEnd => Self::End.apply(answer().unwrap_or(text)),
            Self::ThoughtAndEndsAfter => answer().map_or(text, |text| Self::Ends.apply(text)),
            Self::ChannelAndEnds => Self::Ends.apply(after("<channel|>").unwrap_or(text)),
        }
    }
}

/// Returns the offset of the last occurrence of `part`. Unlike the search of the standard library, it contains no code
/// that panics.
pub(super) fn find_last(text: &str, part: &str) -> Option<usize> {
    let is_at = |at: &usize| text.as_bytes().get(*at..).is_some_and(|rest| rest.starts_with(part.as_bytes()));
    (0..text.len()).rev().find(is_at)
}

const END_OF_THOUGHT: &str = "</think>";

/// Returns whether `c` is white space in Python, for which the templates were written.
fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{1c}'..='\u{1f}')
}

/// Writes a conversation, turn by turn. It stores only the state of the conversation.
///
/// [The guide has an example](crate::guide#chat).
#[derive(Clone, Copy, Debug)]
pub struct Turns {
    format: &'static TurnFormat,
    at: At,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Start,
    /// After a system message, in the turn to which the user's message belongs.
    System,
    /// After a turn of the system or the user.
    User,
    /// In a turn that the model writes.
    Reply,
    /// After a turn of the assistant.
    Assistant,
    /// After results of tools. The frame closes their turn.
    Results(Frame),
}

impl Turns {
    /// Returns a writer at the start of a conversation.
    pub fn new(format: &'static TurnFormat) -> Self {
        Self { format, at: At::Start }
    }

    /// Returns a writer in the middle of a conversation: the model has replied, and its turn is still open.
    pub fn after_reply(format: &'static TurnFormat) -> Self {
        Self { format, at: At::Reply }
    }

    /// Returns a writer in the middle of a conversation, after a message of this role.
    pub fn after_message(format: &'static TurnFormat, role: Role) -> Self {
        let at = match role {
            Role::System if format.system.user.is_some() => At::System,
            Role::System | Role::User => At::User,
            Role::Assistant => At::Assistant,
        };
        Self { format, at }
    }

    /// Returns the format.
    pub fn format(&self) -> &'static TurnFormat {
        self.format
    }

    /// Returns the pieces of a message. If a reply of the model is open, they close it first, except for a message of
    /// the assistant, which is the text of that reply.
    pub fn add<'t>(&mut self, message: Message<'t>) -> Pieces<'t> {
        let (format, mut pieces) = (self.format, Pieces::new());
        let is_system = message.role == Role::System;
        let is_left_out = is_system && message.text.is_empty() && format.system.skips_empty;
        let turn = match (self.at, message.role) {
            (At::Reply, Role::Assistant) => Turn { before: "", ..format.assistant },
            (At::System, Role::User) => format.system.user.unwrap_or(format.user),
            (_, role) => {
                self.open(is_system && !is_left_out, &mut pieces);
                format.turn(role)
            }
        };
        *self = Self::after_message(format, message.role);
        if !is_left_out {
            pieces.turn(&turn, message.text);
        }
        pieces
    }

    /// Returns the pieces that open the model's turn. The text that the model then writes, up to the token that ends
    /// the turn, is the message of this turn.
    pub fn reply(&mut self) -> Pieces<'static> {
        self.reply_with(None)
    }

    /// Returns the pieces that open the model's turn, with `frame` in place of the format's.
    pub(super) fn reply_with(&mut self, frame: Option<Frame>) -> Pieces<'static> {
        let mut pieces = Pieces::new();
        if self.at != At::Reply {
            self.open(false, &mut pieces);
            pieces.frame(frame.unwrap_or(self.format.reply));
            self.at = At::Reply;
        }
        pieces
    }

    /// Returns the pieces that a template writes at the end of a conversation that is not to be continued.
    pub fn end(self) -> Pieces<'static> {
        let mut pieces = Pieces::new();
        pieces.frame(self.format.end);
        pieces
    }

    /// Returns the pieces that close an open turn before another one. The caller then sets the state of the
    /// conversation with [`Turns::stands`].
    pub(super) fn close(&self) -> Pieces<'static> {
        let mut pieces = Pieces::new();
        self.open(false, &mut pieces);
        pieces
    }

    pub(super) fn at(&self) -> At {
        self.at
    }

    pub(super) fn stands(&mut self, at: At) {
        self.at = at;
    }

    /// Closes an open turn before another one, or begins the conversation.
    fn open(&self, has_system: bool, pieces: &mut Pieces<'_>) {
        let format = self.format;
        match self.at {
            At::Start => {
                pieces.frame(format.start);
                if let Some(default) = format.system.default.filter(|_| !has_system) {
                    pieces.frame(format.system.turn.before);
                    pieces.frame(default);
                    pieces.frame(format.system.default_after);
                }
            }
            At::System => pieces.frame(format.system.user.map_or("", |user| user.after)),
            At::User => {}
            At::Reply => {
                pieces.frame(format.assistant.after);
                pieces.frame(format.between);
            }
            At::Assistant => pieces.frame(format.between),
            At::Results(close) => pieces.frame(close),
        }
    }
}

/// The pieces of a message, or of the text between two messages.
///
/// [The guide has an example](crate::guide#chat).
#[derive(Clone, Debug)]
pub struct Pieces<'t> {
    parts: [Part<'t>; MOST_PARTS],
    len: usize,
    /// Index of the current part and, in a frame, byte offset of the next piece.
    next: (usize, usize),
}

/// The most parts: the start of a conversation, the system turn and another turn.
const MOST_PARTS: usize = 7;

#[derive(Clone, Copy, Debug)]
enum Part<'t> {
    Frame(Frame),
    Text(&'t str),
}

impl<'t> Pieces<'t> {
    fn new() -> Self {
        Self { parts: [Part::Frame(""); MOST_PARTS], len: 0, next: (0, 0) }
    }

    fn turn(&mut self, turn: &Turn, text: &'t str) {
        self.frame(turn.before);
        self.push(Part::Text(turn.trim.apply(text)));
        self.frame(turn.after);
    }

    fn frame(&mut self, frame: Frame) {
        self.push(Part::Frame(frame));
    }

    fn push(&mut self, part: Part<'t>) {
        if let Some(place) = self.parts.get_mut(self.len) {
            *place = part;
            self.len += 1;
        }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        loop {
            let (part, at) = self.next;
            let found = match *self.parts.get(..self.len)?.get(part)? {
                Part::Text(text) => (at == 0).then_some((Piece::Text(text), 1)),
                Part::Frame(frame) => piece(frame, at),
            };
            match found {
                None => self.next = (part + 1, 0),
                Some((found, next)) => {
                    self.next = (part, next);
                    return Some(found);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_trimmed_as_in_python() {
        let text = "\u{1c}\u{85} a \u{3000}\n";
        assert_eq!(Trim::Nothing.apply(text), text);
        assert_eq!(Trim::Ends.apply(text), "a");
        assert_eq!(Trim::End.apply(text), "\u{1c}\u{85} a");
        assert_eq!((Trim::Start.apply(text), Trim::Lines.apply("\n\n a")), ("a \u{3000}\n", " a"));
        let text = "<think>\nno</think>yes</think>\n\n1\n";
        assert_eq!(Trim::Thought.apply(text), "\n\n1\n");
        assert_eq!(Trim::ThoughtAndLines.apply(text), "1\n");
        assert_eq!(Trim::ThoughtAndLines.apply("\n1"), "\n1");
        assert_eq!((Trim::ThoughtAndEnds.apply(text), Trim::ThoughtAndEnds.apply(" 1\n")), ("1", "1"));
        assert_eq!((Trim::ThoughtAndEnd.apply(text), Trim::ThoughtAndEnd.apply(" 1\n")), ("\n\n1", " 1"));
        assert_eq!((Trim::ThoughtAndEndsAfter.apply(text), Trim::ThoughtAndEndsAfter.apply(" 1\n")), ("1", " 1\n"));
        let text = "<|channel>thought\nno<channel|>\nyes ";
        assert_eq!((Trim::ChannelAndEnds.apply(text), Trim::ChannelAndEnds.apply(" 1\n")), ("yes", "1"));
        assert_eq!(Trim::Ends.apply("  "), "");
    }

    #[test]
    fn nothing_is_left_out_of_the_longest() {
        for format in TurnFormat::ALL {
            let mut turns = Turns::new(format);
            let longest = turns.add(Message { role: Role::Assistant, text: "x" });
            let longest: String = longest.map(|piece| piece.text(bos!(), eos!())).collect();
            assert!(longest.ends_with(format.assistant.after), "{format}");
            // A default message in a turn that the user's message is part of would need more states.
            assert!(format.system.default.is_none() || format.system.user.is_none(), "{format}");
        }
    }
}
