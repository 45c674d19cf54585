//! The self-test: checks that this machine computes correct results.

use core::ffi::c_void;

use gleed::kernels::{selftest, selftest_words};

use crate::config::level;
use crate::error::{Failure, boundary, gleed_error};
use crate::ptr::memory;
use crate::status;

/// Runs the kernels of a level on a few blocks and compares them with plain code.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_selftest(
    level: u32,
    memory: *mut c_void,
    memory_len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        let level = self::level(level)?;
        let words = selftest_words(level);
        let needed = words.saturating_mul(size_of::<u32>());
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory` during the call.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, align_of::<u32>()) }?;
        // SAFETY: `memory` has at least `needed` bytes, which are `words` words, at a multiple of a word's alignment. A
        // word takes every bit pattern, and `memory` is not used any more.
        let words = unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u32>(), words) };
        match selftest(level, words) {
            Some(true) => Ok(status::OK),
            Some(false) => Err(Failure::new(
                status::E_SELFTEST,
                format_args!("kernels of level {} are wrong on this machine", level.name()),
            )),
            None => Err(Failure::new(status::E_INTERNAL, format_args!("the test did not run"))),
        }
    })
}
