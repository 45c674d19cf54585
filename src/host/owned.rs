//! Values that own the memory that they borrow: an engine with its file and its threads, a tokenizer, a conversation.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed};
use std::boxed::Box;
use std::fmt;
use std::format;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use super::{MappedFile, ThreadPool};
use crate::cache::SeqId;
use crate::conversation::{Conversation, ConversationError, ConversationLimits, Saved};
use crate::engine::{Engine, EngineError, Limits, Plan, PlanError};
use crate::mem::{ALIGN, MemoryError};
use crate::model::{Model, ModelError};
use crate::token::{Tokenizer, VocabError};

/// Why no engine was made for a model file.
///
/// [Example](crate::host#example).
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be read, or the threads cannot be started.
    Io(io::Error),
    /// The file is not a model that Gleed runs.
    Model(ModelError),
    /// The limits do not fit the model.
    Plan(PlanError),
    /// The engine refused its memory.
    Engine(EngineError),
    /// The vocabulary of the file cannot be used.
    Vocab(VocabError),
}

/// Zeroed bytes that start at a multiple of [`ALIGN`], for the memory of engines and tokenizers.
///
/// [Example](crate::cache#example).
#[derive(Debug)]
pub struct AlignedBytes {
    pub(super) bytes: Box<[u8]>,
    len: usize,
}

impl AlignedBytes {
    /// Allocates `len` bytes. If the system does not have so many, the process ends, as everywhere in std.
    pub fn new(len: usize) -> Self {
        // The system hands out zeroed bytes without writing them, so pages that are never used cost nothing. Elements
        // with an alignment of their own would be written.
        Self { bytes: vec![0; len.saturating_add(ALIGN)].into_boxed_slice(), len }
    }

    /// Allocates `len` bytes, for sizes that a user chooses.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if the system does not have so many.
    pub fn try_new(len: usize) -> io::Result<Self> {
        let none = || {
            let text = format!("{len} bytes of memory are needed, which the system does not give");
            io::Error::new(io::ErrorKind::OutOfMemory, text)
        };
        let size = len.checked_add(ALIGN).ok_or_else(none)?;
        let layout = Layout::array::<u8>(size).map_err(|_| none())?;
        // SAFETY: the layout is not empty: it has at least `ALIGN` bytes.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            return Err(none());
        }
        // SAFETY: the global allocator returned `size` bytes with the alignment of bytes, all of them zero, and nothing
        // else owns them.
        let bytes = unsafe { Vec::from_raw_parts(start, size, size) };
        Ok(Self { bytes: bytes.into_boxed_slice(), len })
    }

    /// Returns the bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        aligned(&mut self.bytes, self.len)
    }
}

/// Returns the first `len` bytes from a multiple of [`ALIGN`] on.
pub(super) fn aligned(bytes: &mut [u8], len: usize) -> &mut [u8] {
    let start = bytes.as_ptr().align_offset(ALIGN);
    bytes.get_mut(start..).and_then(|bytes| bytes.get_mut(..len)).unwrap_or_default()
}

/// An engine with everything that it borrows: a mapped file, memory, and a thread pool if the limits have several
/// workers.
///
/// ```
/// use gleed::{EngineError, Limits, host::OwnedEngine, sample::argmax};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limits = Limits { context: 128, workers: 2, ..Limits::default() };
/// let mut owned = OwnedEngine::open("examples/assets/gleed-tales-q8_0.gguf", &limits)?;
/// let token = owned.with(|engine| {
///     let seq = engine.open()?;
///     Ok::<_, EngineError>(argmax(engine.prefill(seq, &[1, 414, 435, 261, 385])?))
/// })??;
/// # assert!(token > 0);
/// # Ok(())
/// # }
/// ```
pub struct OwnedEngine {
    // Fields are dropped in this order: the engine before what it borrows.
    engine: Engine<'static, 'static>,
    _threads: Option<Pinned<ThreadPool>>,
    _memory: Pinned<[u8]>,
    _file: Arc<MappedFile>,
    plan: Plan,
}

impl OwnedEngine {
    /// Maps the model file at `path` and makes an engine for it.
    ///
    /// # Errors
    /// [`OpenError`], with the cause.
    pub fn open(path: impl AsRef<Path>, limits: &Limits) -> Result<Self, OpenError> {
        let file = Arc::new(MappedFile::open(path)?);
        // SAFETY: the map stays where it is, and lives at least as long as this counted reference. The reference is in
        // the same value as the engine that borrows the map, and the engine is dropped first. The lifetime cannot leak:
        // `with` hands the engine out for lifetimes that its caller cannot name.
        let bytes: &'static [u8] = unsafe { &*core::ptr::from_ref(file.bytes()) };
        let model = Model::open(bytes)?;
        let plan = Plan::new(&model, limits)?;
        let memory = Pinned::new(AlignedBytes::try_new(plan.bytes())?.bytes);
        // SAFETY: the memory stays where it is until `_memory` is dropped, after the engine that borrows it, and is
        // used through this reference alone. The lifetime cannot leak, as with the file.
        let bytes: &'static mut [u8] = unsafe { &mut *memory.as_ptr() };
        let mut engine = Engine::new(&model, &plan, aligned(bytes, plan.bytes()))?;
        // The first token reads nearly all of the file. With several workers, one of them reads the file, while the
        // caller goes on.
        let workers = plan.limits().workers;
        let threads = if workers > 1 {
            let file = Arc::clone(&file);
            Some(Pinned::new(Box::new(ThreadPool::with_first(workers, move || file.populate())?)))
        } else {
            file.populate();
            None
        };
        if let Some(threads) = &threads {
            // SAFETY: the pool stays where it is until `_threads` is dropped, after the engine that borrows it. The
            // lifetime cannot leak, as with the file.
            engine.set_parallel(unsafe { &*threads.as_ptr() });
        }
        Ok(Self { engine, _threads: threads, _memory: memory, _file: file, plan })
    }

    /// Calls `f` with the engine and returns its result. Nothing that `f` borrows from the engine can be kept.
    pub fn with<R>(&mut self, f: impl for<'m, 'a> FnOnce(&mut Engine<'m, 'a>) -> R) -> R {
        f(&mut self.engine)
    }

    /// Returns the plan of the engine's memory.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the tokenizer of the model's file.
    ///
    /// # Errors
    /// [`OpenError::Vocab`].
    pub fn tokenizer(&self) -> Result<OwnedTokenizer, OpenError> {
        let gguf = self.engine.model().gguf();
        let len = Tokenizer::plan(gguf)?;
        let tables = Pinned::new(AlignedBytes::new(len).bytes);
        // SAFETY: the tables stay where they are until `_tables` is dropped, after the tokenizer that borrows them, and
        // are used through this reference alone. The lifetime cannot leak: `get` hands out a shorter one.
        let bytes: &'static mut [u8] = unsafe { &mut *tables.as_ptr() };
        let tokenizer = Tokenizer::new(gguf, aligned(bytes, len))?;
        Ok(OwnedTokenizer { tokenizer, _tables: tables, _file: Arc::clone(&self._file) })
    }
}

/// A tokenizer with its tables and the mapped file.
///
/// ```
/// use gleed::{Limits, host::OwnedEngine};
///
/// # fn main() -> Result<(), gleed::host::OpenError> {
/// let tokenizer = OwnedEngine::open("examples/assets/gleed-tales-q8_0.gguf", &Limits::default())?.tokenizer()?;
/// assert_eq!(tokenizer.get().vocab().len(), 1024);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OwnedTokenizer {
    // Fields are dropped in this order: the tokenizer before what it borrows.
    tokenizer: Tokenizer<'static, 'static>,
    _tables: Pinned<[u8]>,
    _file: Arc<MappedFile>,
}

impl OwnedTokenizer {
    /// Returns the tokenizer.
    pub fn get(&self) -> &Tokenizer<'_, '_> {
        &self.tokenizer
    }
}

/// A conversation with its memory.
///
/// ```
/// use gleed::conversation::ConversationLimits;
/// use gleed::{Limits, host::{OwnedConversation, OwnedEngine}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut engine = OwnedEngine::open("examples/assets/gleed-tales-q8_0.gguf", &Limits::default())?;
/// let seq = engine.with(|engine| engine.open())?;
/// let conversation = OwnedConversation::new(seq, &ConversationLimits { replies: 32, tokens: 0 })?;
/// assert_eq!(conversation.seq(), seq);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OwnedConversation {
    // Fields are dropped in this order: the conversation before what it borrows.
    conversation: Conversation<'static>,
    _memory: Pinned<[u8]>,
    limits: ConversationLimits,
}

impl OwnedConversation {
    /// Returns a conversation that continues an empty sequence. See [`Conversation::new`].
    ///
    /// # Errors
    /// [`MemoryError::TooLarge`].
    pub fn new(seq: SeqId, limits: &ConversationLimits) -> Result<Self, MemoryError> {
        let made = Self::in_memory(limits, |memory| Ok((Conversation::new(seq, limits, memory)?, ())));
        made.map(|(conversation, ())| conversation)
    }

    /// Opens a second conversation that begins like this one. See [`Conversation::fork`].
    ///
    /// # Errors
    /// [`ConversationError`].
    pub fn fork(&self, engine: &mut Engine<'_, '_>) -> Result<Self, ConversationError> {
        let made = Self::in_memory(&self.limits, |memory| Ok((self.conversation.fork(engine, memory)?, ())));
        made.map(|(conversation, ())| conversation)
    }

    /// Returns a conversation that was saved, and its entries. See [`Conversation::load`].
    ///
    /// # Errors
    /// [`ConversationError`]. Then the engine is unchanged.
    pub fn load<'b>(
        engine: &mut Engine<'_, '_>,
        bytes: &'b [u8],
        limits: &ConversationLimits,
    ) -> Result<(Self, Saved<'b>), ConversationError> {
        Self::in_memory(limits, |memory| Conversation::load(engine, bytes, limits, memory))
    }

    fn in_memory<T, E: From<MemoryError>>(
        limits: &ConversationLimits,
        make: impl FnOnce(&'static mut [u8]) -> Result<(Conversation<'static>, T), E>,
    ) -> Result<(Self, T), E> {
        let len = Conversation::plan(limits)?;
        let memory = Pinned::new(AlignedBytes::new(len).bytes);
        // SAFETY: the memory stays where it is until `_memory` is dropped, after the conversation that borrows it, and
        // is used through this reference alone. The lifetime cannot leak: all that `make` returns of it is the
        // conversation, which `with` hands out for a lifetime that its caller cannot name.
        let bytes: &'static mut [u8] = unsafe { &mut *memory.as_ptr() };
        let (conversation, rest) = make(aligned(bytes, len))?;
        Ok((Self { conversation, _memory: memory, limits: *limits }, rest))
    }

    /// Returns the sequence.
    pub fn seq(&self) -> SeqId {
        self.conversation.seq()
    }

    /// Calls `f` with the conversation and returns its result.
    pub fn with<R>(&mut self, f: impl for<'a> FnOnce(&mut Conversation<'a>) -> R) -> R {
        f(&mut self.conversation)
    }
}

/// A box without the claim that nothing else points to its content, so it may move while the content is borrowed.
#[derive(Debug)]
pub(super) struct Pinned<T: ?Sized>(NonNull<T>);

impl<T: ?Sized> Pinned<T> {
    pub(super) fn new(content: Box<T>) -> Self {
        Self(NonNull::from(Box::leak(content)))
    }

    /// Returns the address of the content.
    pub(super) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: ?Sized> Drop for Pinned<T> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a box in `new`, and this is the only place that takes it back. The value that
        // borrows the content is in the same struct, in a field before this one, and so was dropped before.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: it owns a T, which may go to other threads, and gives no access to it.
unsafe impl<T: ?Sized + Send> Send for Pinned<T> {}

// SAFETY: a shared reference gives only the address of the content, and no access to it.
unsafe impl<T: ?Sized + Sync> Sync for Pinned<T> {}

impl fmt::Debug for OwnedEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedEngine").field("engine", &self.engine).finish_non_exhaustive()
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Model(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
            Self::Vocab(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ModelError> for OpenError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

impl From<PlanError> for OpenError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl From<VocabError> for OpenError {
    fn from(error: VocabError) -> Self {
        Self::Vocab(error)
    }
}

impl From<EngineError> for OpenError {
    fn from(error: EngineError) -> Self {
        Self::Engine(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf");

    #[test]
    fn an_owned_engine_can_move_and_work() {
        fn is_send<T: Send>() {}
        is_send::<OwnedEngine>();
        let limits = Limits { workers: 2, ..Limits::default() };
        let mut engine = Box::new(OwnedEngine::open(DEMO, &limits).unwrap());
        let next = engine.with(|engine| {
            let seq = engine.open().unwrap();
            let logits = engine.prefill(seq, &[1, 414, 435, 261, 385]).unwrap();
            logits.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(id, _)| id)
        });
        assert_eq!(next, Some(952));
        let moved = *engine;
        assert!(moved.plan().bytes() > 0);
    }

    #[test]
    fn errors_name_their_cause() {
        let missing = OwnedEngine::open("/no/such/file", &Limits::default());
        assert!(matches!(missing, Err(OpenError::Io(_))));
        let text = OwnedEngine::open(file!(), &Limits::default());
        assert!(matches!(text, Err(OpenError::Model(_))));
        let limits = Limits { rows: 0, ..Limits::default() };
        assert!(matches!(OwnedEngine::open(DEMO, &limits), Err(OpenError::Plan(_))));
    }
}
