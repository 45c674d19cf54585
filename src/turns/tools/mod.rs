//! Turns that offer tools, call them and report their results.

mod calls;
mod definitions;
mod formats;
mod gemma;
mod list;
mod namespace;
mod python;
mod spaced;
mod tags;
mod typed;

use super::pieces::Frame;
use super::{Message, Piece, Role, Thinking, TurnFormat, Turns, find_last};
use crate::tools::{CallFormat, Tools};
use list::List;

/// How a family of models is offered tools, calls them and receives their results.
///
/// [Example](crate::turns#tools).
#[derive(Debug, PartialEq, Eq)]
pub struct ToolFormat {
    name: &'static str,
    /// Names of the turn formats to which it belongs. `signs` are parts that the template must have, too.
    turns: &'static [&'static str],
    signs: &'static [&'static str],
    /// Parts that the template must not have.
    none: &'static [&'static str],
    calls: CallFormat,
    offer: Offer,
    /// Frames that replace those of the turn format where tools are offered: at the start, before and after a system
    /// message. `default` replaces the system message of a conversation without one.
    start: Option<Frame>,
    before_system: Option<Frame>,
    after_system: Option<Frame>,
    default: Option<&'static str>,
    /// Frame before the list. `after` is the frame after it.
    before: Frame,
    list: List,
    after: Frame,
    /// Frame between text of the assistant and its first call.
    joint: Frame,
    /// Frame before the first call in a turn that has neither a thought nor text.
    lone: Frame,
    /// Whether calls are written without line ends.
    is_tight: bool,
    /// Text before the first call, if it differs from that of other formats with these calls.
    open_calls: Option<&'static str>,
    /// Text after the last call, which follows that of all formats with these calls.
    close_calls: &'static str,
    results: Results,
}

/// The part of a conversation in which tools are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offer {
    /// In the system turn, after the system message, which is between these frames.
    InSystem(Frame, Frame),
    /// In the system turn, before this frame and the system message.
    BeforeText(Frame),
    /// After the system turn.
    AfterSystem,
    /// Before the system turn.
    BeforeSystem,
    /// In the first turn of the user, before its text.
    InUser,
}

/// How results are written. Results that follow each other are one turn.
#[derive(Debug, PartialEq, Eq)]
struct Results {
    /// Frame that closes a call that the model has written, in place of the end of its turn.
    close_call: Option<Frame>,
    open: Frame,
    between: Frame,
    body: Body,
    close: Frame,
    /// Whether the model continues in the turn that has the call.
    is_inside: bool,
    /// Frame that opens this turn again for the model to write.
    again: Frame,
    /// Whether nothing opens the model's turn after results.
    is_unmarked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    /// The text between two frames.
    Plain(Frame, Frame),
    /// The text as a JSON string between two frames.
    Quoted(Frame, Frame),
    /// `{"content": TEXT, "call_id": "ID"}` between two frames.
    WithId(Frame, Frame),
    /// The identifier, the second frame, and the text, between the first and the third frame.
    AfterId(Frame, Frame, Frame),
    /// `functions.NAME to=assistant...` and the text as a JSON string.
    Recipient,
    /// `response:NAME{value:TEXT}` between these marks.
    Gemma(&'static gemma::Marks),
}

/// A call of a tool that the model has made.
///
/// [Example](crate::turns#tools).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolCall<'t> {
    /// The name of the tool.
    pub name: &'t str,
    /// The identifier of the call. If it is missing, formats with identifiers write the call's name and number.
    pub id: Option<&'t str>,
    /// The arguments: a JSON object.
    pub arguments: &'t str,
}

/// The result of a call.
///
/// [Example](crate::turns#tools).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolResult<'t> {
    /// The name of the tool.
    pub name: &'t str,
    /// The identifier of the call.
    pub id: Option<&'t str>,
    /// The text that the tool returned. Names of special tokens in it are ordinary text.
    pub text: &'t str,
}

/// A turn of the assistant.
///
/// [Example](crate::turns#tools).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer<'t> {
    /// The thought of the model, or an empty text to write none. It is written where the model's template writes
    /// thoughts between the calls of one turn.
    pub thought: &'t str,
    /// The text of the model.
    pub text: &'t str,
    /// The calls of the model.
    pub calls: &'t [ToolCall<'t>],
}

/// Writes a conversation with tools, turn by turn.
///
/// The text of a message is appended to the text of the messages before it. A template that leaves out the thoughts of
/// earlier turns would leave out some that were written here, once the user says something new: see
/// [`ToolTurns::drops_thoughts`]. Text is passed on in pieces. An error of `put` ends the message in its middle, and
/// the writer is as if nothing had been written.
///
/// [Example](crate::turns#tools).
#[derive(Clone, Copy, Debug)]
pub struct ToolTurns<'t> {
    turns: Turns,
    format: &'static ToolFormat,
    tools: Tools<'t>,
    /// Whether the tools have been listed.
    is_offered: bool,
    /// Whether results were written last. `calls` is the number of calls so far.
    in_results: bool,
    calls: usize,
}

/// A function that takes pieces, one after the other.
type Put<'p, E> = &'p mut dyn FnMut(Piece<'_>) -> Result<(), E>;

impl ToolFormat {
    /// All formats.
    pub const ALL: &'static [Self] = formats::ALL;

    /// Returns how tools are offered to a model with this turn format, or `None` if this is not known. `template` is
    /// the model's chat template, which distinguishes families that write turns without tools in the same way.
    pub fn of(format: &TurnFormat, template: Option<&str>) -> Option<&'static Self> {
        let has = |sign: &&str| template.is_some_and(|template| find_last(template, sign).is_some());
        Self::ALL.iter().find(|tools| {
            tools.turns.contains(&format.name()) && tools.signs.iter().all(has) && !tools.none.iter().any(has)
        })
    }

    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|format| format.name == name)
    }

    /// Returns the name of the format, in lower case.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the format in which the model calls tools.
    pub fn calls(&self) -> CallFormat {
        self.calls
    }

    /// Returns the names of the tokens that end a reply with calls, in addition to [`TurnFormat::stops`]. Results
    /// follow these tokens.
    pub fn stops(&self) -> &'static [&'static str] {
        match self.results.body {
            Body::Gemma(gemma::Marks { result: [open, _], .. }) => core::slice::from_ref(open),
            _ => &[],
        }
    }
}

impl<'t> ToolTurns<'t> {
    /// Returns a writer at the start of a conversation.
    pub fn new(turns: &'static TurnFormat, format: &'static ToolFormat, tools: Tools<'t>) -> Self {
        let is_offered = tools.is_empty();
        Self { turns: Turns::new(turns), format, tools, is_offered, in_results: false, calls: 0 }
    }

    /// Returns a writer in the middle of a conversation: the tools were offered, the model has replied, and its turn is
    /// still open.
    pub fn after_reply(turns: &'static TurnFormat, format: &'static ToolFormat, tools: Tools<'t>) -> Self {
        Self { turns: Turns::after_reply(turns), is_offered: true, ..Self::new(turns, format, tools) }
    }

    /// Returns whether the model's template leaves out the thoughts of a turn once the user has said something new. The
    /// template's text of such a conversation is then not a continuation of the earlier text. A program that wants
    /// exactly the template's text renders it again without these thoughts. Otherwise they stay in the cache.
    pub fn drops_thoughts(&self) -> bool {
        self.format.calls == CallFormat::Harmony || Thinking::of(self.turns.format()).is_some_and(|how| !how.stays)
    }

    /// Writes a message of the system or the user. The first message lists the tools. An assistant's message is an
    /// [`Answer`] without calls.
    ///
    /// # Errors
    /// The errors of `put`.
    pub fn add<E>(&mut self, message: Message<'_>, mut put: impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut next = *self;
        next.message(message, &mut put)?;
        *self = next;
        Ok(())
    }

    /// Writes a turn of the assistant. If a reply of the model is open, the turn is this reply.
    ///
    /// # Errors
    /// The errors of `put`.
    pub fn answer<E>(&mut self, answer: Answer<'_>, mut put: impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut next = *self;
        next.write_answer(answer, &mut put)?;
        *self = next;
        Ok(())
    }

    /// Writes the result of a call. Results that follow each other belong to one turn. If a reply of the model is open,
    /// they close it first.
    ///
    /// # Errors
    /// The errors of `put`.
    pub fn result<E>(
        &mut self,
        result: ToolResult<'_>,
        mut put: impl FnMut(Piece<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = *self;
        next.write_result(result, &mut put)?;
        *self = next;
        Ok(())
    }

    /// Opens the model's turn. `think` tells the model to think or not to think, if [`Thinking::can`] says that this is
    /// possible.
    ///
    /// # Errors
    /// The errors of `put`.
    pub fn reply<E>(&mut self, think: Option<bool>, mut put: impl FnMut(Piece<'_>) -> Result<(), E>) -> Result<(), E> {
        let mut turns = self.turns;
        let is_inside = self.in_results && self.format.results.is_inside;
        if is_inside {
            list::frame(self.format.results.close, &mut put)?;
            list::frame(self.format.results.again, &mut put)?;
        }
        let thinking = Thinking::of(turns.format()).zip(think).filter(|_| !is_inside);
        let pieces = match thinking {
            _ if self.in_results && self.format.results.is_unmarked => turns.reply_with(Some("")),
            Some((thinking, think)) => turns.reply_thinking(thinking, think),
            None => turns.reply(),
        };
        let mut pieces = pieces;
        pieces.try_for_each(put)?;
        (self.turns, self.in_results) = (turns, false);
        Ok(())
    }

    fn message<E>(&mut self, message: Message<'_>, put: Put<'_, E>) -> Result<(), E> {
        self.close_inside(put)?;
        match (self.is_offered, message.role) {
            (true, _) => self.turns.add(message).try_for_each(put),
            (false, Role::System) => self.offer(Some(message.text), put),
            (false, Role::User) => {
                self.offer_without_system(put)?;
                self.user(message, put)
            }
            (false, Role::Assistant) => {
                self.offer_without_system(put)?;
                self.turns.add(message).try_for_each(put)
            }
        }
    }
}
