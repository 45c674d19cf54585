//! The host's threads.

use core::ffi::c_void;
#[cfg(feature = "std")]
use core::sync::atomic::{AtomicBool, Ordering};

use gleed::par::{Parallel, Serial};

use crate::engine::{executor_place, gleed_engine};
use crate::error::{Failure, gleed_error, run};
use crate::object::Object;
use crate::ptr::{Versioned, versioned};
use crate::status;

/// Work of the library's: to be called with `arg` and an index.
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
    /// How many calls it can usefully run at a time; 0: as many as the config has workers.
    pub slots: u32,
    /// The loop.
    pub parallel_for: gleed_parallel_for,
    /// Its first argument.
    pub ctx: *mut c_void,
}

// SAFETY: integers and pointers, a function's may be NULL.
unsafe impl Versioned for gleed_executor {}

/// An executor that an engine keeps.
#[derive(Debug)]
pub(crate) struct Executor {
    slots: usize,
    parallel_for: unsafe extern "C" fn(ctx: *mut c_void, n: u32, body: gleed_body, arg: *mut c_void),
    ctx: *mut c_void,
}

// SAFETY: the engine calls it from the thread that the engine is used on, one call at a time. What else the host does
// with `ctx` is the host's.
unsafe impl Sync for Executor {}

/// One call of the loop.
struct Call<'b> {
    body: &'b (dyn Fn(usize) + Sync),
    /// A panic that must not reach the host's threads.
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
        // SAFETY: the header demands that the function may be called so as long as the engine has it.
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

/// What the host's threads call.
unsafe extern "C" fn work(arg: *mut c_void, index: u32) {
    // SAFETY: the header demands that `arg` is what `run` gave, and that the calls end before it does.
    let call = unsafe { &*arg.cast::<Call<'_>>() };
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    #[cfg(feature = "std")]
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (call.body)(index))).is_err() {
        call.panicked.store(true, Ordering::Relaxed);
    }
    #[cfg(not(feature = "std"))]
    (call.body)(index);
}

/// Lets the host's threads work.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_set_executor(
    engine: *mut gleed_engine,
    executor: *const gleed_executor,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let mut inner = Object::get_mut("engine", engine)?;
            if executor.is_null() {
                inner.set_parallel(&Serial);
                return Ok(status::OK);
            }
            let gleed_executor { slots, parallel_for, ctx, .. } = versioned("executor", executor)?;
            let parallel_for =
                parallel_for.ok_or_else(|| Failure::new(status::E_NULL, format_args!("parallel_for is NULL")))?;
            let slots = if slots == 0 { usize::MAX } else { usize::try_from(slots).unwrap_or(usize::MAX) };
            // Nobody looks at the old one while it is replaced.
            inner.set_parallel(&Serial);
            let place = executor_place(engine);
            place.write(Executor { slots, parallel_for, ctx });
            inner.set_parallel(&*place);
            Ok(status::OK)
        })
    }
}
