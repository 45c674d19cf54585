//! States of matchers: copied, rewound, written to bytes and restored from them.

use core::ffi::c_void;

use gleed::mem::ALIGN;

use crate::error::{boundary, gleed_error};
use crate::matcher::{gleed_matcher, planned};
use crate::object::Object;
use crate::ptr::{memory, out, slice, slice_mut};
use crate::status;

/// Copies a matcher to `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_fork(
    matcher: *const gleed_matcher,
    memory: *mut c_void,
    memory_len: usize,
    fork: *mut *mut gleed_matcher,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `matcher` are checked here. gleed.h demands the rest: no
        // other call changes `matcher`, and `fork` is a place for a result that nothing else uses.
        let (matcher, place) = unsafe { (Object::get("matcher", matcher)?, out("fork", fork)?) };
        let needed = planned(matcher.limits())?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the copy is used. So they are lent for as long as they are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_matcher::halves(memory);
        place.write(Object::place(head, matcher.fork(rest)?)?);
        Ok(status::OK)
    })
}

/// Returns how many of the last accepted tokens can be taken back.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_rewindable(
    matcher: *const gleed_matcher,
    tokens: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `matcher` are checked here. gleed.h demands the rest: no
        // other call changes `matcher`, and `tokens` is a place for a result that nothing else uses.
        let (matcher, tokens) = unsafe { (Object::get("matcher", matcher)?, out("tokens", tokens)?) };
        tokens.write(matcher.rewindable());
        Ok(status::OK)
    })
}

/// Takes the last accepted tokens back.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_rewind(
    matcher: *mut gleed_matcher,
    tokens: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `matcher` are checked here. gleed.h demands the rest:
        // nothing but this call uses `matcher`.
        let mut matcher = unsafe { Object::get_mut("matcher", matcher) }?;
        matcher.rewind(tokens)?;
        Ok(status::OK)
    })
}

/// Returns the number of bytes of a snapshot of a matcher.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_snapshot_size(
    matcher: *const gleed_matcher,
    size: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `matcher` are checked here. gleed.h demands the rest: no
        // other call changes `matcher`, and `size` is a place for a result that nothing else uses.
        let (matcher, size) = unsafe { (Object::get("matcher", matcher)?, out("size", size)?) };
        size.write(matcher.snapshot_len());
        Ok(status::OK)
    })
}

/// Writes a snapshot of a matcher's state.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_snapshot(
    matcher: *const gleed_matcher,
    bytes: *mut u8,
    len: usize,
    written: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `matcher` are checked here. gleed.h demands the
        // rest: no other call changes `matcher`, `len` elements at `bytes` are used by nothing else, and `written` is a
        // place for a result that nothing else uses.
        let (matcher, bytes, written) =
            unsafe { (Object::get("matcher", matcher)?, slice_mut("bytes", bytes, len)?, out("written", written)?) };
        written.write(matcher.snapshot(bytes)?);
        Ok(status::OK)
    })
}

/// Gives a matcher the state of a snapshot.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_restore(
    matcher: *mut gleed_matcher,
    bytes: *const u8,
    len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `matcher` are checked here. gleed.h demands the
        // rest: nothing but this call uses `matcher`, and `len` bytes are at `bytes`.
        let (mut matcher, bytes) = unsafe { (Object::get_mut("matcher", matcher)?, slice("bytes", bytes, len)?) };
        matcher.restore(bytes)?;
        Ok(status::OK)
    })
}
