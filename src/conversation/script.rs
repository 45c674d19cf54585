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
    /// A message. Those of the assistant have the text that the model wrote, with its thoughts and calls in it.
    Message(Message<'t>),
    /// The result of a call.
    Result(ToolResult<'t>),
}

impl Entry<'_> {
    /// Returns whether a turn begins here: with a message of the user.
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
    /// What writes the conversation in place of a format; then nothing below matters.
    pub template: Option<&'t dyn Template>,
    /// The turn format; `None`: all texts follow each other, and the model continues them.
    pub format: Option<&'static TurnFormat>,
    /// How tools are offered, and which ones.
    pub tools: Option<(&'static ToolFormat, Tools<'t>)>,
    /// Whether the model is told to think or not to; `None`: as the format does by itself.
    pub think: Option<bool>,
    /// Whether the conversation begins with BOS, which the format does not write.
    pub bos: bool,
    /// Whether thoughts of earlier turns stay in the context. Otherwise they are left out where the model's template
    /// does so: as soon as the user says something new. What follows them is read again then.
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
        // A template that does so does not hand over the text.
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

/// A template of the host's, which writes a whole conversation at once.
///
/// [Example](crate::conversation#example).
pub trait Template: Debug {
    /// Writes entries, up to where the model begins a reply. `put` takes pieces and, with a [`Piece::Text`] that is all
    /// of the text of an entry but for white space at both ends, the number of this entry, from 0: a reply keeps its
    /// tokens there.
    ///
    /// # Errors
    /// [`ConversationError::Template`], and those of `put`.
    fn write(&self, entries: &mut dyn Iterator<Item = Entry<'_>>, put: &mut Put<'_>) -> Result<(), ConversationError>;
}

/// Takes a piece, and the number of the entry whose text it is.
///
/// [Example](crate::conversation#example).
pub type Put<'p> = dyn FnMut(Piece<'_>, Option<usize>) -> Result<(), ConversationError> + 'p;

/// Writes entries, each after those before.
pub(super) enum Writer<'t> {
    Plain,
    Turns(Turns),
    Tools(ToolTurns<'t>),
}

impl Writer<'_> {
    /// Writes an entry of this index. An assistant's message after [`Writer::reply`] is the reply.
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
