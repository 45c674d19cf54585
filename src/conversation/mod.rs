//! Conversations that never read a token twice: messages go in, and the tokens that the model has not read yet come
//! out.
//!
//! The host keeps the messages. A [`Conversation`] keeps what these cannot say: which tokens the model wrote, because a
//! text can be spelled in several ways. [`Conversation::update`] writes the messages in the model's [`Script`] and
//! compares the tokens with those in the sequence. It rewinds the sequence to the first one that differs and returns
//! the rest, which the host gives to the engine. So there is one call for everything that a host does with its list:
//! append, edit, remove, regenerate.
//!
//! # Example
//!
//! ```
//! use gleed::conversation::{Conversation, ConversationLimits, Desk, DeskLimits, Entry, Keep, Script};
//! use gleed::sample::argmax;
//! use gleed::token::{DecodeOptions, Tokenizer};
//! use gleed::turns::{Message, Role, TurnFormat};
//! use gleed::{Engine, Limits, Model, Plan, mem::ALIGN};
//!
//! # fn aligned(memory: &mut [u8]) -> &mut [u8] {
//! #     let start = memory.as_ptr().align_offset(ALIGN);
//! #     &mut memory[start..]
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! # let plan = Plan::new(&model, &Limits { context: 256, ..Limits::default() })?;
//! # let mut memory = vec![0; plan.bytes() + ALIGN];
//! # let mut engine = Engine::new(&model, &plan, aligned(&mut memory))?;
//! # let mut tables = vec![0; Tokenizer::plan(model.gguf())? + ALIGN];
//! # let tokenizer = Tokenizer::new(model.gguf(), aligned(&mut tables))?;
//! let limits = DeskLimits { context: 256, text: 2000, word: 200, replies: 32 };
//! let mut memory = vec![0; Desk::plan(&tokenizer, &limits)? + ALIGN];
//! let mut desk = Desk::new(&tokenizer, &limits, aligned(&mut memory))?;
//! let sizes = ConversationLimits::of(engine.cache().geometry(), &limits);
//! let mut memory = vec![0; Conversation::plan(&sizes)? + ALIGN];
//! let mut talk = Conversation::new(engine.open()?, &sizes, aligned(&mut memory))?;
//!
//! // The demo model tells stories: its file has no format, so this program names one.
//! let script = Script::new(TurnFormat::named("vicuna"), &tokenizer);
//! let mut messages = vec![(Role::User, "Tell me of a dog.".to_owned())];
//! let mut rows = Vec::new();
//! for question in ["And then?", "Who was it?", ""] {
//!     let entry = |(role, text)| Entry::Message(Message { role, text });
//!     let entries: Vec<Entry> = messages.iter().map(|(role, text)| entry((*role, text.as_str()))).collect();
//!     let new = talk.update(&mut engine, &script, &Keep::ALL, &entries, &mut desk)?;
//!     rows.push(new.tokens.len());
//!
//!     // Whatever the host does to generate a text. What it feeds to the sequence is the reply.
//!     let (mut token, mut reply) = (argmax(engine.prefill(talk.seq(), new.tokens)?)?, Vec::new());
//!     while reply.len() < 12 {
//!         reply.push(token);
//!         token = argmax(engine.decode_step(talk.seq(), token)?)?;
//!     }
//!     let options = DecodeOptions { starts_text: false, ..DecodeOptions::default() };
//!     let text = tokenizer.decode(&reply, options, &mut [0; 400])?.to_owned();
//!     messages.extend([(Role::Assistant, text), (Role::User, question.to_owned())]);
//! }
//! // It is saved with its messages, and goes on elsewhere as if nothing had happened.
//! let entry = |(role, text)| Entry::Message(Message { role, text });
//! let entries: Vec<Entry> = messages.iter().map(|(role, text)| entry((*role, text.as_str()))).collect();
//! let mut file = vec![0; talk.saved_len(&engine, &entries)?];
//! talk.save(&engine, &entries, &mut file)?;
//! engine.close(talk.seq())?;
//! let mut memory = vec![0; Conversation::plan(&sizes)? + ALIGN];
//! let (talk, saved) = Conversation::load(&mut engine, &file, &sizes, aligned(&mut memory))?;
//! assert!(saved.entries().eq(entries.iter().copied()));
//!
//! // Each turn has read its question, and nothing twice: the sequence has these tokens and three replies of 12.
//! assert_eq!(engine.seq_len(talk.seq())?, rows.iter().sum::<usize>() + 3 * 12);
//! # Ok(())
//! # }
//! ```

mod desk;
mod error;
mod keep;
mod reply;
mod save;
mod script;
mod template;
mod write;

use core::ops::Range;

pub use desk::{Desk, DeskLimits};
pub use error::ConversationError;
pub use keep::{Keep, Summary};
pub use save::Saved;
pub use script::{Entry, Put, Script, Template};

use crate::cache::{CacheError, KvGeometry, SeqId};
use crate::engine::{Engine, EngineError};
use crate::mem::{Arena, MemoryError};
use crate::turns::Role;
use desk::{Kept, LEFT_OUT, MOST_TEXTS, Tokens};
use keep::{Turns, shorten};
use reply::{Reply, Source};
use write::{Open, Text};

/// Sizes of a [`Conversation`].
///
/// [Example](crate::conversation#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversationLimits {
    /// Largest number of replies whose tokens are kept, 12 bytes each. Earlier replies are read again if the tokenizer
    /// spells their text in other tokens.
    pub replies: usize,
    /// Largest number of tokens that are kept beside the sequence, 4 bytes each. It should be the length of the longest
    /// conversation if no layer of the model keeps all tokens, and 0 otherwise. With fewer, tokens that were forgotten
    /// are read again.
    pub tokens: usize,
}

impl ConversationLimits {
    /// Returns the limits of a conversation in a cache, with the sizes of a desk.
    pub fn of(cache: &KvGeometry, desk: &DeskLimits) -> Self {
        let forgets = (0..cache.groups.count()).all(|group| cache.forgets(group));
        Self { replies: desk.replies, tokens: if forgets { desk.context } else { 0 } }
    }
}

/// A conversation in a sequence of an engine.
///
/// [Example](crate::conversation#example).
#[derive(Debug)]
pub struct Conversation<'a> {
    seq: SeqId,
    /// Replies that the sequence has, in order. The first `len` are in use.
    replies: &'a mut [Reply],
    len: usize,
    /// The last reply, which the model may still be writing. Only its beginning is known.
    open: Option<Reply>,
    /// Tokens that the sequence was last asked to begin with: the first `known`. Empty if the sequence forgets no
    /// token.
    ids: &'a mut [u32],
    known: usize,
    /// Number of turns that are left out.
    left_out: usize,
}

/// Tokens that the model has not read yet.
///
/// [Example](crate::conversation#example).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct New<'d> {
    /// Position of the first token: the length of the sequence.
    pub position: usize,
    /// The tokens, at least one. The logits of the last one are for the reply's first token.
    pub tokens: &'d [u32],
    /// Indices of the entries that are left out, because the context is full.
    pub left_out: Range<usize>,
}

impl<'a> Conversation<'a> {
    /// Returns the size of the memory of a conversation in bytes.
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`].
    pub fn plan(limits: &ConversationLimits) -> Result<usize, MemoryError> {
        let mut arena = Arena::measuring();
        Self::carve(SeqId::from_bits(0), &mut arena, limits)?;
        Ok(arena.used())
    }

    /// Returns a conversation in an empty sequence.
    ///
    /// # Errors
    /// [`MemoryError`] if the memory is too small, or not aligned to [`ALIGN`](crate::mem::ALIGN).
    pub fn new(seq: SeqId, limits: &ConversationLimits, memory: &'a mut [u8]) -> Result<Self, MemoryError> {
        Self::carve(seq, &mut Arena::new(memory)?, limits)
    }

    fn carve(seq: SeqId, arena: &mut Arena<'a>, limits: &ConversationLimits) -> Result<Self, MemoryError> {
        let replies = arena.slice("replies", limits.replies)?;
        let ids = arena.slice("ids", limits.tokens)?;
        Ok(Self { seq, replies, len: 0, open: None, ids, known: 0, left_out: 0 })
    }

    /// Returns the limits that the conversation was made with.
    pub fn limits(&self) -> ConversationLimits {
        ConversationLimits { replies: self.replies.len(), tokens: self.ids.len() }
    }

    /// Returns the sequence. The host appends tokens to it and closes it. Only the conversation rewinds it.
    pub fn seq(&self) -> SeqId {
        self.seq
    }

    /// Rewinds the sequence to the longest beginning of this conversation that it has, and returns the tokens that are
    /// missing, up to the point where the model goes on. The host gives them to [`Engine::prefill`] or
    /// [`Engine::queue`] (if layers have a window, in pieces of at most `Limits::rows`). The tokens that are then
    /// appended to the sequence are the reply, which becomes an entry of the next call. The entry has the text of the
    /// reply as it was written. A host may cut the text at the end, and white space at both ends.
    ///
    /// If the last entry is a message of the assistant, the model continues it. Otherwise it begins a reply.
    ///
    /// Replies behind the first difference are read again, with the tokens that the model wrote. Until that is done,
    /// the sequence does not have these tokens. If it is given up in between, the replies are spelled as the tokenizer
    /// does.
    ///
    /// The last token is always among the missing ones, because its logits are not kept. If windows have given back the
    /// blocks of a position that differs, everything is read again.
    ///
    /// In a model with recurrent layers this asks for checkpoints ([`Engine::checkpoint_at`]) where the last turn ends
    /// and before the last token. With two checkpoints (`Limits::checkpoints`) for each conversation, writing the last
    /// turn or reply again computes nothing of earlier turns. A fork shares the checkpoints of the conversation that it
    /// begins like. A conversation that was loaded has those that were saved with it, as far as there are free places.
    ///
    /// # Errors
    /// [`ConversationError`]. The sequence and the conversation are as before. Only if an [`EngineError::Cache`] says
    /// that blocks are missing, the sequence may be shorter.
    pub fn update<'d>(
        &mut self,
        engine: &mut Engine<'_, '_>,
        script: &Script<'_>,
        keep: &Keep<'_>,
        entries: &[Entry<'_>],
        desk: &'d mut Desk<'_>,
    ) -> Result<New<'d>, ConversationError> {
        let old = engine.seq_len(self.seq)?;
        let source = self.source(engine);
        let context = desk.ids.len().min(source.cache.geometry().context);
        let kept = self.find_replies(source, old, script, entries, desk);
        let kept = desk.kept.get_mut(..kept).unwrap_or_default();

        let turns = Turns::new(entries, keep);
        let mut written = |left_out: usize, most: usize| {
            let mut plain = [const { 0..0 }; MOST_TEXTS];
            let ids = desk.ids.get_mut(..context).unwrap_or_default();
            let mut tokens = Tokens::new(script.tokenizer, (desk.text, &mut plain), desk.scratch, ids);
            let text = Text { entries, left_out: turns.left_out(left_out) };
            let open = write::write(script, keep, &text, source, kept, &mut tokens)?;
            let needed = tokens.len().saturating_add(keep.room.max(1));
            if needed > most {
                Err(ConversationError::ContextFull { needed, context })
            } else {
                Ok((tokens.len(), open))
            }
        };
        let (left_out, (len, open)) = shorten(&mut written, self.left_out, turns.most(), (context, keep.target))?;

        let ids = desk.ids.get(..len).unwrap_or_default();
        let same = (0..len.min(old)).take_while(|&at| source.token(at) == ids.get(at).copied()).count();
        let last = len.checked_sub(1).ok_or(ConversationError::Empty)?;
        let position = self.rewind(engine, same.min(last), old, len)?;
        engine.note_kept(self.seq)?;
        if position == old {
            engine.checkpoint_at(self.seq, position)?;
        }
        engine.checkpoint_at(self.seq, last)?;
        self.take(kept, &open, ids);
        self.left_out = left_out;
        let tokens = ids.get(position..).unwrap_or_default();
        Ok(New { position, tokens, left_out: turns.left_out(left_out) })
    }

    /// Opens a second conversation that begins like this one. `memory` must be as large as the memory of this one,
    /// whose contents are copied. A cache of kind `paged` copies nothing else. The host cuts its own copy of the
    /// messages as it likes.
    ///
    /// # Errors
    /// [`ConversationError::Engine`], [`ConversationError::Memory`].
    pub fn fork<'b>(
        &self,
        engine: &mut Engine<'_, '_>,
        memory: &'b mut [u8],
    ) -> Result<Conversation<'b>, ConversationError> {
        let mut fork = Conversation::new(self.seq, &self.limits(), memory)?;
        fork.seq = engine.fork(self.seq, engine.seq_len(self.seq)?)?;
        fork.replies.iter_mut().zip(&*self.replies).for_each(|(to, from)| *to = *from);
        fork.ids.iter_mut().zip(&*self.ids).for_each(|(to, from)| *to = *from);
        (fork.len, fork.open, fork.known, fork.left_out) = (self.len, self.open, self.known, self.left_out);
        Ok(fork)
    }

    /// Returns the tokens of the sequence.
    fn source<'c, 'e>(&'c self, engine: &'c Engine<'_, 'e>) -> Source<'c, 'e> {
        Source { cache: engine.cache(), seq: self.seq, known: self.ids.get(..self.known).unwrap_or_default() }
    }

    /// Finds the replies that are entries, in order. Returns how many it finds. The desk holds them.
    fn find_replies(
        &self,
        source: Source<'_, '_>,
        len: usize,
        script: &Script<'_>,
        entries: &[Entry<'_>],
        desk: &mut Desk<'_>,
    ) -> usize {
        let last_user = entries.iter().rposition(Entry::begins_turn).unwrap_or(0);
        // A conversation that keeps the ids of its tokens knows them even if the sequence does not have them.
        let len = len.max(self.known);
        let open = self.open.filter(|open| (open.start as usize) < len).map(|open| Reply { end: len as u32, ..open });
        let mut replies = self.replies.iter().take(self.len).copied().chain(open);
        let mut found = 0;
        for (index, entry) in entries.iter().enumerate() {
            let Entry::Message(message) = entry else { continue };
            if message.role != Role::Assistant || (index < last_user && script.shortens(message.text)) {
                continue;
            }
            let mut rest = replies.clone();
            let text = &mut *desk.text;
            let reply = rest.find_map(|reply| reply.with_text(message.text, source, script.tokenizer, text));
            if let Some((reply, place)) = reply.zip(desk.kept.get_mut(found)) {
                *place = Kept { entry: index as u32, reply, placed: LEFT_OUT };
                (found, replies) = (found + 1, rest);
            }
        }
        found
    }

    /// Rewinds the sequence from `old` tokens to `keep`, if it can grow to `len`. Returns how many tokens it keeps.
    fn rewind(&self, engine: &mut Engine<'_, '_>, keep: usize, old: usize, len: usize) -> Result<usize, EngineError> {
        match engine.can_extend(self.seq, len.saturating_sub(old)) {
            // The tokens are queued in pieces, so their number is no error.
            Ok(()) | Err(EngineError::Cache(CacheError::TooMany { .. })) => {}
            Err(error) => return Err(error),
        }
        match engine.rewind_uncounted(self.seq, keep) {
            Err(EngineError::Cache(CacheError::WindowGone { .. })) => engine.reset(self.seq).map(|()| 0),
            other => other.map(|()| keep),
        }
    }

    /// Notes the replies at their places in `ids`. If there are more replies than there is room for, the last ones
    /// stay.
    fn take(&mut self, kept: &[Kept], open: &Open, ids: &[u32]) {
        self.ids.iter_mut().zip(ids).for_each(|(to, from)| *to = *from);
        self.known = ids.len().min(self.ids.len());
        let placed = || kept.iter().filter(|kept| kept.placed != LEFT_OUT && kept.placed as usize != open.start);
        let skipped = placed().count().saturating_sub(self.replies.len());
        self.len = 0;
        for (place, kept) in self.replies.iter_mut().zip(placed().skip(skipped)) {
            let len = kept.reply.end.saturating_sub(kept.reply.start);
            *place = Reply { start: kept.placed, end: kept.placed.saturating_add(len), ..kept.reply };
            self.len += 1;
        }
        self.open = Some(Reply::new(open.start as u32, open.start as u32, open.think));
    }
}
