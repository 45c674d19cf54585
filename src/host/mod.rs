//! Conveniences that need an operating system (feature `std`): a thread pool and a mapped file.
//!
//! Nothing in the other layers uses them; a host may bring its own.

mod mmap;
mod pool;

pub use mmap::MappedFile;
pub use pool::{MAX_THREADS, ThreadPool};
