//! The native part of the Python package: the functions of `include/gleed.h`, and threads and a clock for engines.
//!
//! The C library starts no threads, and threads of Python cannot compute at the same time. So the package lends engines
//! a [`ThreadPool`] in Rust.

use std::ffi::c_void;
use std::sync::LazyLock;
use std::time::Instant;

use gleed::host::ThreadPool;
use gleed::par::Parallel;
pub use gleed_ffi::*;

/// Starts a pool of `threads` threads, including the thread that calls an engine. Returns NULL if the system does not
/// provide them, or if `threads` is 0 or more than 512.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_python_threads_start(threads: u32) -> *mut c_void {
    let threads = usize::try_from(threads).ok().and_then(|threads| ThreadPool::new(threads).ok());
    threads.map_or(std::ptr::null_mut(), |threads| Box::into_raw(Box::new(threads)).cast())
}

/// Ends and joins threads.
///
/// # Safety
/// `threads` is a result of [`gleed_python_threads_start`] that is not NULL and has not been ended. No engine uses it
/// now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_python_threads_end(threads: *mut c_void) {
    // SAFETY: the caller promises that the pointer is one that `Box::into_raw` gave for a `ThreadPool`, and that it has
    // not come here before.
    drop(unsafe { Box::from_raw(threads.cast::<ThreadPool>()) });
}

/// The `parallel_for` of these threads: `gleed_executor` of `gleed.h`.
///
/// # Safety
/// `threads` is a result of [`gleed_python_threads_start`] that is not NULL and has not been ended. `body` may be
/// called with `arg` and each index below `n`, at the same time on several threads, until this function returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_python_threads_run(threads: *mut c_void, n: u32, body: gleed_body, arg: *mut c_void) {
    // SAFETY: the caller promises a `ThreadPool` of `Box::into_raw` that is not dropped during this call. It is shared:
    // nothing has it as `&mut` before it is dropped.
    let pool = unsafe { &*threads.cast::<ThreadPool>() };
    let Some(body) = body else { return };
    let arg = Arg(arg);
    // SAFETY: the caller promises that `body` takes `arg` and an index below `n` on any thread until this function
    // returns. The pool calls each index below `n` at most once, and returns when all calls have returned.
    pool.run(n as usize, &|index| unsafe { body(arg.pointer(), index as u32) });
}

/// The clock for the figures of all engines: returns the nanoseconds since it was first read. `ctx` is not used.
#[unsafe(no_mangle)]
pub extern "C" fn gleed_python_nanoseconds(_ctx: *mut c_void) -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// An argument that is passed to several threads.
#[derive(Clone, Copy)]
struct Arg(*mut c_void);

impl Arg {
    /// Returns the pointer. It is a method, so that a closure captures the whole `Arg`.
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

// SAFETY: nothing is read through it here; it is only handed to the `body` that the library gave with it, which the
// library lets any thread call.
unsafe impl Sync for Arg {}
