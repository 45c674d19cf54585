//! The architectures: each is a file that maps metadata to a [`Config`], and a row here.

mod llama;
mod qwen3;

use super::config::{Config, Keys};
use super::error::ModelError;

/// An architecture that GGUF files can name.
pub(super) struct Architecture {
    /// `general.architecture`.
    pub(super) name: &'static str,
    /// Reads the metadata.
    pub(super) config: fn(&Keys<'_>) -> Result<Config, ModelError>,
}

/// All of them.
pub(super) const ARCHITECTURES: [Architecture; 2] = [llama::ARCHITECTURE, qwen3::ARCHITECTURE];

/// Their names, for messages.
pub(super) const NAMES: &str = "llama, qwen3";

#[cfg(test)]
mod tests {
    #[test]
    fn the_names_are_those_of_the_table() {
        assert_eq!(super::ARCHITECTURES.map(|architecture| architecture.name).join(", "), super::NAMES);
    }
}
