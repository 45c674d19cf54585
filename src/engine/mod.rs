//! The engine: sequences, batches of rows, and steps of bounded work.
//!
//! The paved path: [`Model::open`], [`Plan::new`], [`Engine::new`] in memory of the caller, then [`Engine::open`],
//! [`Engine::prefill`] and [`Engine::decode_step`]. A host that has a frame to draw calls what the last two are made
//! of: [`Engine::queue`] and [`Engine::step`].
//!
//! # Example
//!
//! What a host does when a call is refused. ([The guide](crate::guide) shows the calls themselves.)
//!
//! ```
//! use gleed::cache::{CacheError, SnapshotOptions};
//! use gleed::engine::PlanError;
//! use gleed::{Engine, EngineError, Limits, Model, Plan, SeqId, StreamError};
//!
//! /// Continues a story. If there is no room, all but its beginning is dropped first.
//! fn tell(engine: &mut Engine<'_, '_>, seq: SeqId, tokens: &[u32]) -> Result<(), EngineError> {
//!     match engine.can_prefill(seq, tokens.len()) {
//!         Err(EngineError::Cache(CacheError::ContextFull { .. } | CacheError::OutOfBlocks { .. })) => {
//!             engine.rewind(seq, 5)?;
//!         }
//!         other => other?,
//!     }
//!     engine.prefill(seq, tokens).map(|_logits| ())
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! let refused = Plan::new(&model, &Limits { rows: 0, ..Limits::default() }).err();
//! assert_eq!(refused, Some(PlanError::Limit { name: "rows", given: 0, min: 1, max: 65_536 }));
//! let plan = Plan::new(&model, &Limits { context: 32, ..Limits::default() })?;
//! # let mut memory = vec![0; plan.bytes() + gleed::mem::ALIGN];
//! # let start = memory.as_ptr().align_offset(gleed::mem::ALIGN);
//! # let mut engine = Engine::new(&model, &plan, &mut memory[start..])?;
//! let seq = engine.open()?;
//! for tokens in [&[1, 414, 435, 261, 385][..], &[300; 20], &[301; 20]] {
//!     tell(&mut engine, seq, tokens)?;
//! }
//!
//! // A call that fails changes nothing.
//! let wrong = tell(&mut engine, seq, &[9_999]);
//! assert_eq!(wrong, Err(EngineError::Token { index: 0, token: 9_999, vocab: 1024 }));
//! assert_eq!(engine.seq_len(seq)?, 25);
//!
//! // What the host's own callback says comes back to it.
//! let saved = engine.write_snapshot(seq, &SnapshotOptions::default(), |_| Err("the disk is full"));
//! assert_eq!(saved, Err(StreamError::Host("the disk is full")));
//! # Ok(())
//! # }
//! ```

mod adapters;
mod batch;
mod checkpoint;
mod chosen;
mod device;
mod error;
mod fingerprint;
mod given;
mod hidden;
mod metrics;
mod plan;
mod prefill;
mod progress;
mod sharing;
mod snapshot;
mod step;
mod whole;

pub use chosen::DecodeError;
pub use error::{EngineError, StreamError};
pub use plan::{Limits, Plan, PlanError};
pub use progress::Progress;
pub use step::{Logits, Step};

pub use crate::weights::Pooling;

use crate::cache::{HostPolicy, KvCache, SeqId};
use crate::kernels::fpenv;
use crate::mem::{Arena, MemoryError};
use crate::metrics::Recorder;
use crate::model::Model;
use crate::ops::{Batch, Capacity, Row, Run};
pub use crate::par::{Budget, Deadline};
use crate::par::{Parallel, Serial};
use crate::program::{Cursor, Forward, StepInfo};
use fingerprint::Fingerprint;
use step::{Phase, Queue};

/// A model, its sequences and the batch in progress, in the caller's memory.
///
/// [The guide has an example](crate::guide#generate).
pub struct Engine<'m, 'a> {
    model: Model<'m>,
    /// Fingerprint of the model, for snapshots.
    fingerprint: Fingerprint,
    parts: Parts<'m, 'a>,
    parallel: &'a dyn Parallel,
    phase: Phase,
    /// Number of rows in the batch in progress, or in the last one.
    batch: usize,
    /// Number of rows of the batch that go through all layers. They come first.
    batch_finished: usize,
    /// Number of these finished rows that have logits. They come first among them.
    batch_logits: usize,
    /// Sequence slot whose queue comes first in the next batch. The slots take turns.
    next_slot: usize,
}

impl core::fmt::Debug for Engine<'_, '_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Engine").field("phase", &self.phase).field("batch", &self.batch).finish_non_exhaustive()
    }
}

/// The parts of an engine that are carved from the arena, and the limits that belong to them.
struct Parts<'m, 'a> {
    cache: KvCache<'a>,
    /// Queued tokens, per sequence slot.
    queues: &'a mut [Queue],
    /// Rows of a batch.
    rows: &'a mut [Row],
    /// Rows of each sequence in the batch, by sequence slot.
    runs: &'a mut [Run],
    forward: Forward<'m, 'a>,
    logit_rows: usize,
    checkpoint_every: usize,
    recorder: Recorder<'a>,
}

impl<'m, 'a> Parts<'m, 'a> {
    fn carve(arena: &mut Arena<'a>, model: &Model<'m>, limits: &Limits, on_device: bool) -> Result<Self, MemoryError> {
        let geometry = limits.geometry(model);
        let logit_rows = if model.has_logits() { limits.logit_rows } else { 0 };
        let capacity = Capacity {
            // A device has buffers of its own for the rows.
            rows: if on_device { 0 } else { limits.rows },
            logit_rows,
            context: limits.reach().min(model.config().longest()),
            visibility: geometry.visibility,
            sequences: limits.sequences,
            adapters: limits.adapters,
            adapter_rank: limits.adapter_rank,
            workers: if on_device { 0 } else { limits.workers },
            level: limits.level,
        };
        let queues = arena.slice("queues", limits.sequences)?;
        queues.fill(Queue::EMPTY);
        Ok(Self {
            queues,
            rows: arena.slice("batch rows", limits.rows)?,
            runs: arena.slice("batch runs", limits.sequences)?,
            forward: Forward::carve(arena, model.loaded(), capacity)?,
            cache: KvCache::carve_with_states(arena, geometry, limits.states(model), on_device)?,
            logit_rows,
            checkpoint_every: limits.checkpoint_every,
            recorder: Recorder::carve(arena)?,
        })
    }

    /// Returns the number of units of one token at the end of a sequence of `context` tokens.
    fn units_per_token(&self, context: usize) -> usize {
        let row = Row::at(context.saturating_sub(1));
        self.forward.units_from(Cursor::START, self.one(&[row]))
    }

    /// Calls `found` with each step of one token at the end of a sequence of `context` tokens, in order.
    fn for_each_step(&self, context: usize, found: &mut dyn FnMut(&StepInfo)) {
        let row = Row::at(context.saturating_sub(1));
        self.forward.for_each_step(self.one(&[row]), found);
    }

    /// Returns a batch of one row, for counting units.
    fn one<'b>(&self, rows: &'b [Row; 1]) -> Batch<'b> {
        Batch { rows, finished: 1, logits: self.logit_rows.min(1), runs: &[Run::ONE] }
    }
}

impl<'m, 'a> Engine<'m, 'a> {
    /// Returns an engine with no sequences. `memory` must start at a multiple of [`Plan::alignment`] and have at least
    /// [`Plan::bytes`] bytes. The pages of keys and values are not touched.
    ///
    /// # Errors
    /// [`EngineError::Memory`], which says what is needed; [`EngineError::DevicePlan`] for a plan of
    /// [`Plan::for_device`].
    pub fn new(model: &Model<'m>, plan: &Plan, memory: &'a mut [u8]) -> Result<Self, EngineError> {
        if plan.is_for_device() { Err(EngineError::DevicePlan) } else { Self::in_memory(model, plan, memory) }
    }

    fn in_memory(model: &Model<'m>, plan: &Plan, memory: &'a mut [u8]) -> Result<Self, EngineError> {
        let (needed, given) = (plan.bytes(), memory.len());
        let mut arena = Arena::new(memory)?;
        if given < needed {
            return Err(MemoryError::TooSmall { needed, given }.into());
        }
        fpenv::with_default(|| Self::carve(&mut arena, model, plan))
    }

    /// Takes the memory of the engine from the arena. The engine is a large value, so it is built in the place of the
    /// result.
    fn carve(arena: &mut Arena<'a>, model: &Model<'m>, plan: &Plan) -> Result<Self, EngineError> {
        Ok(Self {
            parts: Parts::carve(arena, model, plan.limits(), plan.is_for_device())?,
            model: *model,
            fingerprint: Fingerprint::default(),
            parallel: &Serial,
            phase: Phase::Idle,
            batch: 0,
            batch_finished: 0,
            batch_logits: 0,
            next_slot: 0,
        })
    }

    /// Lends the host's threads to the engine. It uses at most `Limits::workers` of them.
    pub fn set_parallel(&mut self, parallel: &'a dyn Parallel) {
        self.parallel = parallel;
    }

    /// Lets a host choose which sequence is closed, which block is evicted and which block is handed out. `None` brings
    /// the engine's own choices back. See [`HostPolicy`].
    pub fn set_host_policy(&mut self, policy: Option<&'a mut dyn HostPolicy>) {
        self.parts.cache.set_host_policy(policy);
    }

    /// Returns the model.
    pub fn model(&self) -> &Model<'m> {
        &self.model
    }

    /// Returns how many rows of a batch can have logits (`Limits::logit_rows`), or 0 in an encoder without logits.
    pub fn logit_rows(&self) -> usize {
        self.parts.logit_rows
    }

    /// Returns the cache, for reading.
    pub fn cache(&self) -> &KvCache<'a> {
        &self.parts.cache
    }

    /// Returns the cache, for setting keys and values from outside. A sequence that is opened or forked through the
    /// cache itself has no adapters.
    ///
    /// # Errors
    /// [`EngineError::Busy`] while any sequence has unfinished work.
    pub fn cache_mut(&mut self) -> Result<&mut KvCache<'a>, EngineError> {
        self.check_idle()?;
        Ok(&mut self.parts.cache)
    }

    /// Opens an empty sequence.
    ///
    /// # Errors
    /// [`EngineError::Cache`] if as many sequences are open as the limits allow.
    pub fn open(&mut self) -> Result<SeqId, EngineError> {
        let seq = self.parts.cache.open()?;
        self.parts.forward.context.adapters.begin(seq, None);
        Ok(seq)
    }

    /// Closes a sequence and frees its blocks.
    ///
    /// # Errors
    /// [`EngineError::Cache`] if the sequence is unknown, or busy (cancel it first).
    pub fn close(&mut self, seq: SeqId) -> Result<(), EngineError> {
        self.check_quiet(seq)?;
        Ok(self.parts.cache.close(seq)?)
    }

    /// Opens a sequence that continues the first `keep` tokens of another; see [`KvCache::fork`].
    ///
    /// # Errors
    /// [`EngineError::Cache`], as [`KvCache::fork`]; in an encoder [`EngineError::Whole`] if `keep` is neither 0 nor
    /// all.
    pub fn fork(&mut self, seq: SeqId, keep: usize) -> Result<SeqId, EngineError> {
        self.check_quiet(seq)?;
        self.check_part(seq, keep)?;
        let fork = fpenv::with_default(|| self.parts.cache.fork(seq, keep))?;
        self.parts.forward.context.adapters.begin(fork, Some(seq));
        self.note_fork(fork)?;
        Ok(fork)
    }

    /// Keeps only the first `keep` tokens of a sequence.
    ///
    /// In a model with recurrent layers this goes back to the last checkpoint at or before `keep`
    /// ([`Engine::computed_at`] returns its position). The tokens from there to `keep` are computed again, with the
    /// same bits, together with the tokens that are queued next.
    ///
    /// # Errors
    /// [`EngineError::Cache`], as [`KvCache::rewind`]; in an encoder [`EngineError::Whole`] if `keep` is neither 0 nor
    /// all.
    pub fn rewind(&mut self, seq: SeqId, keep: usize) -> Result<(), EngineError> {
        let before = self.parts.cache.computed(seq)?;
        self.rewind_uncounted(seq, keep)?;
        self.note_rewind(seq, before)
    }

    /// [`Engine::rewind`] without a note in the metrics: the caller notes which tokens the rewind saves.
    pub(crate) fn rewind_uncounted(&mut self, seq: SeqId, keep: usize) -> Result<(), EngineError> {
        self.check_quiet(seq)?;
        self.check_part(seq, keep)?;
        Ok(self.parts.cache.rewind(seq, keep)?)
    }

    /// Empties a sequence.
    ///
    /// # Errors
    /// [`EngineError::Cache`].
    pub fn reset(&mut self, seq: SeqId) -> Result<(), EngineError> {
        self.rewind(seq, 0)
    }

    /// Returns the number of tokens in a sequence.
    ///
    /// # Errors
    /// [`EngineError::Cache`] for an unknown sequence.
    pub fn seq_len(&self, seq: SeqId) -> Result<usize, EngineError> {
        Ok(self.parts.cache.seq_len(seq)?)
    }

    /// Checks whether `tokens` more tokens fit the sequence and the pool. The error says what is missing.
    ///
    /// # Errors
    /// [`EngineError::Cache`], and in an encoder [`EngineError::Whole`] and [`EngineError::TextRows`]: the errors that
    /// [`Engine::queue`] would return for this number of tokens. No tokens always fit.
    pub fn can_extend(&self, seq: SeqId, tokens: usize) -> Result<(), EngineError> {
        self.parts.cache.can_extend(seq, tokens)?;
        if tokens > 0 { self.check_whole(self.seq_len(seq)?, tokens) } else { Ok(()) }
    }

    /// Checks whether `tokens` more tokens can be appended with [`Engine::prefill`], [`Engine::embed`] or
    /// [`Engine::log_probs`]. These make the same check of the number of tokens before they look at the tokens
    /// themselves.
    ///
    /// # Errors
    /// [`EngineError::Busy`], [`EngineError::Empty`], [`EngineError::Cache`], and in an encoder [`EngineError::Whole`]
    /// and [`EngineError::TextRows`]: the errors that [`Engine::prefill`] would return for this number of tokens.
    pub fn can_prefill(&self, seq: SeqId, tokens: usize) -> Result<(), EngineError> {
        self.check_idle()?;
        self.seq_len(seq)?;
        if tokens == 0 {
            return Err(EngineError::Empty);
        }
        self.check_whole(self.seq_len(seq)?, tokens)?;
        Ok(self.parts.cache.can_extend_in_steps(seq, tokens, self.chunk())?)
    }
}
