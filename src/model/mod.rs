//! Models: the computation that a GGUF file describes, selected by the name of its architecture.
//!
//! # Example
//!
//! What a file computes, and why another one is refused:
//!
//! ```
//! use gleed::Model;
//! use gleed::model::{FeedForward, Gate, LayerSet, Mixer, ModelError, Presence, QkNorm, Recurrent};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let model = Model::open(&file)?;
//! let config = model.config();
//! println!("{}: {} layers, {} tokens of context", config.architecture, config.layers, config.context);
//! match config.feed_forward {
//!     FeedForward { experts: 0, gate: Gate::None, .. } => println!("two matrices"),
//!     FeedForward { experts: 0, activation, .. } => println!("gated by {activation:?}"),
//!     FeedForward { experts, experts_used, .. } => println!("{experts_used} of {experts} experts"),
//! }
//! assert_eq!((config.architecture, config.attention.qk_norm), ("llama", QkNorm::None));
//! assert_eq!(config.biases.norm, Presence::Never);
//! // Keys and values of a token in f16, and what the recurrent layers of a sequence remember in f32.
//! assert_eq!(2 * 2 * config.kv_layers() * config.layer(0).kv_width(), 2048);
//! assert_eq!(4 * config.recurrent.state_elements(), 0);
//! assert_eq!(config.recurrent, Recurrent { mixer: Mixer::None, layers: LayerSet::EMPTY, ..Recurrent::default() });
//!
//! /// What a program says of a file that it cannot run.
//! fn refusal(bytes: &[u8]) -> Option<String> {
//!     match Model::open(bytes).err()? {
//!         ModelError::Gguf(error) => Some(format!("damaged, or no GGUF file: {error}")),
//!         other => Some(other.to_string()),
//!     }
//! }
//! assert_eq!(refusal(&file), None);
//! assert!(refusal(&file[..1000]).is_some_and(|text| text.starts_with("damaged")));
//! # Ok(())
//! # }
//! ```

mod adapter;
// Some items are unused if some architectures are left out.
#[cfg_attr(not(feature = "arch-all"), allow(dead_code))]
mod arch;
mod display;
#[cfg_attr(not(feature = "arch-all"), allow(dead_code))]
mod keys;
mod read;

pub use crate::weights::{
    Adapter, Attention, Biases, ClassifierForm, Config, Embedding, FeedForward, FinalNorm, Gate, Head, HeadGates,
    LayerShape, Mixer, ModelError, Pooler, Pooling, Presence, QkNorm, Recurrent, Rope,
};

use gguf_rs_lite::{Gguf, TensorInfo};

use crate::kernels::fpenv;
use crate::kv::LayerGroups;
pub use crate::kv::LayerSet;
use crate::program::Loaded;
use crate::weights::Files;
use keys::Keys;

/// A model in borrowed bytes: checked once, shared read-only by any number of engines and threads.
///
/// [The guide has an example](crate::guide#generate).
#[derive(Clone, Copy, Debug)]
pub struct Model<'m> {
    loaded: Loaded<'m>,
}

impl<'m> Model<'m> {
    /// Reads a GGUF file and checks that every tensor of its architecture is there in the right shape.
    /// The weights are not read, and no alignment of the bytes is assumed.
    ///
    /// # Errors
    /// [`ModelError`], with the key, tensor or number that is wrong.
    pub fn open(bytes: &'m [u8]) -> Result<Self, ModelError> {
        // Opening converts and compares numbers of the metadata, so it needs the default environment.
        fpenv::with_default(|| Self::read(Files::one(bytes)?))
    }

    /// Opens a file that was split, as [`Model::open`] does. `parts` are all its parts, in their order
    /// (`NAME-00001-of-00003.gguf` and so on).
    ///
    /// # Errors
    /// The errors of [`Model::open`], and [`ModelError::Parts`] or [`ModelError::PartNumber`] if a part is missing or
    /// in the wrong position.
    pub fn open_split(parts: &'m [&'m [u8]]) -> Result<Self, ModelError> {
        fpenv::with_default(|| Self::read(Files::split(parts)?))
    }

    fn read(files: Files<'m>) -> Result<Self, ModelError> {
        let architecture = arch::of(files.first())?;
        let keys = Keys { files: &files, architecture: architecture.name };
        let config = read::read(&keys, architecture)?;
        let program = (architecture.program)(&keys, &config)?;
        Ok(Self { loaded: Loaded::new(files, config, program)? })
    }

    /// Returns the layer of this model that predicts one token further ahead, as a model of its own. It is the first of
    /// the layers that the file counts in `nextn_predict_layers`, between the model's embedding and its output matrix.
    /// It shares the file's bytes. Only [`NextN`](crate::guess::NextN) can feed an engine of it, because each of its
    /// rows takes a hidden state besides a token.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] if the file has no such layer. [`ModelError::Unsupported`] if such layers of its
    /// architecture cannot be computed: they can for Qwen 3.5, with and without experts, and for GLM 4.5 to 4.7. The
    /// errors of [`Model::open`] if its tensors are wrong.
    pub fn predictor(&self) -> Result<Self, ModelError> {
        let files = &self.loaded.files;
        let keys = Keys { files, architecture: self.config().architecture };
        let program = arch::of(files.first())?.predictor;
        let config = fpenv::with_default(|| read::predictor(&keys, self.config(), program.is_some()))?;
        let program = program.map_or(self.loaded.program, |program| program(&config));
        Ok(Self { loaded: Loaded::new(*files, config, program)? })
    }

    /// Returns the model with its layers in these groups, each of which has a pool of its own in the cache. The results
    /// are the same. A model stays as it is if its groups see different positions, or differ in their keys and values.
    #[must_use]
    pub fn with_layer_groups(mut self, groups: LayerGroups) -> Self {
        let [first, second] = self.loaded.config.windows;
        let [kv, other] = self.loaded.config.kv_shapes;
        if first == second && kv == other {
            self.loaded.config.layer_groups = groups;
        }
        self
    }

    /// Returns the numbers and choices of the model that its operations read.
    pub fn config(&self) -> &Config {
        &self.loaded.config
    }

    /// Returns whether the model has logits, so that it can generate text. Encoders have none.
    pub fn has_logits(&self) -> bool {
        self.loaded.has_logits()
    }

    /// Returns how the hidden states of a text become one vector, if the file says it. See
    /// [`Engine::embed`](crate::Engine::embed).
    pub fn pooling(&self) -> Option<Pooling> {
        self.config().pooler.pooling
    }

    /// Returns the file, or the first part of a split file, which has the metadata.
    pub fn gguf(&self) -> &Gguf<'m> {
        self.loaded.files.first()
    }

    /// Returns the tensor with this name, from any part of the file.
    pub fn tensor(&self, name: &str) -> Option<TensorInfo<'m>> {
        self.loaded.files.tensor(name)
    }

    /// Returns the number of bytes of the file, or of all parts of a split file.
    pub fn file_bytes(&self) -> usize {
        self.loaded.files.len()
    }

    /// Returns a number that identifies the model: a hash of metadata, tensor descriptions and samples of every tensor.
    /// Snapshots contain it. Computing it reads up to 64 pages of each tensor.
    pub fn fingerprint(&self) -> u64 {
        self.loaded.files.fingerprint()
    }

    /// Returns the model with its program, for the engine.
    pub(crate) fn loaded(&self) -> &Loaded<'m> {
        &self.loaded
    }
}
