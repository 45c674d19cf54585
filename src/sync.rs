//! The primitives with which threads meet: atomics, and with `std` locks, threads and the clock.
//!
//! All code that works on several threads takes them from here. So `tests/loom` can compile the same code with loom's
//! primitives, which try every order of the threads.

pub(crate) use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

#[cfg(feature = "std")]
pub(crate) use host::*;

#[cfg(feature = "std")]
mod host {
    pub(crate) use core::sync::atomic::AtomicPtr;
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub(crate) use std::thread::{Builder, JoinHandle, yield_now};
    pub(crate) use std::time::Instant;

    /// Number of times that a spinning thread looks for work before it asks for the time.
    pub(crate) const LOOKS: usize = 64;
}
