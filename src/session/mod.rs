//! Text in, text out (feature `std`): a model's file, and all that is needed to write texts and to talk with the model.
//!
//! A [`Session`] owns what the other layers leave to the host: the mapped file, the memory, the threads, the tokenizer,
//! the sampler and the messages. It is for programs that have an operating system and one text at a time. A program
//! with a frame to draw, with many characters or without a heap uses an [`Engine`](crate::Engine); the
//! [`guide`](crate::guide) shows how.
//!
//! # Example
//!
//! ```
//! use gleed::Session;
//! use gleed::session::SessionError;
//!
//! # fn main() -> Result<(), SessionError> {
//! let mut session = Session::open("examples/assets/gleed-tales-q8_0.gguf")?;
//! for piece in session.tell("Once upon a time")?.take(20) {
//!     print!("{}", piece?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A conversation, with a model that was trained on conversations. What was said before is not read again:
//!
//! ```
//! use gleed::Session;
//! use gleed::session::{End, SessionOptions};
//! use gleed::turns::Role;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = "examples/assets/gleed-tales-q8_0.gguf";
//! let options = SessionOptions { system: Some("You tell stories.".into()), tokens: 30, ..SessionOptions::default() };
//! let mut session = Session::with(file, options)?;
//! let first = session.ask("Tell me of a dog.")?.collect::<Result<String, _>>()?;
//! let second = session.ask("And then?")?.collect::<Result<String, _>>()?;
//! assert_eq!(session.end(), Some(End::Tokens));
//! assert_eq!(session.messages().nth(2), Some((Role::Assistant, first.as_str())));
//! # assert!(!second.is_empty());
//!
//! // A wrong call says why, and changes nothing.
//! let error = Session::open("nowhere.gguf").unwrap_err();
//! assert!(error.to_string().contains("nowhere.gguf"));
//! # Ok(())
//! # }
//! ```
//!
//! A conversation that is saved goes on later, without reading anything again:
//!
//! ```
//! use gleed::Session;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let model = "examples/assets/gleed-tales-q8_0.gguf";
//! # let place = std::env::temp_dir().join(format!("gleed-session-{}.gleed", std::process::id()));
//! let mut session = Session::open(model)?;
//! session.ask("Tell me of a dog.")?.take(20).for_each(drop);
//! session.save(&place)?;
//! let next = session.ask("And then?")?.take(5).collect::<Result<String, _>>()?;
//!
//! let mut later = Session::open(model)?;
//! later.load(&place)?;
//! assert_eq!(later.ask("And then?")?.take(5).collect::<Result<String, _>>()?, next);
//! # std::fs::remove_file(place)?;
//! # Ok(())
//! # }
//! ```
//!
//! Another thread can end a text that takes too long, also while a long prompt is read:
//!
//! ```
//! use gleed::Session;
//! use gleed::session::End;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut session = Session::open("examples/assets/gleed-tales-q8_0.gguf")?;
//! let canceller = session.canceller();
//! let mut pieces = session.tell("Once upon a time")?;
//! let piece = pieces.next();
//! std::thread::spawn(move || canceller.cancel()).join().unwrap();
//! assert!(piece.is_some() && pieces.next().is_none());
//! drop(pieces);
//! assert_eq!(session.end(), Some(End::Cancelled));
//! # Ok(())
//! # }
//! ```
//!
//! A text can be told to end before a string, and, with the feature `grammar`, to follow a JSON Schema, a grammar or a
//! regular expression:
//!
//! ```
//! use gleed::Session;
//! use gleed::session::End;
//! # #[cfg(feature = "grammar")]
//! use gleed::grammar::Source;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut session = Session::open("examples/assets/gleed-tales-q8_0.gguf")?;
//! let sentence = session.tell("Once upon a time")?.until(&[".", "!"])?.collect::<Result<String, _>>()?;
//! assert!(!sentence.contains('.') && session.end() == Some(End::Stop));
//! # #[cfg(feature = "grammar")] {
//!
//! let schema = br#"{"type":"object","properties":{"mood":{"enum":["calm","angry"]}},"required":["mood"]}"#;
//! let json = session.ask("How is the dog?")?.follow(Source::Schema(schema))?.collect::<Result<String, _>>()?;
//! assert!(json.starts_with('{') && json.ends_with('}') && session.end() == Some(End::Complete));
//! # }
//! # Ok(())
//! # }
//! ```

mod cancel;
mod error;
#[cfg(feature = "grammar")]
mod form;
mod pieces;
mod saved;

use std::path::Path;
use std::string::String;
use std::vec;
use std::vec::Vec;

pub use cancel::Canceller;
pub use error::SessionError;
pub use pieces::{End, Pieces};

use crate::cache::{CacheError, SeqId};
use crate::conversation::{Conversation, ConversationLimits, Desk, DeskLimits, Entry, Keep, Script};
use crate::engine::{EngineError, Limits, Logits};
#[cfg(feature = "grammar")]
use crate::host::OwnedTrie;
use crate::host::{AlignedBytes, OwnedConversation, OwnedEngine, OwnedTokenizer};
use crate::sample::{Sampler, SamplerParams, scratch_len};
use crate::token::{EncodeOptions, TokenError};
use crate::turns::{Message, Role};

/// How a [`Session`] works.
///
/// [Example](crate::session#example).
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// What the model is told before the conversation: a message of the system.
    pub system: Option<String>,
    /// Largest number of tokens of a text or of an answer; at least 1.
    pub tokens: usize,
    /// How tokens are chosen. The same seed gives the same text on every machine.
    pub sampling: SamplerParams,
    /// Whether the model is to think before it answers, if its turn format knows that. With `None` the format decides.
    /// Thoughts are not part of the pieces.
    pub think: Option<bool>,
    /// The engine's limits, for one sequence. `context` 0 stands for the context that the model was trained on, at most
    /// 4096 tokens.
    pub limits: Limits,
}

impl Default for SessionOptions {
    /// One thread per processor, at most 8; 512 tokens; temperature 0.7 and `min_p` 0.05.
    fn default() -> Self {
        let workers = std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
        Self {
            system: None,
            tokens: 512,
            sampling: SamplerParams { temperature: 0.7, min_p: 0.05, ..SamplerParams::default() },
            think: None,
            limits: Limits { workers, rows: 256 * workers, checkpoints: 2, ..Limits::default() },
        }
    }
}

/// A model that writes texts and talks.
///
/// [Example](crate::session#example).
#[derive(Debug)]
pub struct Session {
    engine: OwnedEngine,
    tokenizer: OwnedTokenizer,
    conversation: OwnedConversation,
    seq: SeqId,
    options: SessionOptions,
    sampler: Sampler,
    /// Scratch of the sampler.
    masses: Vec<u64>,
    messages: Vec<(Role, String)>,
    end: Option<End>,
    canceller: Canceller,
    /// The limits of the conversation.
    sizes: ConversationLimits,
    /// The sorted vocabulary for texts that follow a grammar, made for the first of them.
    #[cfg(feature = "grammar")]
    trie: Option<OwnedTrie>,
}

/// Number of replies whose tokens are kept, so that they need not be read again.
const REPLIES: usize = 256;

impl Session {
    /// Opens the model file at `path`.
    ///
    /// # Errors
    /// [`SessionError`], with what was wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SessionError> {
        Self::with(path, SessionOptions::default())
    }

    /// Opens the model file at `path`, with options.
    ///
    /// # Errors
    /// [`SessionError`], with what was wrong.
    pub fn with(path: impl AsRef<Path>, options: SessionOptions) -> Result<Self, SessionError> {
        let limits = Limits { sequences: 1, ..options.limits };
        let mut engine = OwnedEngine::open(&path, &limits).map_err(|error| SessionError::open(path.as_ref(), error))?;
        let tokenizer = engine.tokenizer().map_err(|error| SessionError::open(path.as_ref(), error))?;
        let (seq, vocab) =
            engine.with(|engine| Ok::<_, SessionError>((engine.open()?, engine.model().config().vocab)))?;
        let desk = DeskLimits { context: engine.plan().limits().context, text: 0, word: 0, replies: REPLIES };
        let sizes = engine.with(|engine| ConversationLimits::of(engine.cache().geometry(), &desk));
        Ok(Self {
            conversation: OwnedConversation::new(seq, &sizes)?,
            sampler: Sampler::new(options.sampling)?,
            masses: vec![0; scratch_len(vocab)],
            messages: system_message(&options),
            end: None,
            canceller: Canceller::default(),
            sizes,
            #[cfg(feature = "grammar")]
            trie: None,
            engine,
            tokenizer,
            seq,
            options,
        })
    }

    /// Begins a text with `text` and returns the pieces that the model adds. The session forgets what it wrote or heard
    /// before.
    ///
    /// # Errors
    /// [`SessionError`], such as a text that is longer than the context. The session is empty then. An empty text begins
    /// with BOS alone, where the vocabulary has it, and is refused where it does not.
    pub fn tell(&mut self, text: &str) -> Result<Pieces<'_>, SessionError> {
        self.canceller.begin();
        self.clear()?;
        let tokens = self.encode(text)?;
        self.read(&tokens)?;
        Ok(Pieces::of_text(self))
    }

    /// Says `text` to the model and returns the pieces of its answer. What was said before is part of the conversation.
    /// When the context becomes full, the oldest turns are left out of what the model sees.
    ///
    /// If the pieces are dropped early, the answer is the text that was written up to then.
    ///
    /// # Errors
    /// [`SessionError`], such as a message longer than the context. The messages are as before then.
    pub fn ask(&mut self, text: &str) -> Result<Pieces<'_>, SessionError> {
        self.canceller.begin();
        self.messages.push((Role::User, text.into()));
        let read = self.unread().and_then(|tokens| self.read(&tokens));
        if let Err(error) = read {
            self.messages.pop();
            return Err(error);
        }
        Ok(Pieces::of_answer(self))
    }

    /// Forgets the text or the conversation. The system's message stays.
    ///
    /// # Errors
    /// [`SessionError::Engine`].
    pub fn clear(&mut self) -> Result<(), SessionError> {
        self.messages = system_message(&self.options);
        self.end = None;
        Ok(self.engine.with(|engine| engine.reset(self.seq))?)
    }

    /// Returns the messages, in order.
    pub fn messages(&self) -> impl Iterator<Item = (Role, &str)> {
        self.messages.iter().map(|(role, text)| (*role, text.as_str()))
    }

    /// Returns why the last text or answer ended, or `None` if it was dropped before its end or there was none.
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Returns how many tokens the model has read and written: the length of its sequence.
    pub fn tokens(&mut self) -> usize {
        self.engine.with(|engine| engine.seq_len(self.seq)).unwrap_or(0)
    }

    /// Returns a handle that ends the text or the answer in progress, from any thread.
    pub fn canceller(&self) -> Canceller {
        self.canceller.clone()
    }

    /// Returns the tokenizer.
    pub fn tokenizer(&self) -> &OwnedTokenizer {
        &self.tokenizer
    }

    /// Returns the tokens of a text, behind the tokens with which a text begins. Names of special tokens in it are
    /// plain text.
    fn encode(&self, text: &str) -> Result<Vec<u32>, SessionError> {
        let tokenizer = self.tokenizer.get();
        let options = EncodeOptions { add_special: true, ..EncodeOptions::default() };
        let mut scratch = vec![0; tokenizer.scratch_len(text.len())];
        let mut ids = vec![0; text.len() + 3];
        let count = match tokenizer.encode(text, options, &mut scratch, &mut ids) {
            Err(TokenError::OutputTooSmall { needed, .. }) => {
                ids.resize(needed, 0);
                tokenizer.encode(text, options, &mut scratch, &mut ids)?
            }
            other => other?,
        }
        .ids;
        ids.truncate(count);
        // The model goes on with the text, so no token may end it.
        let vocab = tokenizer.vocab();
        if vocab.adds_eos() && ids.last().copied() == vocab.eos() {
            ids.pop();
        }
        Ok(ids)
    }

    /// Returns the tokens of the conversation that the model has not read.
    fn unread(&mut self) -> Result<Vec<u32>, SessionError> {
        let tokenizer = self.tokenizer.get();
        let text: usize = self.messages.iter().map(|(_, text)| text.len() + FRAME).sum();
        let context = self.engine.plan().limits().context;
        let limits = DeskLimits { context, text, word: text, replies: REPLIES };
        let mut memory = AlignedBytes::new(Desk::plan(tokenizer, &limits)?);
        let mut desk = Desk::new(tokenizer, &limits, memory.bytes())?;
        let room = self.options.tokens.min(context / 2).max(1);
        let keep = Keep { room, first: 0, last: 1, target: 0, summary: None };
        let entries = entries(&self.messages);
        self.engine.with(|engine| {
            let script = Script { think: self.options.think, ..Script::of(engine.model().gguf(), tokenizer) };
            self.conversation.with(|conversation: &mut Conversation<'_>| {
                Ok(conversation.update(engine, &script, &keep, &entries, &mut desk)?.tokens.to_vec())
            })
        })
    }

    fn read(&mut self, tokens: &[u32]) -> Result<(), SessionError> {
        let (seq, budget) = (self.seq, self.canceller.budget());
        let is_read = self.engine.with(|engine| {
            let length = engine.seq_len(seq)?;
            let is_read = engine.run_within(seq, tokens, Logits::Last, budget, &mut |_| {})?;
            if !is_read {
                engine.cancel(seq)?;
                // If a window has passed, the tokens that were read stay: the next conversation is compared with them.
                match engine.rewind(seq, length) {
                    Ok(()) | Err(EngineError::Cache(CacheError::WindowGone { .. })) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok::<_, EngineError>(is_read)
        })?;
        if is_read { self.hear() } else { Err(SessionError::Cancelled) }
    }

    /// Prepares the sampler for the tokens of a text. The choice depends on the seed, on the number of the answer and
    /// on the tokens that the model has read, and not on how it came to read them. So a conversation that was loaded
    /// goes on as it would have.
    fn hear(&mut self) -> Result<(), SessionError> {
        let (seq, params) = (self.seq, self.options.sampling);
        let before = self.messages.iter().filter(|(role, _)| *role == Role::User).count().saturating_sub(1);
        self.sampler = Sampler::new(params)?;
        self.sampler.set_state(self.sampler.state().wrapping_add((before as u64) << 40));
        let sampler = &mut self.sampler;
        self.engine.with(|engine| {
            let len = engine.seq_len(seq)?;
            let last = len.saturating_sub(params.penalty_window)..len;
            last.filter_map(|at| engine.cache().token(seq, at)).for_each(|token| sampler.accept(token));
            Ok(())
        })
    }
}

/// Largest number of bytes that a format writes around a message.
const FRAME: usize = 1024;

/// Returns the messages as entries of a conversation.
fn entries(messages: &[(Role, String)]) -> Vec<Entry<'_>> {
    messages.iter().map(|(role, text)| Entry::Message(Message { role: *role, text })).collect()
}

/// Returns the messages with which a conversation begins.
fn system_message(options: &SessionOptions) -> Vec<(Role, String)> {
    options.system.iter().map(|text| (Role::System, text.clone())).collect()
}

#[cfg(test)]
mod test;
