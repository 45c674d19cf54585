//! How much memory an engine needs, for given limits, before anything runs.

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
    /// Sequences at a time.
    pub sequences: usize,
    /// Tokens per sequence; 0 stands for what the model was trained on, but at most 4096. With a `window` it is the
    /// most tokens that are visible at a time, and a sequence goes on without end.
    pub context: usize,
    /// Which tokens stay visible, in all layers; those that a layer's own window hides are not. Positions stay
    /// absolute: past the context that the model was trained on, what it computes is at the host's risk.
    pub window: Window,
    /// Rows per batch: how many tokens of prompts or of different sequences run together. 256 for each worker make long
    /// prompts fastest.
    pub rows: usize,
    /// How many of these can have logits; at most `rows`.
    pub logit_rows: usize,
    /// How keys and values are kept.
    pub kv_kind: KvKind,
    /// Their element type.
    pub kv_type: KvType,
    /// Blocks of 16 tokens in the pool; 0 stands for as many as all sequences at full length need. The
    /// kind `basic` reserves that many in any case.
    pub kv_blocks: usize,
    /// Whether blocks can be found by their tokens and reused by other sequences, see `Engine::reuse`; only for the
    /// kind `paged` without windows. Costs 16 bytes per block or less.
    pub prefix_cache: bool,
    /// Checkpoints of recurrent layers' states at a time, of all sequences; each takes the memory of a state. One is
    /// made where several tokens that were queued together end, such as a prompt; the one that was made first gives way
    /// to it. See also `Engine::checkpoint` and `Engine::checkpoint_at`. A conversation needs two.
    pub checkpoints: usize,
    /// One is also made every so many tokens, which is rounded up to a multiple of 16. 0: nowhere else.
    pub checkpoint_every: usize,
    /// LoRA adapters that can be loaded at a time, at most 8; see `Engine::load_adapter`.
    pub adapters: usize,
    /// The largest rank of their matrices.
    pub adapter_rank: usize,
    /// Threads that work at the same time.
    pub workers: usize,
    /// The instruction set that the kernels use.
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
        /// Its name.
        name: &'static str,
        /// The value given.
        given: usize,
        /// The smallest that is possible.
        min: usize,
        /// The largest that is possible.
        max: usize,
    },
    /// This build leaves out the type of keys or values.
    NotBuilt {
        /// It.
        element: KvElement,
    },
    /// No device can do it yet.
    Device {
        /// What.
        what: &'static str,
    },
    /// A layer that predicts further ahead cannot do it.
    Predictor {
        /// What.
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
    /// [`PlanError`], with the limit that is out of range.
    pub fn new(model: &Model<'_>, limits: &Limits) -> Result<Self, PlanError> {
        Self::measure(model, limits.resolve(model)?, false)
    }

    /// Computes the plan of an engine whose keys and values, and whose work, are on a device: see
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

    /// Returns whether it is of [`Plan::for_device`].
    pub fn is_for_device(&self) -> bool {
        self.on_device
    }

    /// Returns the number of bytes that the engine needs: exactly this many are used.
    pub fn bytes(&self) -> usize {
        self.arena.used()
    }

    /// Returns the alignment of the first byte.
    pub fn alignment(&self) -> usize {
        ALIGN
    }

    /// Returns the sections in order.
    pub fn sections(&self) -> &[Section] {
        self.arena.sections()
    }

    /// Returns the limits, defaults filled in.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Units of work for one token that is computed alone, logits included, at most: with the whole context before it,
    /// as attention has more units the longer the sequence is; see `Engine::step`. Tokens that are computed together
    /// share units, and a copy of a shared block adds one per layer.
    pub fn units_per_token(&self) -> usize {
        self.units_per_token
    }

    /// Calls `found` with every step of the model's program, in the order in which they run, and with its units for a
    /// token that is computed alone. The units of all steps are [`Plan::units_per_token`]. `model` is the one that was
    /// planned for.
    ///
    /// # Errors
    /// [`PlanError`], as [`Plan::new`], where it is another one that these limits do not fit.
    pub fn for_each_step(&self, model: &Model<'_>, found: &mut dyn FnMut(&StepInfo)) -> Result<(), PlanError> {
        let parts = Parts::carve(&mut Arena::measuring(), model, &self.limits, self.on_device)?;
        parts.for_each_step(self.limits.geometry(model).context, found);
        Ok(())
    }

    /// Calls `found` with every step of the model's program as a device sees it, in order: operations with their
    /// numbers and their tensors in the file. `model` is the one that was planned for. Tensors are looked up by their
    /// names, which takes a while.
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

    /// Returns how the pool of a layer group lies in memory; `None` where the model has no such group.
    pub fn kv_layout(&self, model: &Model<'_>, group: usize) -> Option<KvLayout> {
        self.limits.geometry(model).layout(group)
    }

    /// Returns how the states of recurrent layers lie in memory; `None` where the model has no such layers.
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

    /// Returns the number of bytes of keys and values of a block of 16 tokens, in all layers.
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
            let sinks = limits.window.sinks;
            if sinks >= limits.context {
                let max = limits.context.saturating_sub(1);
                return Err(PlanError::Limit { name: "sinks", given: sinks, min: 0, max });
            }
            let (given, max) = (limits.window.last, limits.context.saturating_sub(sinks));
            // What a token sees after itself is not the host's to choose.
            let (min, max) = if model.config().attention.causal { (1, max) } else { (0, 0) };
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

    /// The states of the recurrent layers.
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

    /// The most tokens that a sequence may have, without a cache as with one: some models compute something else for
    /// long sequences, and a cache decides about no bit.
    pub(super) fn reach(&self) -> usize {
        // A window never fills up.
        if self.window.is_all() { self.context } else { u32::MAX as usize }
    }

    pub(super) fn geometry(&self, model: &Model<'_>) -> KvGeometry {
        let config = model.config();
        // Without a cache all tokens have to be kept.
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
