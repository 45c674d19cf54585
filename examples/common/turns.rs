//! How a conversation is written down for a model.

use std::path::Path;

use gguf_rs_lite::Gguf;
#[cfg(feature = "jinja")]
use gleed::host::{ChatTemplate, RenderOptions};
use gleed::token::{EncodeOptions, Tokenizer};
use gleed::turns::{Message, Piece, Role, TurnFormat, TurnText, Turns};

use super::{Result, text};

/// The way that conversations are written.
pub(crate) enum Style {
    /// In a known format, each turn appended to those before.
    Format {
        format: &'static TurnFormat,
        /// BOS in front, which the format does not write.
        bos: bool,
    },
    /// By a template that may write anything: the whole conversation each time.
    #[cfg(feature = "jinja")]
    Jinja(Box<ChatTemplate>),
    /// Not at all: the model continues the text.
    Plain,
}

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
                None => Ok(TurnFormat::of(gguf, tokenizer).map_or(Self::Plain, |format| Self::new(format, bos))),
            },
            Some("none") => Ok(Self::Plain),
            Some(chosen) => match TurnFormat::named(chosen) {
                Some(format) => Ok(Self::new(format, bos)),
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

    fn new(format: &'static TurnFormat, bos: bool) -> Self {
        Self::Format { format, bos: bos && !format.writes_bos() }
    }

    /// The format that the template means, if it writes the same, else the template itself.
    #[cfg(feature = "jinja")]
    fn of_template(source: &str, tokenizer: &Tokenizer<'_, '_>, jinja: bool) -> Result<Self> {
        let template = ChatTemplate::for_tokenizer(source, tokenizer)?;
        match TurnFormat::of_template(source).filter(|format| !jinja && template.agrees_with(format)) {
            // A template writes BOS itself where it wants one.
            Some(format) => Ok(Self::new(format, false)),
            None => Ok(Self::Jinja(Box::new(template))),
        }
    }

    #[cfg(not(feature = "jinja"))]
    fn of_template(source: &str, _: &Tokenizer<'_, '_>, jinja: bool) -> Result<Self> {
        match TurnFormat::of_template(source) {
            _ if jinja => Err("--jinja needs a program that is built with --features jinja".into()),
            Some(format) => Ok(Self::new(format, false)),
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
            Self::Format { format, bos } => {
                let mut turns = if cached.is_empty() { Turns::new(format) } else { Turns::after_reply(format) };
                let first = if cached.is_empty() { 0 } else { messages.len() - 1 };
                let bos = (*bos && cached.is_empty()).then_some(Piece::Bos);
                let mut pieces: Vec<Piece<'_>> = bos.into_iter().collect();
                messages[first..].iter().for_each(|&message| pieces.extend(turns.add(message)));
                pieces.extend(turns.reply());
                encode_pieces(tokenizer, &pieces)?
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
            Self::Format { format, .. } => {
                format.stops().iter().filter_map(|name| tokenizer.find(name.as_bytes())).collect()
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

fn encode_pieces(tokenizer: &Tokenizer<'_, '_>, pieces: &[Piece<'_>]) -> Result<Vec<u32>> {
    // No name of a token is longer than 256 bytes.
    let bytes = pieces.iter().map(|piece| piece.text("", "").len() + 256).sum();
    let (mut bytes, mut plain) = (vec![0; bytes], vec![0..0; pieces.len()]);
    let mut text = TurnText::new(&mut bytes, &mut plain);
    pieces.iter().try_for_each(|&piece| text.push(tokenizer, piece))?;
    Ok(text::encode_framed(tokenizer, text.as_str(), text.plain())?)
}
