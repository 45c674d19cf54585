//! LoRA adapters, each with a scale of its own for every sequence.

use super::{Engine, EngineError};
use crate::cache::SeqId;
use crate::model::Adapter;

impl<'m> Engine<'m, '_> {
    /// Loads an adapter: its number. Nothing of it counts before [`Engine::set_adapter`]; the weights of the model stay
    /// as they are. It must have been opened for this model, or one of the same shapes and parameters. Adapters stay as
    /// long as the engine.
    ///
    /// # Errors
    /// [`EngineError::AdapterModel`]: opened for another model, see [`Adapter::fits`].
    /// [`EngineError::AdapterRoom`]: more than `Limits::adapters`, or a rank above `Limits::adapter_rank`.
    /// [`EngineError::Busy`] while any sequence has unfinished work.
    pub fn load_adapter(&mut self, adapter: &Adapter<'m>) -> Result<usize, EngineError> {
        self.check_idle()?;
        if !adapter.fits(&self.model) {
            return Err(EngineError::AdapterModel);
        }
        let adapters = &mut self.parts.forward.context.adapters;
        let (room, rank) = adapters.limits();
        adapters.load(adapter).ok_or(EngineError::AdapterRoom { adapters: room, rank, given: adapter.rank() })
    }

    /// How much of an adapter a sequence wants from its next token on: what it adds is multiplied by `scale`; 0 gives
    /// the bits that the model alone gives. A new sequence has 0 of all, a fork what its parent has, and a sequence
    /// restored from a delta what its base has. Several count at once.
    ///
    /// Keys and values that are there already stay as they were computed. Those of a sequence with adapters are never
    /// reused as cached prefixes, and snapshots do not hold scales: set them again after a restore.
    ///
    /// # Errors
    /// [`EngineError::Adapter`]; [`EngineError::AdapterScale`]; [`EngineError::Cache`]: unknown, or busy.
    pub fn set_adapter(&mut self, seq: SeqId, adapter: usize, scale: f32) -> Result<(), EngineError> {
        self.check_quiet(seq)?;
        self.seq_len(seq)?;
        if !scale.is_finite() {
            return Err(EngineError::AdapterScale);
        }
        let adapters = &mut self.parts.forward.context.adapters;
        let loaded = adapters.len();
        adapters.set_scale(seq, adapter, scale).ok_or(EngineError::Adapter { given: adapter, loaded })
    }

    /// Returns how much of an adapter a sequence has.
    ///
    /// # Errors
    /// [`EngineError::Adapter`]; [`EngineError::Cache`] for an unknown sequence.
    pub fn adapter(&self, seq: SeqId, adapter: usize) -> Result<f32, EngineError> {
        self.seq_len(seq)?;
        let adapters = &self.parts.forward.context.adapters;
        adapters.scale(seq, adapter).ok_or(EngineError::Adapter { given: adapter, loaded: adapters.len() })
    }
}
