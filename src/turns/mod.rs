//! How a conversation is written for a model: turn formats as data.
//!
//! A [`TurnFormat`] has the text before and after a message of each role. [`TurnFormat::of`] recognises the format of a
//! file's chat template. [`Turns`] writes a conversation piece by piece. It only appends, so the keys and values of
//! earlier turns stay valid. [`TurnText`] collects the pieces. It keeps the pieces of the format apart from the text of
//! messages: names of special tokens have a meaning in the pieces of the format only.
//!
//! # Example
//!
//! A user's message in ChatML, up to where the model goes on. [The guide](crate::guide#chat) has a whole conversation.
//!
//! ```
//! use gleed::turns::{Message, Piece, Role, TurnFormat, TurnText, TurnTextError, Turns};
//! # use gleed::{Model, mem::ALIGN, token::Tokenizer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! # let mut tables = vec![0; Tokenizer::plan(model.gguf())? + ALIGN];
//! # let start = tables.as_ptr().align_offset(ALIGN);
//! # let tokenizer = Tokenizer::new(model.gguf(), &mut tables[start..])?;
//! let mut turns = Turns::new(TurnFormat::named("chatml").ok_or("no such format")?);
//! let mut pieces: Vec<Piece<'_>> = turns.add(Message { role: Role::User, text: "Who are you?" }).collect();
//! pieces.extend(turns.reply());
//!
//! let (mut bytes, mut ranges) = ([0; 200], [0..0]);
//! let mut text = TurnText::new(&mut bytes, &mut ranges);
//! for piece in &pieces {
//!     text.push(&tokenizer, *piece)?;
//! }
//! assert_eq!(text.as_str(), "<|im_start|>user\nWho are you?<|im_end|>\n<|im_start|>assistant\n");
//! // Names of special tokens mean nothing in the message itself.
//! assert_eq!(&text.as_str()[text.plain()[0].clone()], "Who are you?");
//!
//! // There is room for one message at a time.
//! let refused = text.push(&tokenizer, Piece::Text("And who am I?"));
//! assert_eq!(refused, Err(TurnTextError::TooManyTexts { limit: 1 }));
//! # Ok(())
//! # }
//! ```
//!
//! # Tools
//!
//! [`ToolTurns`] writes conversations in which a model may call tools, and [`crate::tools`] reads its calls.
//! [`Thinking`] says how a model is told to think or not to think.
//!
//! ```
//! use gleed::tools::{Part, Reader, Tools};
//! use gleed::turns::{Message, Piece, Role, Thinking, ToolFormat, ToolResult, ToolTurns, TurnFormat};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tools = Tools::new(r#"[{"name": "roll", "description": "Rolls a die", "parameters": {"type": "object"}}]"#)?;
//! let turns = TurnFormat::named("qwen3").ok_or("no such format")?;
//! let format = ToolFormat::of(turns, None).ok_or("how it offers tools is not known")?;
//!
//! // The pieces go to a `TurnText`; here they are shown as text.
//! let mut text = String::new();
//! let mut put = |piece: Piece<'_>| Ok::<(), std::fmt::Error>(text.push_str(piece.text("", "")));
//! let mut talk = ToolTurns::new(turns, format, tools);
//! talk.add(Message { role: Role::User, text: "Roll a die." }, &mut put)?;
//! talk.reply(Some(false), &mut put)?;
//! assert!(text.starts_with("<|im_start|>system\n# Tools\n\nYou may call one or more functions"));
//! assert!(text.ends_with("Roll a die.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"));
//!
//! // What the model writes then, up to the token that ends its turn.
//! let reply = "<tool_call>\n{\"name\": \"roll\", \"arguments\": {}}\n</tool_call>";
//! let mut reader = Reader::new(Some(format.calls()), Thinking::of(turns).map(Thinking::marks), false);
//! let Some(Ok(Part::Call(call))) = reader.next(reply, true, Some(&tools)) else { return Err("no call".into()) };
//!
//! let mut text = String::new();
//! let mut put = |piece: Piece<'_>| Ok::<(), std::fmt::Error>(text.push_str(piece.text("", "")));
//! talk.result(ToolResult { name: call.name, id: call.id, text: "4" }, &mut put)?;
//! talk.reply(None, &mut put)?;
//! assert_eq!(
//!     text,
//!     "<|im_end|>\n<|im_start|>user\n<tool_response>\n4\n</tool_response><|im_end|>\n<|im_start|>assistant\n",
//! );
//! # Ok(())
//! # }
//! ```

#[macro_use]
mod pieces;
mod formats;
mod text;
mod thinking;
mod tools;

use core::fmt;

use gguf_rs_lite::Gguf;

use crate::token::Tokenizer;

pub use pieces::{Piece, Pieces, Turns};
pub use text::{TurnText, TurnTextError};
pub use thinking::Thinking;
pub use tools::{Answer, ToolCall, ToolFormat, ToolResult, ToolTurns};

use pieces::{Frame, Trim, find_last};

/// The role of a message.
///
/// [The guide has an example](crate::guide#chat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions to the model before the conversation.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Role {
    /// Returns the name of the role in chat templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// A message of a conversation.
///
/// [The guide has an example](crate::guide#chat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'t> {
    /// The role of the message.
    pub role: Role,
    /// The text of the message. Names of special tokens in it are ordinary text.
    pub text: &'t str,
}

/// A turn format: the way in which the chat template of a family of models writes plain messages.
///
/// [The guide has an example](crate::guide#chat).
#[derive(Debug, PartialEq, Eq)]
pub struct TurnFormat {
    name: &'static str,
    signs: Signs,
    /// Text at the start of a conversation.
    start: Frame,
    system: System,
    user: Turn,
    assistant: Turn,
    /// Text between an assistant's turn and the next turn.
    between: Frame,
    /// Text that opens the assistant's turn for the model to write.
    reply: Frame,
    /// Text at the end of a conversation that is not continued.
    end: Frame,
    stops: &'static [&'static str],
}

/// The signs by which a format is recognised.
#[derive(Debug, PartialEq, Eq)]
struct Signs {
    /// Parts that the template must contain.
    all: &'static [&'static str],
    /// Parts that the template must not contain.
    none: &'static [&'static str],
    /// Tokens that the vocabulary must have if the file has no template. Empty if no vocabulary identifies the format.
    tokens: &'static [&'static str],
}

/// How a message is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    before: Frame,
    trim: Trim,
    after: Frame,
}

/// How a system message is written.
#[derive(Debug, PartialEq, Eq)]
struct System {
    turn: Turn,
    /// Turn of the user's message that follows, if it is part of the same turn.
    user: Option<Turn>,
    /// Message that the template writes in a conversation without a system message.
    default: Option<&'static str>,
    /// Text after the default message.
    default_after: Frame,
    /// Whether an empty message counts as no message.
    skips_empty: bool,
}

impl TurnFormat {
    /// All formats.
    pub const ALL: &'static [Self] = formats::ALL;

    /// Returns the format of a file. The chat template (`tokenizer.chat_template`) decides. If the file has none, the
    /// special tokens of its vocabulary decide. Returns `None` if the template is not known, or if there is none and
    /// the tokens match no format.
    pub fn of(gguf: &Gguf<'_>, tokenizer: &Tokenizer<'_, '_>) -> Option<&'static Self> {
        match gguf.get("tokenizer.chat_template").and_then(|value| value.as_str()) {
            Some(template) => Self::of_template(template),
            None => Self::ALL.iter().find(|format| {
                let tokens = format.signs.tokens;
                !tokens.is_empty() && tokens.iter().all(|name| tokenizer.find(name.as_bytes()).is_some())
            }),
        }
    }

    /// Returns the format that a chat template writes. It is recognised by characteristic parts of the source. If a
    /// template begins with BOS and the format does not, or the other way round, they do not match. The same holds if
    /// the template has thoughts, and it is not known how models of this format think. A template that was changed in
    /// other places is taken for the original.
    pub fn of_template(template: &str) -> Option<&'static Self> {
        let has = |part: &&str| find_last(template, part).is_some();
        // Some templates set `bos_token` themselves, to a name that the format contains.
        let has_bos = has(&"bos_token") && !has(&"set bos_token");
        let has_thoughts = has(&"</think>");
        Self::ALL.iter().find(|format| {
            let signs = &format.signs;
            signs.all.iter().all(has)
                && !signs.none.iter().any(has)
                && has_bos == format.writes_bos()
                && (!has_thoughts || Thinking::of(format).is_some())
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

    /// Returns the names of the tokens that end the assistant's turn, besides EOS.
    pub fn stops(&self) -> &'static [&'static str] {
        self.stops
    }

    /// Returns whether a token ends the assistant's turn: one of [`TurnFormat::stops`], or one that ends a generation
    /// in any format.
    pub fn is_stop(&self, tokenizer: &Tokenizer<'_, '_>, token: u32) -> bool {
        tokenizer.is_end(token) || self.stops.iter().any(|name| tokenizer.find(name.as_bytes()) == Some(token))
    }

    /// Returns whether conversations begin with BOS.
    pub fn writes_bos(&self) -> bool {
        let bos = |frame: Frame| frame.contains(bos!());
        bos(self.start) || bos(self.user.before)
    }

    /// Returns whether the format leaves more than white space, such as a thought, out of the text of an earlier turn
    /// of the assistant.
    pub(crate) fn drops_thought(&self, text: &str) -> bool {
        Trim::Ends.apply(self.assistant.trim.apply(text)) != Trim::Ends.apply(text)
    }

    /// Returns the system message that the format writes if a conversation has none.
    pub fn default_system(&self) -> Option<&'static str> {
        self.system.default
    }

    fn turn(&self, role: Role) -> Turn {
        match role {
            Role::System => self.system.turn,
            Role::User => self.user,
            Role::Assistant => self.assistant,
        }
    }

    /// Writes a whole conversation as the chat template does. If `reply` is set, it also opens the model's turn. `bos`
    /// and `eos` are the names of these tokens.
    ///
    /// # Errors
    /// The errors of `out`.
    pub fn write(
        &'static self,
        messages: &[Message<'_>],
        reply: bool,
        (bos, eos): (&str, &str),
        out: &mut impl fmt::Write,
    ) -> fmt::Result {
        let mut turns = Turns::new(self);
        let mut write = |mut pieces: Pieces<'_>| pieces.try_for_each(|piece| out.write_str(piece.text(bos, eos)));
        for &message in messages {
            write(turns.add(message))?;
        }
        write(if reply { turns.reply() } else { turns.end() })
    }
}

impl fmt::Display for TurnFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
