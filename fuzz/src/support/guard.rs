//! An allocator that fails the run where the library allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static IS_FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

struct Guard;

#[global_allocator]
static GUARD: Guard = Guard;

// SAFETY: every call either goes to the system's allocator with unchanged arguments, or panics and does not return.
unsafe impl GlobalAlloc for Guard {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // An allocation is allowed while a thread ends and its variables are gone, and for the text of another panic.
        if IS_FORBIDDEN.try_with(|forbidden| forbidden.replace(false)).unwrap_or(false) && !std::thread::panicking() {
            panic!("the library allocates {} bytes", layout.size());
        }
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`, and `ptr` came from `System`.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Calls the library. An allocation of this thread meanwhile fails the run.
pub fn forbidden<R>(call: impl FnOnce() -> R) -> R {
    set(true, call)
}

/// Runs a callback of the host inside of [`forbidden`]. It may allocate.
pub fn allowed<R>(call: impl FnOnce() -> R) -> R {
    set(false, call)
}

fn set<R>(forbidden: bool, call: impl FnOnce() -> R) -> R {
    let before = IS_FORBIDDEN.replace(forbidden);
    let result = call();
    IS_FORBIDDEN.set(before);
    result
}
