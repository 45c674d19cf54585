//! How a conversation is written down for a model.

use std::path::Path;

use gguf_rs_lite::Gguf;
#[cfg(feature = "jinja")]
use gleed::host::{ChatTemplate, RenderOptions};
use gleed::token::{EncodeOptions, Tokenizer};
use gleed::tools::{ThoughtMarks, Tools};
use gleed::turns::{Message, Piece, Role, Thinking, ToolFormat, ToolResult, ToolTurns, TurnFormat, TurnText, Turns};

use super::{Result, text};

/// The way that conversations are written.
pub(crate) enum Style {
    /// In a known format, each turn appended to those before.
    Format {
        format: &'static TurnFormat,
        /// BOS in front, which the format does not write.
        bos: bool,
        /// The template that the format was recognised by.
        template: Option<String>,
        tools: Option<Offer>,
        /// Whether the model is to think, or as the format does.
        think: Option<bool>,
    },
    /// By a template that may write anything: the whole conversation each time.
    #[cfg(feature = "jinja")]
    Jinja(Box<ChatTemplate>),
    /// Not at all: the model continues the text.
    Plain,
}

/// The tools that a model may call.
pub(crate) struct Offer {
    pub(crate) format: &'static ToolFormat,
    list: String,
}

impl Offer {
    pub(crate) fn tools(&self) -> Tools<'_> {
        // It was read when it was made.
        Tools::new(&self.list).unwrap_or(Tools::NONE)
    }
}

/// A call's result: the tool's name, the call's identifier, the text.
pub(crate) type Told = (String, Option<String>, String);

impl Style {
    /// The style of this name or file, else that of the model's file. `jinja`: by the template, even if its format is known.
    pub(crate) fn choose(
        gguf: &Gguf<'_>,
        tokenizer: &Tokenizer<'_, '_>,
        chosen: Option<&str>,
        jinja: bool,
    ) -> Result<Self> {
        let bos = tokenizer.vocab().adds_bos();
        match chosen {
            None => match gguf.get("tokenizer.chat_template").and_then(|value| value.as_str()) {
                Some(source) => Self::of_template(source, tokenizer, jinja),
                None if jinja => Err("--jinja: the model's file has no chat template".into()),
                None => Ok(TurnFormat::of(gguf, tokenizer).map_or(Self::Plain, |format| Self::new(format, bos, None))),
            },
            Some("none") => Ok(Self::Plain),
            Some(chosen) => match TurnFormat::named(chosen) {
                Some(format) => {
                    let template = gguf.get("tokenizer.chat_template").and_then(|value| value.as_str());
                    Ok(Self::new(format, bos, template))
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

    fn new(format: &'static TurnFormat, bos: bool, template: Option<&str>) -> Self {
        let template = template.map(str::to_owned);
        Self::Format { format, bos: bos && !format.writes_bos(), template, tools: None, think: None }
    }

    /// Offers the tools of a list in JSON to the model.
    pub(crate) fn offer(&mut self, list: String) -> Result<()> {
        Tools::new(&list).map_err(|error| format!("--tools: {error}"))?;
        let name = self.name();
        let Self::Format { format, template, tools, .. } = self else {
            return Err(format!("--tools needs a turn format that has tools, this is {name} (see --template)").into());
        };
        let found = ToolFormat::of(format, template.as_deref());
        let found = found.ok_or_else(|| {
            format!("--tools: how the turn format {format} offers tools is not known (see --template)")
        })?;
        *tools = Some(Offer { format: found, list });
        Ok(())
    }

    /// Tells the model to think or not to.
    pub(crate) fn think(&mut self, on: bool) -> Result<()> {
        let name = self.name();
        let flag = if on { "on" } else { "off" };
        let Self::Format { format, think, .. } = self else {
            return Err(
                format!("--think {flag} needs a turn format that knows it, this is {name} (see --template)").into()
            );
        };
        if !Thinking::of(format).is_some_and(|thinking| thinking.can(on)) {
            return Err(format!("--think {flag}: the turn format {format} does not know that").into());
        }
        *think = Some(on);
        Ok(())
    }

    /// The tools that are offered.
    pub(crate) fn offered(&self) -> Option<&Offer> {
        match self {
            Self::Format { tools, .. } => tools.as_ref(),
            _ => None,
        }
    }

    /// The marks around thoughts, where a model writes some, and whether its turn begins inside of one.
    pub(crate) fn thoughts(&self) -> Option<(ThoughtMarks, bool)> {
        let Self::Format { format, tools, think, .. } = self else { return None };
        match Thinking::of(format) {
            Some(thinking) => Some((thinking.marks(), thinking.opens_thought(*think))),
            // A model that calls tools may think, too.
            None => tools.as_ref().map(|_| (ThoughtMarks::THINK, false)),
        }
    }

    /// The tokens that tell the model what its calls have come to, after its reply, up to where it goes on.
    pub(crate) fn encode_results(&self, tokenizer: &Tokenizer<'_, '_>, results: &[Told]) -> Result<Vec<u32>> {
        let Self::Format { format, tools: Some(offer), think, .. } = self else { return Ok(Vec::new()) };
        let (mut turns, mut written) =
            (ToolTurns::after_reply(format, offer.format, offer.tools()), Written::default());
        for (name, id, text) in results {
            turns.result(ToolResult { name, id: id.as_deref(), text }, |piece| written.put(piece))?;
        }
        turns.reply(*think, |piece| written.put(piece))?;
        written.encode(tokenizer)
    }

    /// The format that the template means, if it writes the same, else the template itself.
    #[cfg(feature = "jinja")]
    fn of_template(source: &str, tokenizer: &Tokenizer<'_, '_>, jinja: bool) -> Result<Self> {
        let template = ChatTemplate::for_tokenizer(source, tokenizer)?;
        match TurnFormat::of_template(source).filter(|format| !jinja && template.agrees_with(format)) {
            // A template writes BOS itself where it wants one.
            Some(format) => Ok(Self::new(format, false, Some(source))),
            None => Ok(Self::Jinja(Box::new(template))),
        }
    }

    #[cfg(not(feature = "jinja"))]
    fn of_template(source: &str, _: &Tokenizer<'_, '_>, jinja: bool) -> Result<Self> {
        match TurnFormat::of_template(source) {
            _ if jinja => Err("--jinja needs a program that is built with --features jinja".into()),
            Some(format) => Ok(Self::new(format, false, Some(source))),
            None => {
                eprintln!("the chat template is none of the known ones (built with --features jinja it can be used)");
                Ok(Self::Plain)
            }
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Format { format, .. } => format.name(),
            #[cfg(feature = "jinja")]
            Self::Jinja(_) => "the template, in Jinja",
            Self::Plain => "none, the model continues your text",
        }
    }

    /// The tokens of the conversation so far up to where the model's reply to `user` begins, and how many of them
    /// are cached: `cached` and `history` are what the model has seen.
    pub(crate) fn encode(
        &self,
        tokenizer: &Tokenizer<'_, '_>,
        cached: &[u32],
        history: &mut History,
        user: &str,
    ) -> Result<(Vec<u32>, usize)> {
        history.0.push((Role::User, user.to_owned()));
        let messages: Vec<Message<'_>> = history.0.iter().map(|(role, text)| Message { role: *role, text }).collect();
        let new = match self {
            Self::Format { format, bos, tools, think, .. } => {
                let first = if cached.is_empty() { 0 } else { messages.len() - 1 };
                let mut written = Written::default();
                if *bos && cached.is_empty() {
                    written.put(Piece::Bos)?;
                }
                match tools {
                    Some(offer) if cached.is_empty() => {
                        let mut turns = ToolTurns::new(format, offer.format, offer.tools());
                        messages.iter().try_for_each(|&message| turns.add(message, |piece| written.put(piece)))?;
                        turns.reply(*think, |piece| written.put(piece))?;
                    }
                    _ => {
                        let mut turns = if cached.is_empty() { Turns::new(format) } else { Turns::after_reply(format) };
                        for &message in &messages[first..] {
                            turns.add(message).try_for_each(|piece| written.put(piece))?;
                        }
                        let thinking = Thinking::of(format).zip(*think);
                        let mut reply = match thinking {
                            Some((thinking, think)) => turns.reply_thinking(thinking, think),
                            None => turns.reply(),
                        };
                        reply.try_for_each(|piece| written.put(piece))?;
                    }
                }
                written.encode(tokenizer)?
            }
            #[cfg(feature = "jinja")]
            Self::Jinja(template) => {
                let options = RenderOptions { reply: true, ..RenderOptions::default() };
                let (text, plain) = template.render_framed(&messages, &options, tokenizer)?;
                let ids = text::encode_framed(tokenizer, &text, &plain)?;
                // What is no longer the same is computed again, and at least one token is.
                let same = ids.iter().zip(cached).take_while(|(new, old)| new == old).count();
                let same = same.min(ids.len().saturating_sub(1));
                return Ok((ids, same));
            }
            Self::Plain => {
                let bos = tokenizer.vocab().bos().filter(|_| cached.is_empty() && tokenizer.vocab().adds_bos());
                let first = if cached.is_empty() { 0 } else { messages.len() - 1 };
                let mut ids: Vec<u32> = bos.into_iter().collect();
                for message in &messages[first..] {
                    ids.extend(text::encode(tokenizer, message.text, EncodeOptions::default())?);
                }
                ids
            }
        };
        Ok(([cached, &new].concat(), cached.len()))
    }

    /// Whether a conversation can go on without its messages, from its tokens alone.
    pub(crate) fn needs_no_history(&self) -> bool {
        match self {
            #[cfg(feature = "jinja")]
            Self::Jinja(_) => false,
            _ => true,
        }
    }

    /// Names of tokens that end a reply, besides those that the vocabulary says.
    pub(crate) fn stops(&self, tokenizer: &Tokenizer<'_, '_>) -> Vec<u32> {
        match self {
            Self::Format { format, tools, .. } => {
                let of_tools = tools.as_ref().map_or(&[][..], |offer| offer.format.stops());
                format.stops().iter().chain(of_tools).filter_map(|name| tokenizer.find(name.as_bytes())).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The messages of a conversation.
#[derive(Clone, Default)]
pub(crate) struct History(Vec<(Role, String)>);

impl History {
    pub(crate) fn new(system: Option<&str>) -> Self {
        Self(system.into_iter().map(|text| (Role::System, text.to_owned())).collect())
    }

    pub(crate) fn reply(&mut self, text: String) {
        self.0.push((Role::Assistant, text));
    }

    /// Takes the last message back: it was not answered.
    pub(crate) fn take_back(&mut self) {
        self.0.pop();
    }
}

/// Pieces of a conversation that outlive what they were made of.
#[derive(Default)]
struct Written(Vec<(Piece<'static>, String)>);

impl Written {
    fn put(&mut self, piece: Piece<'_>) -> Result<()> {
        self.0.push(match piece {
            Piece::Bos => (Piece::Bos, String::new()),
            Piece::Eos => (Piece::Eos, String::new()),
            Piece::Frame(text) => (Piece::Frame(""), text.to_owned()),
            Piece::Text(text) => (Piece::Text(""), text.to_owned()),
        });
        Ok(())
    }

    fn encode(&self, tokenizer: &Tokenizer<'_, '_>) -> Result<Vec<u32>> {
        // No name of a token is longer than 256 bytes.
        let bytes = self.0.iter().map(|(_, text)| text.len() + 256).sum();
        let (mut bytes, mut plain) = (vec![0; bytes], vec![0..0; self.0.len()]);
        let mut whole = TurnText::new(&mut bytes, &mut plain);
        for (kind, text) in &self.0 {
            let piece = match kind {
                Piece::Frame(_) => Piece::Frame(text),
                Piece::Text(_) => Piece::Text(text),
                kind => *kind,
            };
            whole.push(tokenizer, piece)?;
        }
        Ok(text::encode_framed(tokenizer, whole.as_str(), whole.plain())?)
    }
}
