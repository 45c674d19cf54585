//! What the targets share.
// Each program uses a part of it.
#![allow(dead_code)]

pub mod bytes;
pub mod clock;
pub mod count;
pub mod damage;
pub mod guard;
pub mod memory;
pub mod models;

pub use bytes::Bytes;
pub use count::{many, tried};
pub use damage::{damaged, each_part, random_of};
pub use guard::{allowed, forbidden};
pub use memory::Exact;
pub use models::{LEVELS, usual};

use std::sync::LazyLock;

use gleed::EngineError;
use gleed::cache::CacheError;

/// Returns whether calls are to be printed.
pub fn is_shown() -> bool {
    static IS_SHOWN: LazyLock<bool> = LazyLock::new(|| std::env::var_os("GLEED_FUZZ_SHOW").is_some());
    *IS_SHOWN
}

/// Checks an error of the library: fails if the error says that the library contradicts itself, and writes its text,
/// which must not fail either.
pub fn expected(error: EngineError) -> EngineError {
    assert!(!error.to_string().is_empty());
    assert!(!matches!(error, EngineError::Internal(_) | EngineError::Cache(CacheError::Internal(_))), "{error:?}");
    error
}
