//! LoRA adapters, each with a scale of its own for every sequence.

use super::{Engine, EngineError};
use crate::cache::SeqId;
use crate::model::Adapter;

impl<'m> Engine<'m, '_> {
    /// Loads an adapter and returns its number. The adapter has no effect before [`Engine::set_adapter`], and the
    /// weights of the model stay as they are. The adapter must have been opened for this model, or for one of the same
    /// shapes and parameters. Adapters stay as long as the engine.
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

    /// Sets the scale of an adapter for a sequence, from its next token on. Everything that the adapter adds is
    /// multiplied by `scale`; 0 gives the bits of the model alone. A new sequence has scale 0 for every adapter, a fork
    /// has the scales of its parent, and a sequence restored from a delta has those of its base. Several adapters can
    /// be in effect at once.
    ///
    /// Existing keys and values stay as they were computed. Keys and values of a sequence with adapters are never
    /// reused as cached prefixes. Snapshots do not hold scales: set them again after a restore.
    ///
    /// # Errors
    /// [`EngineError::Adapter`]; [`EngineError::AdapterScale`]; [`EngineError::Cache`] if the sequence is unknown or
    /// busy.
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

    /// Returns the scale of an adapter for a sequence.
    ///
    /// # Errors
    /// [`EngineError::Adapter`]; [`EngineError::Cache`] for an unknown sequence.
    pub fn adapter(&self, seq: SeqId, adapter: usize) -> Result<f32, EngineError> {
        self.seq_len(seq)?;
        let adapters = &self.parts.forward.context.adapters;
        adapters.scale(seq, adapter).ok_or(EngineError::Adapter { given: adapter, loaded: adapters.len() })
    }
}
