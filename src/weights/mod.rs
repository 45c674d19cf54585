//! The data of a model: its configuration, its tensors by role, and the offsets of the tensors in the file.

#[cfg(feature = "arch-apertus")]
mod activation;
mod adapter;
mod config;
mod dtypes;
mod error;
mod files;
mod layer;
mod names;
mod recurrent;
mod roles;
mod shapes;
mod table;

#[cfg(feature = "arch-apertus")]
pub(crate) use activation::xielu;
pub use adapter::Adapter;
pub(crate) use adapter::TARGETS;
pub(crate) use config::inverse_root;
pub use config::{
    Attention, Biases, ClassifierForm, Config, Embedding, FeedForward, FinalNorm, Gate, Head, Pooler, Pooling,
    Presence, QkNorm, Rope,
};
pub(crate) use dtypes::Dtypes;
pub use error::ModelError;
pub(crate) use files::Files;
pub use layer::{HeadGates, LayerShape};
pub use recurrent::{Mixer, Recurrent};
pub(crate) use roles::Role;
pub(crate) use table::{Survey, TensorRef, Uses, Weights, survey};
