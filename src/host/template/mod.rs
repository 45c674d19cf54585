//! Chat templates in Jinja (feature `jinja`), rendered as transformers renders them.

mod amplify;
pub mod bounds;
mod clock;
mod guard;
mod list;
mod literals;
mod methods;
mod nesting;
mod number;
mod python;
mod rewrite;
mod slice;
#[cfg(test)]
mod tests;
mod text;

use std::borrow::ToOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::format;
use std::ops::Range;
use std::string::{String, ToString};
use std::time::SystemTime;
use std::vec::Vec;

use gguf_rs_lite::Gguf;
use minijinja::machinery::{CodeGenerator, Instructions, eval, make_string_output, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};

use self::bounds::{MAX_CALLS, MAX_INSTRUCTIONS, MAX_SOURCE};
use crate::token::{TokenKind, Tokenizer};
use crate::turns::{Message, Role, TurnFormat};

/// The most bytes of the format of a date.
const MAX_DATE: usize = 1024;

/// The name of the only template.
const NAME: &str = "chat";

type Blocks<'s> = BTreeMap<&'s str, Instructions<'s>>;

/// A chat template in Jinja.
///
/// Blocks are trimmed as in transformers. The names that its templates expect exist: `raise_exception`, `strftime_now`
/// (in UTC), `tojson` with the spacing of Python, `break` and `continue`, `generation` blocks, methods of Python's
/// strings, lists and dictionaries. A template comes with a model and is not trusted. It reads only what it is given,
/// and its use of resources is bounded ([`bounds`]): an endless loop is an error, and so is a text that doubles without
/// an end. It cannot include or extend other templates.
///
/// [The guide says when it is needed](crate::guide#chat).
///
/// [Example](crate::host#example).
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
    bos: String,
    eos: String,
}

/// Input of a template besides messages.
///
/// [Example](crate::host#example).
#[derive(Clone, Copy, Debug, Default)]
pub struct RenderOptions<'o> {
    /// Whether to open the model's turn at the end (`add_generation_prompt`).
    pub reply: bool,
    /// More variables, as a JSON object: `tools`, `documents`, `enable_thinking` and others that the template uses. A
    /// list `messages` in it replaces the messages, so that messages can have more than a role and a text.
    pub variables: Option<&'o str>,
    /// Time that the template sees, or `None` for that of the system's clock.
    pub now: Option<SystemTime>,
}

impl ChatTemplate {
    /// Compiles a template. `bos` and `eos` are the names of these tokens, or empty if there is none.
    ///
    /// # Errors
    /// The source is not Jinja, longer than [`bounds::MAX_SOURCE`], or nested deeper than [`bounds::MAX_NESTING`].
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        if source.len() > MAX_SOURCE {
            let message = format!("{} bytes, and at most {MAX_SOURCE} are allowed", source.len());
            return Err(TemplateError { line: None, message });
        }
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
        environment.set_fuel(Some(MAX_INSTRUCTIONS));
        environment.set_recursion_limit(MAX_CALLS);
        environment.set_unknown_method_callback(python::method);
        environment.set_formatter(python::format);
        guard::install(&mut environment);
        environment.add_function("raise_exception", |message: Value| -> Result<Value, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, python::string(&message)?))
        });
        let source = without_generation(&literals::with_line_feeds(source));
        let source = literals::with_known_escapes(&source, environment.syntax().clone());
        nesting::check(&source, environment.syntax().clone())?;
        let template = Self { environment, source, bos: bos.to_owned(), eos: eos.to_owned() };
        template.compiled()?;
        Ok(template)
    }

    /// Returns the instructions of the template and of its blocks, with guards (`guard.rs`).
    fn compiled(&self) -> Result<(Instructions<'_>, Blocks<'_>), TemplateError> {
        let tree = parse(&self.source, NAME, self.environment.syntax().clone())?;
        let mut code = CodeGenerator::new(NAME, &self.source);
        code.compile_stmt(&rewrite::guarded(&tree));
        Ok(code.finish())
    }

    /// Returns the chat template of a file (`tokenizer.chat_template`), if it has one.
    ///
    /// # Errors
    /// The errors of [`ChatTemplate::new`].
    pub fn of(gguf: &Gguf<'_>, tokenizer: &Tokenizer<'_, '_>) -> Result<Option<Self>, TemplateError> {
        let source = gguf.get("tokenizer.chat_template").and_then(|value| value.as_str());
        source.map(|source| Self::for_tokenizer(source, tokenizer)).transpose()
    }

    /// Compiles a template with the vocabulary's names of BOS and EOS.
    ///
    /// # Errors
    /// The errors of [`ChatTemplate::new`].
    pub fn for_tokenizer(source: &str, tokenizer: &Tokenizer<'_, '_>) -> Result<Self, TemplateError> {
        let name =
            |id: Option<u32>| id.and_then(|id| std::str::from_utf8(tokenizer.text(id)?).ok()).unwrap_or_default();
        Self::new(source, name(tokenizer.vocab().bos()), name(tokenizer.vocab().eos()))
    }

    /// Returns the text of a conversation.
    ///
    /// # Errors
    /// The template rejects the messages, fails, or exceeds one of [`bounds`]. The error has the line. It is also an
    /// error if the variables are not a JSON object.
    pub fn render(&self, messages: &[Message<'_>], options: &RenderOptions<'_>) -> Result<String, TemplateError> {
        let messages = messages.iter().map(|message| {
            Value::from_pairs([("role", Value::from(message.role.name())), ("content", Value::from(message.text))])
        });
        let now = options.now.unwrap_or_else(SystemTime::now);
        let strftime_now = Value::from_function(move |format: String| {
            guard::at_most("a format of a date", "bytes", format.len(), MAX_DATE)?;
            Ok::<String, Error>(clock::strftime(&format, now))
        });
        let mut variables: Vec<(String, Value)> = [
            ("bos_token", Value::from(self.bos.as_str())),
            ("eos_token", Value::from(self.eos.as_str())),
            ("tools", Value::from(())),
            ("documents", Value::from(())),
            ("strftime_now", strftime_now),
            ("add_generation_prompt", Value::from(options.reply)),
            ("messages", Value::from(messages.collect::<Vec<Value>>())),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        if let Some(json) = options.variables {
            // Of variables with the same name, the last one counts.
            variables.extend(object(json)?);
        }
        let (instructions, blocks) = self.compiled()?;
        let mut text = String::new();
        let mut output = make_string_output(&mut text);
        let root = Value::from_pairs(variables);
        eval(&self.environment, &instructions, root, &blocks, &mut output, AutoEscape::None)?;
        drop(output);
        Ok(text)
    }

    /// Returns the text of a conversation, and the byte ranges in which messages contain names of control tokens. These
    /// names are ordinary text: [`Tokenizer::encode_framed`] takes the ranges.
    ///
    /// # Errors
    /// The errors of [`ChatTemplate::render`].
    pub fn render_framed(
        &self,
        messages: &[Message<'_>],
        options: &RenderOptions<'_>,
        tokenizer: &Tokenizer<'_, '_>,
    ) -> Result<(String, Vec<Range<usize>>), TemplateError> {
        let ids = (0..tokenizer.vocab().len() as u32).filter(|&id| tokenizer.kind(id) == TokenKind::Control);
        let mut names: Vec<&str> = ids
            .filter_map(|id| std::str::from_utf8(tokenizer.text(id)?).ok())
            .filter(|name| !name.is_empty())
            .collect();
        // Of the names that begin at the same position, the longest one is found.
        names.sort_unstable_by_key(|name| std::cmp::Reverse(name.len()));
        self.render_marked(messages, options, |text| {
            let found = names.iter().filter_map(|name| Some((text.find(name)?, name.len())));
            found.min_by_key(|&(at, _)| at).map(|(at, len)| at..at + len)
        })
    }

    /// Renders as [`ChatTemplate::render_framed`] does. `names` returns the range of the first name in a text.
    fn render_marked(
        &self,
        messages: &[Message<'_>],
        options: &RenderOptions<'_>,
        names: impl Fn(&str) -> Option<Range<usize>>,
    ) -> Result<(String, Vec<Range<usize>>), TemplateError> {
        let texts: Vec<String> = messages.iter().map(|message| marked(message.text, &names)).collect();
        let messages: Vec<Message<'_>> =
            messages.iter().zip(&texts).map(|(message, text)| Message { role: message.role, text }).collect();
        Ok(unmarked(&self.render(&messages, options)?))
    }

    /// Returns whether a turn format writes the same as this template in a conversation of a few turns. If the template
    /// rejects system messages, those of the format are not compared.
    pub fn agrees_with(&self, format: &'static TurnFormat) -> bool {
        let say = |role, text| Message { role, text };
        let system = say(Role::System, "Be brief.");
        let turns = [
            say(Role::User, " 1, 2? "),
            say(Role::Assistant, " 3.\n"),
            say(Role::User, "4?"),
            say(Role::Assistant, "5."),
            say(Role::User, "6?"),
        ];
        let agrees = |messages: &[Message<'_>]| {
            let mut text = String::new();
            let written = format.write(messages, true, (&self.bos, &self.eos), &mut text);
            let rendered = self.render(messages, &RenderOptions { reply: true, ..RenderOptions::default() });
            rendered.map(|rendered| written.is_ok() && rendered == text)
        };
        let (with_system, without) = (agrees(&[&[system][..], &turns].concat()), agrees(&turns));
        without == Ok(true) && with_system.unwrap_or(true)
    }
}

/// Returns the names and values of a JSON object.
fn object(json: &str) -> Result<Vec<(String, Value)>, TemplateError> {
    let fail = |why: &str| TemplateError { line: None, message: "the variables are no JSON object".to_owned() + why };
    let value: Value = serde_json::from_str(json).map_err(|error| fail(&format!(": {error}")))?;
    if value.kind() != ValueKind::Map {
        return Err(fail(""));
    }
    value.try_iter()?.map(|name| Ok((name.to_string(), value.get_item(&name)?))).collect()
}

/// Marks around names of special tokens in messages: characters without a use. They are removed from messages.
const START: char = '\u{f8fe}';
const END: char = '\u{f8ff}';

fn marked(text: &str, names: &impl Fn(&str) -> Option<Range<usize>>) -> String {
    let text = text.replace([START, END], "");
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some((range, name)) = names(rest).and_then(|range| Some((range.clone(), rest.get(range)?))) {
        let (Some(before), Some(after)) = (rest.get(..range.start), rest.get(range.end..)) else { break };
        if name.is_empty() {
            break;
        }
        out.push_str(before);
        out.push(START);
        out.push_str(name);
        out.push(END);
        rest = after;
    }
    out + rest
}

/// Returns the text without marks, and the ranges between them. A mark without its partner, which a template that cuts
/// texts leaves, is removed.
fn unmarked(text: &str) -> (String, Vec<Range<usize>>) {
    let (mut out, mut ranges) = (String::with_capacity(text.len()), Vec::new());
    let mut start = None;
    for c in text.chars() {
        match (c, start) {
            (START, _) => start = Some(out.len()),
            (END, Some(from)) => {
                ranges.push(from..out.len());
                start = None;
            }
            (END, None) => {}
            _ => out.push(c),
        }
    }
    (out, ranges)
}

/// Returns the source with each `generation` block changed to a block that is always written. These blocks mark the
/// text that a model is trained on, and write nothing themselves.
fn without_generation(source: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(source.len()), source);
    while let Some((before, after)) = rest.split_once("{%") {
        let Some((tag, next)) = after.split_once("%}") else { break };
        let word = tag.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
        let tag = match word {
            "generation" => tag.replacen(word, "if true", 1),
            "endgeneration" => tag.replacen(word, "endif", 1),
            _ => tag.to_owned(),
        };
        out.extend([before, "{%", &tag, "%}"]);
        rest = next;
    }
    out + rest
}

/// Why a template was not compiled or rendered.
///
/// [Example](crate::host#example).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    line: Option<usize>,
    message: String,
}

impl TemplateError {
    /// Returns the line of the template that caused the error, from 1.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

impl From<Error> for TemplateError {
    fn from(error: Error) -> Self {
        let message = match error.kind() {
            ErrorKind::OutOfFuel => format!("more than {MAX_INSTRUCTIONS} instructions"),
            _ if error.detail() == Some("recursion limit exceeded") => {
                format!("macros and blocks in one another: more than {MAX_CALLS} deep, and a macro counts as 4")
            }
            kind => error.detail().map_or_else(|| kind.to_string(), ToOwned::to_owned),
        };
        Self { line: error.line(), message }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "chat template, line {line}: {}", self.message),
            None => write!(f, "chat template: {}", self.message),
        }
    }
}

impl core::error::Error for TemplateError {}
