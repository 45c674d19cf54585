//! The memory that an engine needs for given limits, computed before anything runs.

use core::fmt;

use super::Parts;
use crate::cache::{BLOCK_TOKENS, KvGeometry, KvKind, KvType, SeqId, StateGeometry, Visibility, Window};
use crate::device::{KvLayout, StateLayout};
use crate::kernels::{KvElement, Level};
use crate::mem::{ALIGN, Arena, MemoryError, Section};
use crate::model::Model;
use crate::ops::MAX_ADAPTERS;
use crate::program::{StepInfo, StepView};

/// What an engine must be able to hold.
///
/// [The guide has an example](crate::guide#a-crowd).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of sequences at a time.
    pub sequences: usize,
    /// Largest number of tokens per sequence. 0 stands for the context that the model was trained on, but at most 4096.
    /// With a `window`, the largest number of tokens that are visible at a time: a sequence then goes on without end.
    pub context: usize,
    /// Tokens that stay visible, in all layers. A layer's own window can hide more. Positions stay absolute: beyond the
    /// context that the model was trained on, its results are at the host's risk. Not for encoders.
    pub window: Window,
    /// Number of rows per batch: how many tokens of prompts or of different sequences run together. 256 rows for each
    /// worker make long prompts fastest.
    pub rows: usize,
    /// Number of rows per batch that can have logits; at most `rows`.
    pub logit_rows: usize,
    /// Kind of cache: how keys and values are kept.
    pub kv_kind: KvKind,
    /// Element types of keys and values.
    pub kv_type: KvType,
    /// Number of blocks of 16 tokens in the pool. 0 stands for as many as all sequences need at full length. The kind
    /// `basic` always reserves that many.
    pub kv_blocks: usize,
    /// Whether other sequences can find blocks by their tokens and reuse them: see `Engine::reuse`. Only for the kind
    /// `paged`, without windows, and not for encoders. It takes at most 16 bytes per block.
    pub prefix_cache: bool,
    /// Number of checkpoints of recurrent layers' states at a time, of all sequences together. Each takes the memory of
    /// a state. A checkpoint is made where several tokens that were queued together end, such as a prompt. The one that
    /// was made first gives way to it. See also `Engine::checkpoint` and `Engine::checkpoint_at`. A conversation needs
    /// two.
    pub checkpoints: usize,
    /// Number of tokens between further checkpoints, rounded up to a multiple of 16. 0 stands for no further
    /// checkpoints.
    pub checkpoint_every: usize,
    /// Number of LoRA adapters that can be loaded at a time, at most 8. See `Engine::load_adapter`.
    pub adapters: usize,
    /// Largest rank of the adapters' matrices.
    pub adapter_rank: usize,
    /// Number of threads that work at the same time.
    pub workers: usize,
    /// Instruction set that the kernels use.
    pub level: Level,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sequences: 1,
            context: 0,
            window: Window::ALL,
            rows: 256,
            logit_rows: 1,
            kv_kind: KvKind::default(),
            kv_type: KvType::default(),
            kv_blocks: 0,
            prefix_cache: false,
            checkpoints: 0,
            checkpoint_every: 0,
            adapters: 0,
            adapter_rank: 64,
            workers: 1,
            level: Level::detect(),
        }
    }
}

/// Why limits were refused.
///
/// [Example](crate::engine#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// A limit is outside of its range.
    Limit {
        /// Name of the limit.
        name: &'static str,
        /// The value given.
        given: usize,
        /// Smallest possible value.
        min: usize,
        /// Largest possible value.
        max: usize,
    },
    /// This build leaves out the type of keys or values.
    NotBuilt {
        /// The element type that is left out.
        element: KvElement,
    },
    /// No device can run this yet.
    Device {
        /// Name of the thing that a device cannot run.
        what: &'static str,
    },
    /// A layer that predicts further ahead cannot run with this.
    Predictor {
        /// Name of the thing that it cannot run with.
        what: &'static str,
    },
    /// The memory cannot be addressed.
    Memory(MemoryError),
}

impl From<MemoryError> for PlanError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit { name, given, min, max } => write!(f, "limit {name} is {given}, it must be {min} to {max}"),
            Self::NotBuilt { element } => write!(f, "keys and values of type {} are not in this build", element.name()),
            Self::Device { what } => write!(f, "no device runs {what} yet"),
            Self::Predictor { what } => write!(f, "a layer that predicts further ahead cannot run with {what}"),
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for PlanError {}

/// The memory of an engine: its size, and what lies where in it.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Debug)]
pub struct Plan {
    limits: Limits,
    arena: Arena<'static>,
    units_per_token: usize,
    kv_block_bytes: usize,
    on_device: bool,
}

impl Plan {
    /// Computes sizes and offsets of all sections. Limits that are 0 for "default" are filled in.
    ///
    /// # Errors
    /// [`PlanError::Limit`] with the limit that is out of range; [`PlanError::NotBuilt`], [`PlanError::Predictor`],
    /// [`PlanError::Memory`].
    pub fn new(model: &Model<'_>, limits: &Limits) -> Result<Self, PlanError> {
        Self::measure(model, limits.resolve(model)?, false)
    }

    /// Computes the plan of an engine that runs on a device and has its keys and values there: see
    /// [`Engine::with_device`](crate::Engine::with_device). The memory of the host has tables and logits, and neither
    /// keys and values nor the buffers of a batch.
    ///
    /// # Errors
    /// As [`Plan::new`]; [`PlanError::Device`] for what no device can do yet.
    #[cfg(feature = "device")]
    pub fn for_device(model: &Model<'_>, limits: &Limits) -> Result<Self, PlanError> {
        let (limits, config) = (limits.resolve(model)?, model.config());
        let refused = [
            (limits.kv_kind != KvKind::Paged, "a cache of another kind than paged"),
            (limits.adapters > 0, "adapters"),
            (config.is_predictor(), "a layer that predicts further ahead"),
            (!config.attention.causal, "an encoder"),
        ];
        match refused.into_iter().find(|(is, _)| *is) {
            Some((_, what)) => Err(PlanError::Device { what }),
            None => Self::measure(model, limits, true),
        }
    }

    fn measure(model: &Model<'_>, limits: Limits, on_device: bool) -> Result<Self, PlanError> {
        let mut arena = Arena::measuring();
        let parts = Parts::carve(&mut arena, model, &limits, on_device)?;
        let units_per_token = parts.units_per_token(limits.geometry(model).context);
        let kv_block_bytes = limits.geometry(model).block_bytes();
        Ok(Self { limits, arena, units_per_token, kv_block_bytes, on_device })
    }

    /// Returns whether the plan was made by [`Plan::for_device`].
    pub fn is_for_device(&self) -> bool {
        self.on_device
    }

    /// Returns the number of bytes that the engine needs. It uses exactly this many.
    pub fn bytes(&self) -> usize {
        self.arena.used()
    }

    /// Returns the alignment of the memory, in bytes.
    pub fn alignment(&self) -> usize {
        ALIGN
    }

    /// Returns the sections in order.
    pub fn sections(&self) -> &[Section] {
        self.arena.sections()
    }

    /// Returns the limits, with the defaults filled in.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the largest number of units of work for one token that is computed alone, logits included. This is for a
    /// token with the whole context before it, as attention has more units the longer the sequence is; see
    /// `Engine::step`. Tokens that are computed together share units, and a copy of a shared block adds one unit per
    /// layer.
    pub fn units_per_token(&self) -> usize {
        self.units_per_token
    }

    /// Calls `found` with every step of the model's program, in the order in which they run, and with the step's units
    /// for one token that is computed alone. The units of all steps add up to [`Plan::units_per_token`]. `model` is the
    /// model that the plan was made for.
    ///
    /// # Errors
    /// [`PlanError`], as [`Plan::new`], if `model` is another one that these limits do not fit.
    pub fn for_each_step(&self, model: &Model<'_>, found: &mut dyn FnMut(&StepInfo)) -> Result<(), PlanError> {
        let parts = Parts::carve(&mut Arena::measuring(), model, &self.limits, self.on_device)?;
        parts.for_each_step(self.limits.geometry(model).context, found);
        Ok(())
    }

    /// Calls `found` with every step of the model's program as a device sees it, in order: each operation with its
    /// numbers and its tensors in the file. `model` is the model that the plan was made for. Tensors are looked up by
    /// their names, which takes a while.
    ///
    /// # Errors
    /// [`PlanError`], as [`Plan::for_each_step`].
    pub fn for_each_operation<'m>(
        &self,
        model: &Model<'m>,
        found: &mut dyn FnMut(&StepView<'m>),
    ) -> Result<(), PlanError> {
        let parts = Parts::carve(&mut Arena::measuring(), model, &self.limits, self.on_device)?;
        parts.forward.for_each_operation(found);
        Ok(())
    }

    /// Returns the layout of a layer group's pool in memory, or `None` if the model has no such group.
    pub fn kv_layout(&self, model: &Model<'_>, group: usize) -> Option<KvLayout> {
        self.limits.geometry(model).layout(group)
    }

    /// Returns the layout of the recurrent layers' states in memory, or `None` if the model has no such layers.
    pub fn state_layout(&self, model: &Model<'_>) -> Option<StateLayout> {
        let (geometry, recurrent) = (self.limits.states(model), model.config().recurrent);
        let layout = StateLayout {
            slots: geometry.slots(self.limits.sequences)?,
            layers: geometry.layers,
            channels: recurrent.channels,
            earlier: recurrent.kernel.saturating_sub(1),
            heads: geometry.heads,
            matrix: geometry.matrix,
        };
        (geometry.layers > 0).then_some(layout)
    }

    /// Returns the number of bytes of the keys and values of one block of 16 tokens, in all layers.
    pub fn kv_block_bytes(&self) -> usize {
        self.kv_block_bytes
    }
}

impl fmt::Display for Plan {
    /// A table of the sections.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Limits {
            sequences, context, window, rows, logit_rows, kv_kind, kv_type, kv_blocks, workers, level, ..
        } = self.limits;
        writeln!(f, "sequences {sequences}, context {context}, rows {rows}, logit rows {logit_rows}")?;
        if !window.is_all() {
            writeln!(f, "window: the first {} and the last {} tokens", window.sinks, window.last)?;
        }
        let prefixes = if self.limits.prefix_cache { ", cached prefixes are reused" } else { "" };
        writeln!(f, "kv {kv_kind} {kv_type}, {kv_blocks} blocks of {BLOCK_TOKENS} tokens{prefixes}")?;
        writeln!(f, "workers {workers}, level {}, {} units per token", level.name(), self.units_per_token)?;
        writeln!(f, "{:>14} {:>14}  section", "offset", "bytes")?;
        for section in self.sections() {
            writeln!(f, "{:>14} {:>14}  {}", section.offset, section.bytes, section.name)?;
        }
        write!(f, "{:>14} {:>14}  total, aligned to {ALIGN}", "", self.bytes())
    }
}

impl Limits {
    /// Fills in the defaults and checks the ranges.
    fn resolve(&self, model: &Model<'_>) -> Result<Self, PlanError> {
        const DEFAULT_CONTEXT: usize = 4096;
        let mut limits = *self;
        if let Some(element) = [limits.kv_type.k, limits.kv_type.v].into_iter().find(|element| !element.is_built()) {
            return Err(PlanError::NotBuilt { element });
        }
        let refused = [(limits.kv_kind == KvKind::Off, "the cache off"), (limits.adapters > 0, "adapters")];
        if let Some((_, what)) = refused.into_iter().find(|(is, _)| *is && model.config().is_predictor()) {
            return Err(PlanError::Predictor { what });
        }
        if limits.context == 0 {
            limits.context = model.config().context.min(DEFAULT_CONTEXT);
        }
        if !limits.window.is_all() || limits.window.sinks > 0 {
            let Window { sinks, last: given } = limits.window;
            // In an encoder the model alone says how far tokens see, so a host cannot set a window.
            let (most, min) = if model.config().attention.causal { (limits.context, 1) } else { (0, 0) };
            if sinks > most.saturating_sub(min) {
                return Err(PlanError::Limit { name: "sinks", given: sinks, min: 0, max: most.saturating_sub(min) });
            }
            let max = most.saturating_sub(sinks);
            if given < min || given > max {
                return Err(PlanError::Limit { name: "window", given, min, max });
            }
        }
        let full = limits.geometry(model).blocks_per_sequence().saturating_mul(limits.sequences);
        if limits.kv_blocks == 0 || limits.kv_kind == KvKind::Basic {
            limits.kv_blocks = full;
        }
        const LARGEST: usize = i32::MAX as usize / BLOCK_TOKENS * BLOCK_TOKENS;
        limits.checkpoint_every = match limits.checkpoints {
            0 => 0,
            _ => limits.checkpoint_every.min(LARGEST).next_multiple_of(BLOCK_TOKENS),
        };
        limits.prefix_cache &= limits.kv_kind == KvKind::Paged && !limits.geometry(model).any_forgets();
        limits.prefix_cache &= model.config().attention.causal;
        let checks = [
            ("sequences", limits.sequences, SeqId::MAX),
            ("context", limits.context, i32::MAX as usize),
            ("rows", limits.rows, 1 << 16),
            ("logit_rows", limits.logit_rows, limits.rows),
            ("kv_blocks", limits.kv_blocks, full.min(i32::MAX as usize)),
            ("adapter_rank", limits.adapter_rank, 1 << 10),
            ("workers", limits.workers, 1 << 10),
        ];
        if limits.adapters > MAX_ADAPTERS {
            return Err(PlanError::Limit { name: "adapters", given: limits.adapters, min: 0, max: MAX_ADAPTERS });
        }
        match checks.into_iter().find(|&(_, given, max)| given == 0 || given > max) {
            Some((name, given, max)) => Err(PlanError::Limit { name, given, min: 1, max }),
            None => Ok(limits),
        }
    }

    /// Returns the sizes of the recurrent layers' states.
    pub(super) fn states(&self, model: &Model<'_>) -> StateGeometry {
        let recurrent = model.config().recurrent;
        StateGeometry {
            layers: recurrent.layers.before(usize::MAX),
            tail: recurrent.tail_elements(),
            heads: recurrent.heads,
            matrix: recurrent.matrix_elements(),
            checkpoints: self.checkpoints,
        }
    }

    /// Returns the largest number of tokens that a sequence can have, the same for every kind of cache. Some models
    /// compute something else for long sequences, and the kind of cache must not change any bit.
    pub(super) fn reach(&self) -> usize {
        // With a window a sequence never becomes full.
        if self.window.is_all() { self.context } else { u32::MAX as usize }
    }

    pub(super) fn geometry(&self, model: &Model<'_>) -> KvGeometry {
        let config = model.config();
        // The kind `off` has to keep all tokens.
        let context = if self.kv_kind == KvKind::Off { self.context } else { self.reach() };
        KvGeometry {
            kind: self.kv_kind,
            element: self.kv_type,
            level: self.level,
            layers: config.kv_layers(),
            groups: config.kv_groups(),
            shapes: config.kv_shapes,
            sequences: self.sequences,
            context: context.min(config.longest()),
            blocks: self.kv_blocks,
            visibility: config.windows.map(|own| match config.attention.causal {
                true => Visibility::new(self.window, own),
                false => Visibility::both_sides((own > 0).then_some(own / 2)),
            }),
            rows: self.rows,
            prefix_cache: self.prefix_cache,
        }
    }
}
