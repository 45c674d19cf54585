//! Shows a model's reply while it is generated: text, thoughts, calls of tools.

use std::io::{BufRead, IsTerminal, Write, stdout};

use gleed::token::Tokenizer;
use gleed::tools::{Call, CallError, Part, Reader, Tools};
use serde_json::{Value, json};

use super::Result;
use super::random::Random;
use super::text::Stream;
use super::toolbox::{self, Outcome};
use super::turns::{Style, Told};

/// A call that the model has made.
pub struct Asked {
    pub name: String,
    pub id: Option<String>,
    /// Text that shows the call to the user.
    pub shown: String,
    pub outcome: Outcome,
}

impl Asked {
    fn new(call: &Call<'_>, tools: &Tools<'_>) -> Self {
        let shown = format!("{} {}", call.name, call.arguments.text());
        let (name, id) = (call.name.to_owned(), call.id.map(str::to_owned));
        Self { name, id, shown, outcome: toolbox::check(call, tools) }
    }

    fn wrong(error: &CallError) -> Self {
        let (outcome, shown) = (Outcome::Result(format!("error: {error}")), "a call that is none".to_owned());
        Self { name: "unknown".to_owned(), id: None, shown, outcome }
    }

    /// Returns the calls in a whole reply.
    pub fn all(text: &str, style: &Style<'_>) -> Vec<Self> {
        let Some((format, tools)) = style.script.tools else { return Vec::new() };
        let (marks, is_open) = style.thoughts().unzip();
        let mut reader = Reader::new(Some(format.calls()), marks, is_open.unwrap_or(false));
        let mut calls = Vec::new();
        while let Some(part) = reader.next(text, true, Some(&tools)) {
            match part {
                Ok(Part::Call(call)) => calls.push(Self::new(&call, &tools)),
                Ok(_) => {}
                Err(error) => calls.push(Self::wrong(&error)),
            }
        }
        calls
    }

    /// Returns the call as a line of text, and as JSON.
    pub fn told(&self) -> (String, Value) {
        match &self.outcome {
            Outcome::Run(json) => {
                let arguments: Value = serde_json::from_str(json).unwrap_or_default();
                (format!("[{} {json}]", self.name), json!({"name": self.name, "id": self.id, "arguments": arguments}))
            }
            Outcome::Result(error) => {
                (format!("[{} -> {error}]", self.shown), json!({"name": self.name, "id": self.id, "error": error}))
            }
        }
    }

    /// Runs the call, shows it, and returns its result for the model. If this program does not have the tool, the
    /// result is the next line of input.
    pub fn run(self, random: &mut Random, input: &mut impl BufRead) -> Result<Told> {
        let text = match self.outcome {
            Outcome::Result(text) => text,
            Outcome::Run(json) => match toolbox::run(&self.name, &json, random) {
                Some(text) => text,
                None => {
                    writeln!(stdout(), "[{} {json}: its result, in a line?]", self.name)?;
                    let mut line = String::new();
                    input.read_line(&mut line)?;
                    line.trim_end().to_owned()
                }
            },
        };
        writeln!(stdout(), "[{} -> {text}]", self.shown)?;
        Ok((self.name, self.id, text))
    }
}

/// Shows a reply. Thoughts are dim in a terminal, and between `[thinks:` and `]` elsewhere.
pub struct Reply<'s, 't, 'm, 'a> {
    style: &'s Style<'s>,
    stream: Stream<'t, 'm, 'a>,
    /// Text of the reply so far.
    text: String,
    /// Splits the reply into parts; `None` if the model neither thinks nor has tools.
    reader: Option<Reader>,
    is_thinking: bool,
    /// Whether the output ends in the middle of a line.
    is_in_line: bool,
    calls: Vec<Asked>,
}

impl<'s, 't, 'm, 'a> Reply<'s, 't, 'm, 'a> {
    pub fn new(tokenizer: &'t Tokenizer<'m, 'a>, style: &'s Style<'s>) -> Self {
        let calls = style.script.tools.map(|(format, _)| format.calls());
        let marks = style.thoughts();
        let is_read = calls.is_some() || marks.is_some();
        let reader =
            is_read.then(|| Reader::new(calls, marks.map(|(marks, _)| marks), marks.is_some_and(|(_, open)| open)));
        let stream = Stream::rendering(tokenizer, is_read);
        Self { style, stream, text: String::new(), reader, is_thinking: false, is_in_line: false, calls: Vec::new() }
    }

    /// Adds the next token of the reply and shows its text.
    pub fn push(&mut self, token: u32) -> Result<()> {
        let new = self.stream.push(token);
        self.text.push_str(new);
        if self.reader.is_none() {
            stdout().write_all(new.as_bytes())?;
        } else {
            self.read(false)?;
        }
        Ok(stdout().flush()?)
    }

    /// Ends the reply. Returns its text and the calls in it.
    pub fn finish(mut self) -> Result<(String, Vec<Asked>)> {
        let rest = self.stream.finish();
        if self.reader.is_none() {
            write!(stdout(), "{rest}")?;
        } else {
            self.text.push_str(rest);
            self.read(true)?;
            self.thinks(false)?;
            if self.is_in_line && !self.calls.is_empty() {
                writeln!(stdout())?;
            }
        }
        Ok((self.text, self.calls))
    }

    fn read(&mut self, is_whole: bool) -> Result<()> {
        let Some(mut reader) = self.reader else { return Ok(()) };
        let tools = self.style.script.tools.map(|(_, tools)| tools);
        let text = std::mem::take(&mut self.text);
        while let Some(part) = reader.next(&text, is_whole, tools.as_ref()) {
            match part {
                Ok(Part::Text(part)) => self.show(part, false)?,
                Ok(Part::Thought(part)) => self.show(part, true)?,
                Ok(Part::Call(call)) => self.calls.extend(tools.as_ref().map(|tools| Asked::new(&call, tools))),
                // The error goes to the model as a result, so that it can call again.
                Err(error) => self.calls.push(Asked::wrong(&error)),
            }
        }
        (self.text, self.reader) = (text, Some(reader));
        Ok(())
    }

    fn show(&mut self, part: &str, is_thought: bool) -> Result<()> {
        self.thinks(is_thought)?;
        self.is_in_line = !is_thought && !part.ends_with('\n');
        Ok(stdout().write_all(part.as_bytes())?)
    }

    /// Begins or ends a thought.
    fn thinks(&mut self, is_thinking: bool) -> Result<()> {
        let is_terminal = stdout().is_terminal();
        match (self.is_thinking, is_thinking) {
            (false, true) => write!(stdout(), "{}", if is_terminal { "\x1b[2m" } else { "[thinks: " })?,
            (true, false) => writeln!(stdout(), "{}", if is_terminal { "\x1b[0m" } else { "]" })?,
            _ => {}
        }
        self.is_thinking = is_thinking;
        Ok(())
    }
}
