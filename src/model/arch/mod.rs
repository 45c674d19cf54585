//! The architectures: each is a file that maps metadata to a [`Config`], and a row here.

#[cfg(feature = "arch-llama")]
mod llama;
#[cfg(feature = "arch-qwen3")]
mod qwen3;

use super::config::{Config, Keys};
use super::error::ModelError;

#[cfg_attr(not(any(feature = "arch-llama", feature = "arch-qwen3")), allow(dead_code))]
/// An architecture that GGUF files can name.
pub(super) struct Architecture {
    /// `general.architecture`.
    pub(super) name: &'static str,
    /// Reads the metadata.
    pub(super) config: fn(&Keys<'_>) -> Result<Config, ModelError>,
}

/// Those of this build.
pub(super) const ARCHITECTURES: &[Architecture] = &[
    #[cfg(feature = "arch-llama")]
    llama::ARCHITECTURE,
    #[cfg(feature = "arch-qwen3")]
    qwen3::ARCHITECTURE,
];
