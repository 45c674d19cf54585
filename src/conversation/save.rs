//! Conversations as bytes: the messages, which tokens the model wrote, and the snapshot of the sequence. The format is
//! in `docs/conversation.md`.

use super::reply::Reply;
use super::{Conversation, ConversationError, ConversationLimits, Entry};
use crate::cache::{CacheError, SeqId, SnapshotError, SnapshotOptions};
use crate::engine::{Engine, EngineError};
use crate::num::Xxh64;
use crate::turns::{Message, Role, ToolResult};

const MAGIC: [u8; 8] = *b"GLEEDTK\0";
/// The version of the format.
const VERSION: u32 = 1;
/// A conversation goes back to two checkpoints: at the end of its last turn, and before the last token of the new one.
const SNAPSHOT: SnapshotOptions<'static> = SnapshotOptions { base: 0, state: &[], checkpoints: 2 };
/// Number of bytes of a checksum.
const CHECKSUM: usize = 8;
/// Value of `start` if no reply is open.
const NOTHING: u32 = u32::MAX;

/// The messages of a conversation that was saved.
///
/// [Example](crate::conversation#example).
#[derive(Clone, Copy, Debug)]
pub struct Saved<'b> {
    reader: Reader<'b>,
    count: u32,
}

impl<'b> Saved<'b> {
    /// Returns the messages of a saved conversation of any model. All bytes before the snapshot are verified.
    ///
    /// # Errors
    /// [`ConversationError::NoConversation`], [`ConversationError::Version`], [`ConversationError::Damaged`].
    pub fn read(bytes: &'b [u8]) -> Result<Self, ConversationError> {
        Ok(Head::read(bytes)?.saved)
    }

    /// Returns the entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'b>> + use<'b> {
        let mut reader = self.reader;
        // All entries were read once before, so this cannot fail.
        (0..self.count).map_while(move |_| reader.entry().ok())
    }
}

impl<'a> Conversation<'a> {
    /// Returns the number of bytes that [`Conversation::save`] writes.
    ///
    /// # Errors
    /// [`ConversationError::Engine`] if the sequence is unknown or has unfinished work.
    pub fn saved_len(&self, engine: &Engine<'_, '_>, entries: &[Entry<'_>]) -> Result<usize, ConversationError> {
        let snapshot = self.snapshot_len(engine)?;
        Ok(self.head_len(engine, entries, snapshot)?.saturating_add(snapshot))
    }

    /// Writes the conversation to the beginning of `out`: the host's entries, the places of the tokens that the model
    /// wrote, and the sequence with its keys and values. Returns the number of bytes. A sequence whose windows have
    /// given back blocks is written without keys and values, and is read again after it was loaded.
    ///
    /// # Errors
    /// [`ConversationError::Engine`] if the sequence is unknown or has unfinished work; [`ConversationError::Buffer`].
    /// `out` is not touched then.
    pub fn save(
        &self,
        engine: &Engine<'_, '_>,
        entries: &[Entry<'_>],
        out: &mut [u8],
    ) -> Result<usize, ConversationError> {
        let snapshot = self.snapshot_len(engine)?;
        let head = self.head_len(engine, entries, snapshot)?;
        let (needed, given) = (head.saturating_add(snapshot), out.len());
        let short = ConversationError::Buffer { needed, given };
        let (mut rest, behind) =
            out.split_at_mut_checked(head).filter(|(_, rest)| rest.len() >= snapshot).ok_or(short)?;
        if snapshot > 0 {
            engine.snapshot_with(self.seq, &SNAPSHOT, behind)?;
        }
        let mut hash = Xxh64::new();
        let mut put = |bytes: &[u8]| {
            hash.update(bytes);
            rest = copied(core::mem::take(&mut rest), bytes);
        };
        self.write_head(engine, entries, [head, snapshot], &mut put)?;
        copied(rest, &hash.finish().to_le_bytes());
        Ok(needed)
    }

    /// Returns a conversation that goes on where a saved one was, and the saved entries. It takes a new sequence and
    /// `memory`. All bytes are verified first.
    ///
    /// # Errors
    /// [`ConversationError::NoConversation`], [`ConversationError::Version`], [`ConversationError::Damaged`],
    /// [`ConversationError::Memory`]; [`ConversationError::Engine`] for another model, for a damaged snapshot, or if
    /// there is no room. Nothing has changed then.
    pub fn load<'b>(
        engine: &mut Engine<'_, '_>,
        bytes: &'b [u8],
        limits: &ConversationLimits,
        memory: &'a mut [u8],
    ) -> Result<(Self, Saved<'b>), ConversationError> {
        let head = Head::read(bytes)?;
        let expected = engine.fingerprint();
        if head.fingerprint != expected {
            return Err(SnapshotError::Model { expected, found: head.fingerprint }.into());
        }
        let mut talk = Self::new(SeqId::from_bits(0), limits, memory)?;
        // There may be more replies than there is room for: the last ones stay.
        let skipped = head.replies.clone().count().saturating_sub(talk.replies.len());
        talk.len = fill(talk.replies, head.replies.skip(skipped));
        talk.known = fill(talk.ids, head.ids);
        (talk.open, talk.left_out) = (head.open, head.left_out);
        talk.seq = if head.snapshot.is_empty() { engine.open()? } else { engine.restore(head.snapshot)? };
        Ok((talk, head.saved))
    }

    /// Returns the number of bytes of the sequence's snapshot, or 0 if the sequence is empty or has forgotten some of
    /// its blocks.
    fn snapshot_len(&self, engine: &Engine<'_, '_>) -> Result<usize, EngineError> {
        match engine.snapshot_len_with(self.seq, &SNAPSHOT) {
            Ok(_) if engine.seq_len(self.seq)? == 0 => Ok(0),
            Err(EngineError::Cache(CacheError::WindowGone { .. })) => Ok(0),
            other => other,
        }
    }

    /// Returns the number of bytes before the snapshot.
    fn head_len(
        &self,
        engine: &Engine<'_, '_>,
        entries: &[Entry<'_>],
        snapshot: usize,
    ) -> Result<usize, ConversationError> {
        let mut len = CHECKSUM;
        self.write_head(engine, entries, [0, snapshot], &mut |bytes| len = len.saturating_add(bytes.len()))?;
        Ok(len)
    }

    /// Hands over all bytes before the checksum of the head.
    fn write_head(
        &self,
        engine: &Engine<'_, '_>,
        entries: &[Entry<'_>],
        lens: [usize; 2],
        put: &mut dyn FnMut(&[u8]),
    ) -> Result<(), ConversationError> {
        let tokens = engine.seq_len(self.seq)?;
        let source = self.source(engine);
        // A snapshot has the ids of the sequence's tokens.
        let ids = if lens[1] > 0 && tokens >= self.known { 0 } else { tokens.max(self.known) };
        let ids = || (0..ids).map_while(|at| source.token(at));
        put(&MAGIC);
        put(&VERSION.to_le_bytes());
        put(&(entries.len() as u32).to_le_bytes());
        lens.iter().for_each(|&len| put(&(len as u64).to_le_bytes()));
        put(&engine.fingerprint().to_le_bytes());
        let open = self.open.unwrap_or(Reply { start: NOTHING, ..Reply::default() });
        for number in [self.left_out as u32, self.len as u32, ids().count() as u32, open.start, open.think] {
            put(&number.to_le_bytes());
        }
        for reply in self.replies.iter().take(self.len) {
            [reply.start, reply.end, reply.think].iter().for_each(|number| put(&number.to_le_bytes()));
        }
        ids().for_each(|id| put(&id.to_le_bytes()));
        entries.iter().for_each(|entry| write_entry(entry, put));
        Ok(())
    }
}

/// Copies bytes to the beginning of a buffer. Returns the rest of the buffer.
fn copied<'o>(out: &'o mut [u8], bytes: &[u8]) -> &'o mut [u8] {
    let (place, rest) = out.split_at_mut_checked(bytes.len()).unwrap_or_default();
    place.iter_mut().zip(bytes).for_each(|(to, &from)| *to = from);
    rest
}

/// Fills places from the first on. Returns how many it filled.
fn fill<T>(places: &mut [T], values: impl Iterator<Item = T>) -> usize {
    places.iter_mut().zip(values).map(|(to, from)| *to = from).count()
}

/// Numbers of the kinds of entries.
const SYSTEM: u32 = 0;
const USER: u32 = 1;
const ASSISTANT: u32 = 2;
const RESULT: u32 = 3;
const RESULT_WITH_ID: u32 = 4;

fn write_entry(entry: &Entry<'_>, put: &mut dyn FnMut(&[u8])) {
    let (kind, texts) = match entry {
        Entry::Message(Message { role: Role::System, text }) => (SYSTEM, [Some(*text), None, None]),
        Entry::Message(Message { role: Role::User, text }) => (USER, [Some(*text), None, None]),
        Entry::Message(Message { role: Role::Assistant, text }) => (ASSISTANT, [Some(*text), None, None]),
        Entry::Result(ToolResult { name, id, text }) => {
            (if id.is_some() { RESULT_WITH_ID } else { RESULT }, [Some(*name), Some(*text), *id])
        }
    };
    put(&kind.to_le_bytes());
    for text in texts.into_iter().flatten() {
        put(&(text.len() as u64).to_le_bytes());
        put(text.as_bytes());
    }
}

/// A saved conversation: the contents before the snapshot, and the bytes of the snapshot.
struct Head<'b, R, I> {
    fingerprint: u64,
    left_out: usize,
    open: Option<Reply>,
    replies: R,
    ids: I,
    saved: Saved<'b>,
    snapshot: &'b [u8],
}

impl<'b> Head<'b, (), ()> {
    /// Reads and checks everything before the snapshot. Of the snapshot only the length is checked.
    fn read(
        bytes: &'b [u8],
    ) -> Result<
        Head<'b, impl Iterator<Item = Reply> + Clone + use<'b>, impl Iterator<Item = u32> + use<'b>>,
        ConversationError,
    > {
        let mut reader = Reader { bytes, rest: bytes };
        if reader.bytes.get(..MAGIC.len()) != Some(&MAGIC) {
            return Err(ConversationError::NoConversation);
        }
        reader.take(MAGIC.len())?;
        let given = reader.u32()?;
        if given != VERSION {
            return Err(ConversationError::Version { given, known: VERSION });
        }
        let count = reader.u32()?;
        let (head, snapshot) = (reader.len()?, reader.len()?);
        let fingerprint = reader.u64()?;
        let (head, snapshot) =
            bytes.split_at_checked(head).filter(|(_, rest)| rest.len() == snapshot).ok_or(reader.damaged())?;
        let (content, sum) = head.split_last_chunk::<CHECKSUM>().ok_or(reader.damaged())?;
        if Xxh64::hash(content).to_le_bytes() != *sum {
            return Err(ConversationError::Damaged { at: content.len() });
        }
        reader = Reader { bytes: content, rest: content.get(reader.read_len()..).unwrap_or_default() };
        let [left_out, replies, ids, start, think] =
            [reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?];
        let (replies, ids) = (reader.numbers(replies, 3)?, reader.numbers(ids, 1)?);
        let replies = || {
            replies.as_chunks::<3>().0.iter().map(|words| {
                let [start, end, think] = words.map(u32::from_le_bytes);
                Reply { start, end, think }
            })
        };
        let saved = Saved { reader, count };
        (0..count).try_for_each(|_| reader.entry().map(drop))?;
        let open = (start != NOTHING).then_some(Reply { start, end: start, think });
        let mut before = 0;
        let is_right = replies().chain(open).all(|reply| {
            let follows = before <= reply.start && reply.start <= reply.end && reply.think <= 2;
            before = reply.end;
            follows
        });
        if !is_right || !reader.rest.is_empty() {
            return Err(reader.damaged());
        }
        let ids = ids.iter().map(|id| u32::from_le_bytes(*id));
        Ok(Head { fingerprint, left_out: left_out as usize, open, replies: replies(), ids, saved, snapshot })
    }
}

/// Reader of the bytes of a saved conversation.
#[derive(Clone, Copy, Debug)]
struct Reader<'b> {
    bytes: &'b [u8],
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    /// Returns the number of bytes that were read.
    fn read_len(&self) -> usize {
        self.bytes.len().saturating_sub(self.rest.len())
    }

    fn damaged(&self) -> ConversationError {
        ConversationError::Damaged { at: self.read_len() }
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], ConversationError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(self.damaged())?;
        self.rest = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, ConversationError> {
        let bytes = self.take(4)?;
        Ok(bytes.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes)))
    }

    fn u64(&mut self) -> Result<u64, ConversationError> {
        Ok(u64::from(self.u32()?) | u64::from(self.u32()?) << 32)
    }

    fn len(&mut self) -> Result<usize, ConversationError> {
        let damaged = self.damaged();
        usize::try_from(self.u64()?).map_err(|_| damaged)
    }

    /// Reads `count` records of `words` numbers each.
    fn numbers(&mut self, count: u32, words: usize) -> Result<&'b [[u8; 4]], ConversationError> {
        let len = (count as usize).checked_mul(words).and_then(|count| count.checked_mul(4)).ok_or(self.damaged())?;
        Ok(self.take(len)?.as_chunks().0)
    }

    fn text(&mut self) -> Result<&'b str, ConversationError> {
        let damaged = self.damaged();
        let len = self.len()?;
        core::str::from_utf8(self.take(len)?).map_err(|_| damaged)
    }

    fn entry(&mut self) -> Result<Entry<'b>, ConversationError> {
        let damaged = self.damaged();
        let message = |role, text| Ok(Entry::Message(Message { role, text }));
        match self.u32()? {
            SYSTEM => message(Role::System, self.text()?),
            USER => message(Role::User, self.text()?),
            ASSISTANT => message(Role::Assistant, self.text()?),
            kind @ (RESULT | RESULT_WITH_ID) => {
                let (name, text) = (self.text()?, self.text()?);
                let id = if kind == RESULT_WITH_ID { Some(self.text()?) } else { None };
                Ok(Entry::Result(ToolResult { name, id, text }))
            }
            _ => Err(damaged),
        }
    }
}
