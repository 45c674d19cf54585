//! The source of a grammar that says which calls of tools a model may write.

use crate::token::{TokenKind, Tokenizer};
use crate::tools::{CallFormat, ThoughtMarks};

/// Calls of tools, and the text around them. The texts of the grammar are whole replies.
///
/// [Example](crate::grammar#calls-of-tools).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calls<'t> {
    /// The list of tools in JSON, as [`Tools::new`](crate::tools::Tools::new) reads it.
    pub tools: &'t [u8],
    /// How calls are written.
    pub format: CallFormat,
    /// Whether there has to be a call, and of which tool.
    pub choice: ToolChoice<'t>,
    /// Whether several calls may be written. If not, the text ends behind the first one.
    pub parallel: bool,
    /// The marks around thoughts, in which nothing is a call. `None`: the text has no thoughts.
    pub thoughts: Option<ThoughtMarks>,
    /// Whether the prompt has opened a thought.
    pub is_thinking: bool,
    /// Marks of the format that are tokens without bytes: [`Marks::of`] finds them. All other marks are written as
    /// text.
    pub marks: &'t [Mark],
}

impl<'t> Calls<'t> {
    /// Returns calls of which a model may write any number or none. All marks are text, and there are no thoughts.
    pub fn new(tools: &'t [u8], format: CallFormat) -> Self {
        Self { tools, format, choice: ToolChoice::Auto, parallel: true, thoughts: None, is_thinking: false, marks: &[] }
    }

    /// Returns the name of the tool in whose element of the list a byte lies, such as that of
    /// [`GrammarError::at`](super::GrammarError::at).
    pub fn tool_at(&self, at: usize) -> Option<&'t str> {
        let list = core::str::from_utf8(self.tools).ok()?;
        let tools = crate::tools::Tools::new(list).ok()?;
        tools.iter().zip(tools.starts()).take_while(|(_, start)| *start <= at).last().map(|(tool, _)| tool.name())
    }
}

/// Whether a model has to call a tool.
///
/// [Example](crate::grammar#calls-of-tools).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice<'t> {
    /// The model may call tools. All text is free up to the mark that begins a call.
    #[default]
    Auto,
    /// The model has to call a tool. Before the call it writes nothing but its thoughts.
    Required,
    /// The model has to call the tool with this name.
    Named(&'t str),
}

/// A mark that is one token without bytes.
///
/// [Example](crate::grammar#calls-of-tools).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The name of the token.
    pub text: &'static str,
    /// The id of the token.
    pub token: u32,
}

/// The most marks of a format.
const MOST: usize = 16;

/// The marks of a format that a vocabulary has as control tokens.
///
/// [Example](crate::grammar#calls-of-tools).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    list: [Mark; MOST],
    count: usize,
}

impl Marks {
    /// Finds those marks of a format and of thoughts that are control tokens.
    pub fn of(format: CallFormat, thoughts: Option<ThoughtMarks>, tokenizer: &Tokenizer<'_, '_>) -> Self {
        let mut marks = Self::default();
        let around = thoughts.into_iter().flat_map(|thoughts| [thoughts.open, thoughts.close]);
        for text in format.marks().chain(around) {
            // The mark of a thought may end with a word that is no part of the token.
            let names = [text, text.strip_suffix("thought").unwrap_or(text)];
            let found = names.iter().find_map(|name| Some((*name, tokenizer.find(name.as_bytes())?)));
            if let Some((text, token)) = found.filter(|(_, token)| is_silent(tokenizer, *token)) {
                marks.add(Mark { text, token });
            }
        }
        marks
    }

    /// Returns the marks, for [`Calls::marks`].
    pub fn as_slice(&self) -> &[Mark] {
        self.list.get(..self.count).unwrap_or_default()
    }

    fn add(&mut self, mark: Mark) {
        if self.as_slice().contains(&mark) {
            return;
        }
        if let Some(place) = self.list.get_mut(self.count) {
            *place = mark;
            self.count += 1;
        }
    }
}

/// Returns whether a token is no text.
fn is_silent(tokenizer: &Tokenizer<'_, '_>, token: u32) -> bool {
    matches!(tokenizer.kind(token), TokenKind::Control | TokenKind::Unknown | TokenKind::Unused)
}
