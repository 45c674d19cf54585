//! The host's threads.

use core::ffi::c_void;
#[cfg(feature = "std")]
use core::sync::atomic::{AtomicBool, Ordering};

use gleed::par::{Parallel, Serial};

use crate::engine::{executor_place, gleed_engine};
use crate::error::{Failure, boundary, gleed_error};
use crate::object::Object;
use crate::status;
use crate::versioned::{Versioned, versioned_or_null};

/// Work of the library. The host calls it with `arg` and an index.
pub type gleed_body = Option<unsafe extern "C" fn(arg: *mut c_void, index: u32)>;

/// Calls `body(arg, index)` at most once for each index below `n`, and returns when all calls have returned.
pub type gleed_parallel_for =
    Option<unsafe extern "C" fn(ctx: *mut c_void, n: u32, body: gleed_body, arg: *mut c_void)>;

/// The host's threads; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_executor {
    /// `sizeof(gleed_executor)`, set by the caller.
    pub struct_size: u32,
    /// The most calls of the body that can run at a time; 0: as many as the config has workers.
    pub slots: u32,
    /// The loop that calls the body on the host's threads.
    pub parallel_for: gleed_parallel_for,
    /// The first argument of `parallel_for`.
    pub ctx: *mut c_void,
}

// SAFETY: integers, the first the size, and pointers: no gaps with pointers of 4 or 8 bytes. A NULL pointer to a
// function is `None`; the header demands that any other pointer leads to a function.
unsafe impl Versioned for gleed_executor {}

/// The host's executor as an engine keeps it.
#[derive(Debug)]
pub(crate) struct Executor {
    slots: usize,
    parallel_for: unsafe extern "C" fn(ctx: *mut c_void, n: u32, body: gleed_body, arg: *mut c_void),
    ctx: *mut c_void,
}

// SAFETY: the engine calls it only from the thread that the engine is used on, one call at a time. What else happens
// with `ctx` is up to the host.
unsafe impl Sync for Executor {}

/// What one call of `parallel_for` passes to [`work`].
struct Call<'b> {
    body: &'b (dyn Fn(usize) + Sync),
    /// Whether `body` panicked on one of the host's threads, which no panic may reach.
    #[cfg(feature = "std")]
    panicked: AtomicBool,
}

impl Parallel for Executor {
    fn run(&self, slots: usize, body: &(dyn Fn(usize) + Sync)) {
        let call = Call {
            body,
            #[cfg(feature = "std")]
            panicked: AtomicBool::new(false),
        };
        let n = u32::try_from(slots).unwrap_or(u32::MAX);
        // SAFETY: gleed.h demands that `parallel_for` may be called with `ctx` as long as the engine has it. `call`
        // lives until it returns, and it returns after all calls of `work`.
        unsafe { (self.parallel_for)(self.ctx, n, Some(work), (&raw const call).cast_mut().cast()) };
        #[cfg(feature = "std")]
        if call.panicked.into_inner() {
            std::panic::resume_unwind(std::boxed::Box::new("a worker panicked"));
        }
    }

    fn slots(&self) -> usize {
        self.slots
    }
}

/// The function that the host's threads call: it runs the body of a [`Call`] for an index.
unsafe extern "C" fn work(arg: *mut c_void, index: u32) {
    // SAFETY: gleed.h demands that `arg` is what `run` gave to the loop, and that every call ends before the loop
    // does, so the `Call` is still there.
    let call = unsafe { &*arg.cast::<Call<'_>>() };
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    #[cfg(feature = "std")]
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (call.body)(index))).is_err() {
        call.panicked.store(true, Ordering::Relaxed);
    }
    #[cfg(not(feature = "std"))]
    (call.body)(index);
}

/// Sets the host's threads on which an engine computes; NULL: only the calling thread computes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_set_executor(
    engine: *mut gleed_engine,
    executor: *const gleed_executor,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `engine` are checked here. gleed.h demands
        // the rest: nothing but this call uses `engine`, and `executor` is NULL or has as many bytes as its
        // struct_size says.
        let (mut inner, executor) =
            unsafe { (Object::get_mut("engine", engine)?, versioned_or_null("executor", executor)?) };
        let Some(gleed_executor { slots, parallel_for, ctx, .. }) = executor else {
            inner.set_parallel(&Serial);
            return Ok(status::OK);
        };
        let parallel_for =
            parallel_for.ok_or_else(|| Failure::new(status::E_NULL, format_args!("parallel_for is NULL")))?;
        let slots = if slots == 0 { usize::MAX } else { usize::try_from(slots).unwrap_or(usize::MAX) };
        // The engine does not point to the old executor while the new one is written over it.
        inner.set_parallel(&Serial);
        let place = executor_place(engine);
        // SAFETY: `get_mut` has found an engine, which lies at the start of a `Head` with room for an executor
        // (`gleed_engine_init` has measured the memory). Nothing else points there: the engine has just got `Serial`.
        let kept = unsafe {
            place.write(Executor { slots, parallel_for, ctx });
            &*place
        };
        inner.set_parallel(kept);
        Ok(status::OK)
    })
}
