//! A sequence as bytes, in a format which `docs/snapshot.md` describes byte by byte.
//!
//! A snapshot is written to and read from callbacks of the host, in pieces of at most one layer of a block, which go
//! straight from and to the pool. It is checked, not authenticated: a forged snapshot can give wrong text, never worse.

mod error;
mod header;
mod read;
mod slice;
mod write;

pub use error::SnapshotError;
pub use header::{SnapshotHeader, SnapshotOptions};
pub use read::Source;
pub(crate) use slice::{from_slice, into_slice};
pub use write::Sink;

/// Number of bytes that are gathered before a callback is called.
const STAGED: usize = 256;
