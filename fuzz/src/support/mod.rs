//! What the targets share.

pub mod bytes;
pub mod common;
pub mod guard;
pub mod memory;
pub mod models;

pub use bytes::Bytes;
pub use guard::{allowed, forbidden};
pub use memory::Exact;

use gleed::EngineError;
use gleed::cache::CacheError;

/// Fails if an error says that the library contradicts itself; writes its text, which must not fail either.
pub fn expected(error: EngineError) -> EngineError {
    assert!(!error.to_string().is_empty());
    assert!(!matches!(error, EngineError::Internal(_) | EngineError::Cache(CacheError::Internal(_))), "{error:?}");
    error
}
