//! The grammars that answers follow. They are compiled in the clients' threads, because a large one would delay the
//! engine.

use gleed::conversation::Script;
use gleed::grammar::{self, Calls, Marks, Options, Source, ToolChoice, Whitespace};
use gleed::host::{OwnedGrammar, OwnedMatcher};
use gleed::tools::ThoughtMarks;
use gleed::turns::{Thinking, ToolFormat, TurnFormat};

use crate::ask::{Ask, Begin, Choice, Offered};

/// How the model's turn format writes thoughts and calls.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    thinking: Option<&'static Thinking>,
    /// How the turn format offers tools; `None` if that is not known.
    pub(crate) tools: Option<&'static ToolFormat>,
    /// Marks of calls and thoughts that are single tokens.
    marks: Marks,
}

impl Rules {
    pub(crate) fn new(script: &Script<'_>, template: Option<&str>) -> Self {
        let format: Option<&TurnFormat> = script.format;
        let thinking = format.and_then(Thinking::of);
        let tools = format.and_then(|format| ToolFormat::of(format, template));
        let thoughts = thinking.map_or(ThoughtMarks::THINK, |thinking| thinking.marks());
        let marks = tools.map(|tools| Marks::of(tools.calls(), Some(thoughts), script.tokenizer));
        Self { thinking, tools, marks: marks.unwrap_or_default() }
    }

    /// Returns whether to tell the model to think. An answer under a schema has no thoughts, so there the model is told
    /// not to.
    pub(crate) fn think(&self, ask: &Ask) -> Option<bool> {
        let thinking = self.thinking.filter(|_| matches!(ask.begin, Begin::Chat(_)));
        thinking.filter(|thinking| ask.schema.is_some() && thinking.can(false)).map(|_| false)
    }

    /// Returns the marks around thoughts, and whether the answer begins inside of a thought.
    pub(crate) fn thoughts(&self, ask: &Ask) -> Option<(ThoughtMarks, bool)> {
        match self.thinking.filter(|_| matches!(ask.begin, Begin::Chat(_))) {
            _ if ask.schema.is_some() => None,
            Some(thinking) => Some((thinking.marks(), thinking.opens_thought(None))),
            None => ask.offered().map(|_| (ThoughtMarks::THINK, false)),
        }
    }

    /// Returns the matcher that the answer has to follow, if there is one.
    pub(crate) fn matcher(&self, ask: &Ask) -> Result<Option<OwnedMatcher>, String> {
        if let Some(schema) = &ask.schema {
            let options = Options { close: true, ..Options::default() };
            let matcher = compile(Source::Schema(schema.as_bytes()), &options);
            return matcher.map(Some).map_err(|error| format!("response_format: {error}"));
        }
        let (Some(offered), Some(tools)) = (ask.offered(), self.tools) else { return Ok(None) };
        let thoughts = self.thoughts(ask);
        let calls = Calls {
            choice: choice(offered),
            parallel: offered.parallel,
            thoughts: thoughts.map(|(marks, _)| marks),
            is_thinking: thoughts.is_some_and(|(_, is_open)| is_open),
            marks: self.marks.as_slice(),
            ..Calls::new(offered.list.as_bytes(), tools.calls())
        };
        let options = Options { whitespace: Whitespace::Spaced, close: ask.has_an_end(), ..Options::default() };
        compile(Source::Tools(calls), &options).map(Some).map_err(|error| format!("tools: {error}"))
    }
}

fn compile(source: Source<'_>, options: &Options<'_>) -> Result<OwnedMatcher, String> {
    let grammar = OwnedGrammar::new(source, options).map_err(|error| error.to_string())?;
    grammar.matcher(grammar::Limits::default()).map_err(|error| error.to_string())
}

fn choice(offered: &Offered) -> ToolChoice<'_> {
    match &offered.choice {
        Choice::Auto => ToolChoice::Auto,
        Choice::Required => ToolChoice::Required,
        Choice::Named(name) => ToolChoice::Named(name),
    }
}
