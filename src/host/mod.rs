//! Conveniences that need an operating system (feature `std`): a thread pool, mapped files, an owned
//! engine.
//!
//! Nothing in the other layers uses them; a host may bring its own.

mod fork;
mod mmap;
mod owned;
mod pool;
#[cfg(feature = "jinja")]
mod template;
mod turn;

pub use mmap::MappedFile;
pub use owned::{AlignedBytes, OpenError, OwnedEngine};
pub use pool::{MAX_THREADS, ThreadPool};
#[cfg(feature = "jinja")]
pub use template::{ChatTemplate, RenderOptions, TemplateError, bounds as template_bounds};
