//! How a conversation is written for a model, and what it consists of.

use core::fmt::Debug;

use gguf_rs_lite::Gguf;

use super::ConversationError;
use crate::token::Tokenizer;
use crate::tools::Tools;
use crate::turns::{Message, Piece, Role, Thinking, ToolFormat, ToolResult, ToolTurns, TurnFormat, Turns};

/// An entry of a conversation.
///
/// [Example](crate::conversation#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'t> {
    /// A message. One of the assistant has the text that the model wrote, with its thoughts and calls in it.
    Message(Message<'t>),
    /// The result of a tool's call.
    Result(ToolResult<'t>),
}

impl Entry<'_> {
    /// Returns whether a turn begins with this entry: whether it is a message of the user.
    pub(super) fn begins_turn(&self) -> bool {
        self.role() == Some(Role::User)
    }

    pub(super) fn role(&self) -> Option<Role> {
        match self {
            Self::Message(message) => Some(message.role),
            Self::Result(_) => None,
        }
    }
}

/// How a conversation is written.
///
/// [Example](crate::conversation#example).
#[derive(Clone, Copy, Debug)]
pub struct Script<'t> {
    /// The tokenizer of the model.
    pub tokenizer: &'t Tokenizer<'t, 't>,
    /// Template that writes the conversation in place of a format. The fields below then have no effect.
    pub template: Option<&'t dyn Template>,
    /// Turn format of the model. Without one, all texts follow each other, and the model continues them.
    pub format: Option<&'static TurnFormat>,
    /// How tools are offered, and which ones.
    pub tools: Option<(&'static ToolFormat, Tools<'t>)>,
    /// Whether the model is told to think or not to. With `None` the format decides.
    pub think: Option<bool>,
    /// Whether the conversation begins with BOS, which the format does not write.
    pub bos: bool,
    /// Whether thoughts of earlier turns stay in the context. Otherwise they are left out as soon as the user says
    /// something new, if the model's template does so. The tokens behind them are then read again.
    pub keeps_thoughts: bool,
}

impl<'t> Script<'t> {
    /// Returns the script of a model's file: its turn format, or none.
    pub fn of(gguf: &Gguf<'_>, tokenizer: &'t Tokenizer<'t, 't>) -> Self {
        Self::new(TurnFormat::of(gguf, tokenizer), tokenizer)
    }

    /// Returns the script of a turn format, with BOS in front where the vocabulary adds it and the format does not
    /// write it.
    pub fn new(format: Option<&'static TurnFormat>, tokenizer: &'t Tokenizer<'t, 't>) -> Self {
        let writes_bos = format.is_some_and(|format| format.writes_bos());
        let bos = tokenizer.vocab().adds_bos() && !writes_bos;
        Self { tokenizer, template: None, format, tools: None, think: None, bos, keeps_thoughts: false }
    }

    /// Returns whether the template leaves something out of the text of an earlier turn.
    pub(super) fn shortens(&self, text: &str) -> bool {
        // A host's template that leaves out thoughts does not hand over the text.
        !self.keeps_thoughts && self.template.is_none() && self.format.is_some_and(|format| format.drops_thought(text))
    }

    /// Returns a writer at the start of a conversation.
    pub(super) fn writer(&self) -> Writer<'_> {
        match (self.format, self.tools) {
            (None, _) => Writer::Plain,
            (Some(format), None) => Writer::Turns(Turns::new(format)),
            (Some(format), Some((tools, list))) => Writer::Tools(ToolTurns::new(format, tools, list)),
        }
    }
}

/// A template of the host, which writes a whole conversation at once.
///
/// [Example](crate::conversation#example).
pub trait Template: Debug {
    /// Writes entries, up to the point where the model begins a reply. `put` takes pieces. With a [`Piece::Text`] that
    /// is the whole text of an entry, except for white space at both ends, it also takes the number of this entry, from
    /// 0. There a reply keeps its tokens.
    ///
    /// # Errors
    /// [`ConversationError::Template`], and the errors of `put`.
    fn write(&self, entries: &mut dyn Iterator<Item = Entry<'_>>, put: &mut Put<'_>) -> Result<(), ConversationError>;
}

/// Callback that takes a piece, and the number of the entry whose text it is.
///
/// [Example](crate::conversation#example).
pub type Put<'p> = dyn FnMut(Piece<'_>, Option<usize>) -> Result<(), ConversationError> + 'p;

/// Writer of entries, one after the other.
pub(super) enum Writer<'t> {
    Plain,
    Turns(Turns),
    Tools(ToolTurns<'t>),
}

impl Writer<'_> {
    /// Writes the entry with this index. A message of the assistant after [`Writer::reply`] is the reply.
    pub(super) fn add(
        &mut self,
        index: usize,
        entry: &Entry<'_>,
        put: &mut dyn FnMut(Piece<'_>) -> Result<(), ConversationError>,
    ) -> Result<(), ConversationError> {
        match (self, entry) {
            (Self::Plain, Entry::Message(message)) => put(Piece::Text(message.text)),
            (Self::Turns(turns), Entry::Message(message)) => turns.add(*message).try_for_each(put),
            (Self::Tools(turns), Entry::Message(message)) => turns.add(*message, put),
            (Self::Tools(turns), Entry::Result(result)) => turns.result(*result, put),
            (_, Entry::Result(_)) => Err(ConversationError::NoTools { entry: index }),
        }
    }

    /// Opens the model's turn.
    pub(super) fn reply(
        &mut self,
        think: Option<bool>,
        put: &mut dyn FnMut(Piece<'_>) -> Result<(), ConversationError>,
    ) -> Result<(), ConversationError> {
        match self {
            Self::Plain => Ok(()),
            Self::Turns(turns) => match Thinking::of(turns.format()).zip(think) {
                Some((thinking, think)) => turns.reply_thinking(thinking, think).try_for_each(put),
                None => turns.reply().try_for_each(put),
            },
            Self::Tools(turns) => turns.reply(think, put),
        }
    }
}
