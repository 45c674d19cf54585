//! Models: what a GGUF file computes, where its weights are, and the forward pass.

// Not all of it is used where some architectures are left out.
#[cfg_attr(not(feature = "arch-all"), allow(dead_code))]
mod arch;
#[cfg_attr(not(feature = "arch-all"), allow(dead_code))]
mod config;
mod error;
mod forward;
#[cfg_attr(not(feature = "arch-all"), allow(dead_code))]
mod keys;
mod stage;
mod weights;

pub use config::{Attention, Biases, Config, Embedding, FeedForward, Gate, Head, Presence, QkNorm, Residual, Rope};
pub use error::ModelError;
pub(crate) use forward::{Batch, Capacity, Forward, Row};
pub(crate) use stage::Cursor;

use gguf_rs_lite::{Gguf, Name};

use crate::cache::LayerGroups;
use crate::kernels::fpenv;
use crate::num::Xxh64;
use keys::Keys;

/// A model in borrowed bytes: checked once, shared read-only by any number of engines and threads.
#[derive(Clone, Copy, Debug)]
pub struct Model<'m> {
    gguf: Gguf<'m>,
    config: Config,
}

impl<'m> Model<'m> {
    /// Reads a GGUF file and checks that every tensor of its architecture is there in the right shape.
    /// The weights are not touched, and no alignment of the bytes is assumed.
    ///
    /// # Errors
    /// [`ModelError`], with the key, tensor or number that was wrong.
    pub fn open(bytes: &'m [u8]) -> Result<Self, ModelError> {
        // Numbers of the metadata are converted and compared.
        fpenv::with_default(|| Self::open_in_default_environment(bytes))
    }

    fn open_in_default_environment(bytes: &'m [u8]) -> Result<Self, ModelError> {
        let gguf = Gguf::parse(bytes)?;
        let key = Name::new(b"general.architecture");
        let name = gguf.get("general.architecture").ok_or(ModelError::MissingKey { key })?;
        let name = name.as_bytes().ok_or(ModelError::BadValue { key })?;
        let known = arch::ARCHITECTURES.iter().find(|architecture| architecture.name.as_bytes() == name);
        let architecture = known.ok_or(ModelError::Architecture { name: Name::new(name) })?;
        let config = Config::read(&Keys { gguf: &gguf, architecture: architecture.name }, architecture)?;
        weights::validate(&gguf, &config)?;
        Ok(Self { gguf, config })
    }

    /// The model with its layers in these groups, each of which has a pool of its own in the cache. The results
    /// are the same; a model whose groups see different positions stays as it is.
    #[must_use]
    pub fn with_layer_groups(mut self, groups: LayerGroups) -> Self {
        let [first, second] = self.config.windows;
        if first == second {
            self.config.layer_groups = groups;
        }
        self
    }

    /// What the model computes.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The file.
    pub fn gguf(&self) -> &Gguf<'m> {
        &self.gguf
    }

    /// A number that tells models apart: a hash of metadata, tensor descriptions and samples of every
    /// tensor. Snapshots carry it. It reads up to 64 pages of each tensor.
    pub fn fingerprint(&self) -> u64 {
        const SAMPLE: usize = 64;
        const SAMPLES: usize = 64;
        let mut hasher = Xxh64::new();
        hasher.update(self.gguf.metadata_bytes());
        for info in self.gguf.tensors() {
            let stride = (info.data().len() / SAMPLES).max(SAMPLE);
            for sample in info.data().chunks(stride) {
                hasher.update(sample.get(..SAMPLE).unwrap_or(sample));
            }
        }
        hasher.finish()
    }
}
