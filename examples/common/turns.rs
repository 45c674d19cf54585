//! Writes conversations in the turn format of a model.

use std::cell::RefCell;
use std::error::Error;
use std::ops::Range;
use std::path::Path;

use gguf_rs_lite::Gguf;
use gleed::conversation::{ConversationError, Entry, Script};
use gleed::conversation::{Put, Template};
use gleed::host::{ChatTemplate, RenderOptions, TemplateError};
use gleed::token::Tokenizer;
use gleed::tools::{ThoughtMarks, Tools};
use gleed::turns::{Message, Piece, Role, Thinking, ToolFormat, ToolResult, ToolTurns, TurnFormat, TurnText, Turns};

use super::{Result, text};

/// The turn format or template that writes conversations.
pub struct Style<'t> {
    pub script: Script<'t>,
    /// Source of the template from which the format was recognised.
    source: Option<String>,
    jinja: Option<&'t Jinja<'t>>,
}

/// Result of a call: name of the tool, id of the call, and the text.
pub type Told = (String, Option<String>, String);

/// An entry of a conversation.
#[derive(Clone)]
pub enum Said {
    Message(Role, String),
    Result(Told),
}

impl Said {
    pub fn of(entry: Entry<'_>) -> Self {
        match entry {
            Entry::Message(Message { role, text }) => Self::Message(role, text.to_owned()),
            Entry::Result(ToolResult { name, id, text }) => {
                Self::Result((name.to_owned(), id.map(str::to_owned), text.to_owned()))
            }
        }
    }

    pub fn entry(&self) -> Entry<'_> {
        match self {
            Self::Message(role, text) => Entry::Message(Message { role: *role, text }),
            Self::Result((name, id, text)) => Entry::Result(ToolResult { name, id: id.as_deref(), text }),
        }
    }

    pub fn is_of_user(&self) -> bool {
        matches!(self, Self::Message(Role::User, _))
    }

    pub fn text(&self) -> &str {
        let (Self::Message(_, text) | Self::Result((_, _, text))) = self;
        text
    }
}

impl<'t> Style<'t> {
    /// Returns the style with this name or from this file, or else the style of the model's file. `jinja`: the template
    /// itself writes, even if its format is known.
    pub fn choose(
        gguf: &Gguf<'_>,
        tokenizer: &'t Tokenizer<'t, 't>,
        chosen: Option<&str>,
        jinja: bool,
    ) -> Result<Self> {
        match chosen {
            None => match gguf.get("tokenizer.chat_template").and_then(|value| value.as_str()) {
                Some(source) => Self::of_template(source, tokenizer, jinja),
                None if jinja => Err("--jinja: the model's file has no chat template".into()),
                None => Ok(Self::new(Script::of(gguf, tokenizer), None)),
            },
            Some("none") => Ok(Self::new(Script::new(None, tokenizer), None)),
            Some(chosen) => match TurnFormat::named(chosen) {
                Some(format) => {
                    let template = gguf.get("tokenizer.chat_template").and_then(|value| value.as_str());
                    Ok(Self::new(Script::new(Some(format), tokenizer), template))
                }
                None if Path::new(chosen).is_file() => {
                    let source = std::fs::read_to_string(chosen).map_err(|error| format!("{chosen}: {error}"))?;
                    Self::of_template(&source, tokenizer, jinja)
                }
                None => {
                    let names: Vec<&str> = TurnFormat::ALL.iter().map(TurnFormat::name).collect();
                    Err(format!("{chosen} is neither a file nor one of: none, {}", names.join(", ")).into())
                }
            },
        }
    }

    fn new(script: Script<'t>, source: Option<&str>) -> Self {
        let source = source.map(str::to_owned);
        Self { script, source, jinja: None }
    }

    /// Offers the tools of a list in JSON to the model.
    pub fn offer(&mut self, list: String) -> Result<()> {
        // The list stays in memory as long as the program runs.
        let tools = Tools::new(list.leak()).map_err(|error| format!("--tools: {error}"))?;
        let Some(format) = self.script.format else {
            let name = self.name();
            return Err(format!("--tools needs a turn format that has tools, this is {name} (see --template)").into());
        };
        let found = ToolFormat::of(format, self.source.as_deref());
        let found = found.ok_or_else(|| {
            format!("--tools: how the turn format {format} offers tools is not known (see --template)")
        })?;
        self.script.tools = Some((found, tools));
        Ok(())
    }

    /// Tells the model to think or not to.
    pub fn think(&mut self, on: bool) -> Result<()> {
        let flag = if on { "on" } else { "off" };
        let Some(format) = self.script.format else {
            let name = self.name();
            return Err(
                format!("--think {flag} needs a turn format that knows it, this is {name} (see --template)").into()
            );
        };
        if !Thinking::of(format).is_some_and(|thinking| thinking.can(on)) {
            return Err(format!("--think {flag}: the turn format {format} does not know that").into());
        }
        self.script.think = Some(on);
        Ok(())
    }

    /// Returns the marks around thoughts, if the model writes thoughts, and whether its turn begins inside of one.
    pub fn thoughts(&self) -> Option<(ThoughtMarks, bool)> {
        match Thinking::of(self.script.format?) {
            Some(thinking) => Some((thinking.marks(), thinking.opens_thought(self.script.think))),
            // A model that calls tools may think, too.
            None => self.script.tools.map(|_| (ThoughtMarks::THINK, false)),
        }
    }

    /// Returns the style of the format that the template belongs to, if both write the same. Otherwise the template
    /// itself writes.
    fn of_template(source: &str, tokenizer: &'t Tokenizer<'t, 't>, jinja: bool) -> Result<Self> {
        let template = ChatTemplate::for_tokenizer(source, tokenizer)?;
        match TurnFormat::of_template(source).filter(|format| !jinja && template.agrees_with(format)) {
            Some(format) => Ok(Self::of_format(format, tokenizer, source)),
            None => {
                // The template stays in memory as long as the program runs.
                let jinja: &Jinja<'_> = Box::leak(Box::new(Jinja { template, tokenizer, error: RefCell::default() }));
                let script = Script { template: Some(jinja), ..Script::new(None, tokenizer) };
                Ok(Self { script, source: Some(source.to_owned()), jinja: Some(jinja) })
            }
        }
    }

    /// Returns the style of a template's format. It adds no BOS, because a template writes BOS itself.
    fn of_format(format: &'static TurnFormat, tokenizer: &'t Tokenizer<'t, 't>, source: &str) -> Self {
        Self::new(Script { bos: false, ..Script::new(Some(format), tokenizer) }, Some(source))
    }

    pub fn name(&self) -> &'static str {
        match self.script.format {
            Some(format) => format.name(),
            None if self.script.template.is_some() => "the template, in Jinja",
            None => "none, the model continues your text",
        }
    }

    /// Returns an estimate of the bytes that the style writes around messages.
    pub fn bytes(&self) -> usize {
        let tools = self.script.tools.map_or(0, |(_, tools)| tools.json().len());
        4096 + 2 * tools + self.source.as_ref().map_or(0, String::len)
    }

    /// Returns an error in words for the user.
    pub fn explain(&self, error: ConversationError) -> Box<dyn Error> {
        if let Some(error) = self.jinja.and_then(|jinja| jinja.error.take()) {
            return error.into();
        }
        match error {
            ConversationError::ContextFull { .. } => format!("{error} (/reset starts over)").into(),
            error => error.into(),
        }
    }

    /// Returns the tokens of a message of the user, with the tools that are offered, and of the beginning of the reply.
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>> {
        let Script { tokenizer, format, tools, think, bos, .. } = self.script;
        let wanted = || format!("a message needs a turn format, this is {} (see --template)", self.name());
        let (format, message) = (format.ok_or_else(wanted)?, Message { role: Role::User, text });
        let (mut bytes, mut plain) = (vec![0; self.bytes() + text.len()], vec![0..0; 4096]);
        let mut written = TurnText::new(&mut bytes, &mut plain);
        let mut put = |piece: Piece<'_>| written.push(tokenizer, piece);
        match tools {
            Some((tool_format, list)) => {
                let mut turns = ToolTurns::new(format, tool_format, list);
                turns.add(message, &mut put)?;
                turns.reply(think, &mut put)?;
            }
            None => {
                let mut turns = Turns::new(format);
                turns.add(message).try_for_each(&mut put)?;
                match Thinking::of(format).zip(think) {
                    Some((thinking, think)) => turns.reply_thinking(thinking, think).try_for_each(&mut put)?,
                    None => turns.reply().try_for_each(&mut put)?,
                }
            }
        }
        let ids = text::encode_framed(tokenizer, written.as_str(), written.plain())?;
        Ok(tokenizer.vocab().bos().filter(|_| bos).into_iter().chain(ids).collect())
    }

    /// Returns the ids of tokens that end a reply, besides the end tokens of the vocabulary.
    pub fn stops(&self) -> Vec<u32> {
        let Some(format) = self.script.format else { return Vec::new() };
        let of_tools = self.script.tools.map_or(&[][..], |(tools, _)| tools.stops());
        let find = |name: &&str| self.script.tokenizer.find(name.as_bytes());
        format.stops().iter().chain(of_tools).filter_map(find).collect()
    }
}

/// A template without a known turn format. It writes the whole conversation each time.
#[derive(Debug)]
struct Jinja<'t> {
    template: ChatTemplate,
    tokenizer: &'t Tokenizer<'t, 't>,
    /// Why the template refused the last conversation.
    error: RefCell<Option<TemplateError>>,
}

impl Template for Jinja<'_> {
    fn write(
        &self,
        entries: &mut dyn Iterator<Item = Entry<'_>>,
        put: &mut Put<'_>,
    ) -> std::result::Result<(), ConversationError> {
        let said: Vec<Said> = entries.map(Said::of).collect();
        let messages = said.iter().enumerate().map(|(entry, said)| match said.entry() {
            Entry::Message(message) => Ok(message),
            Entry::Result(_) => Err(ConversationError::NoTools { entry }),
        });
        let messages: Vec<Message<'_>> = messages.collect::<std::result::Result<_, _>>()?;
        let options = RenderOptions { reply: true, ..RenderOptions::default() };
        let render = |count: usize| self.template.render_framed(&messages[..count], &options, self.tokenizer);
        let (text, names) = render(messages.len()).map_err(|error| {
            *self.error.borrow_mut() = Some(error);
            ConversationError::Template
        })?;
        let mut parts: Vec<(Range<usize>, Option<usize>)> = names.into_iter().map(|name| (name, None)).collect();
        for (number, message) in messages.iter().enumerate().filter(|(_, message)| message.role == Role::Assistant) {
            // Renders the messages before the reply. If the whole text begins with them, the reply stands directly
            // after them.
            let Some((before, _)) = render(number).ok().filter(|(before, _)| text.starts_with(before)) else {
                continue;
            };
            let (rest, said) = (&text[before.len()..], message.text.trim());
            let start = before.len() + rest.len() - rest.trim_start().len();
            if text[start..].starts_with(said) {
                let reply = start..start + said.len();
                parts.retain(|(name, _)| name.end <= reply.start || reply.end <= name.start);
                parts.push((reply, Some(number)));
            }
        }
        parts.sort_by_key(|(range, _)| range.start);
        let mut at = 0;
        for (range, number) in parts {
            put(Piece::Frame(&text[at..range.start]), None)?;
            put(Piece::Text(&text[range.clone()]), number)?;
            at = range.end;
        }
        put(Piece::Frame(&text[at..]), None)
    }
}
