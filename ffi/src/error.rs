//! Failures of calls: a value inside of the library, and the struct of the caller's that gets their details.

use core::ffi::c_char;
use core::fmt::{self, Write};

use crate::status;

/// The caller's struct for the details of an error; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_error {
    /// `sizeof(gleed_error)`, set by the caller.
    pub struct_size: u32,
    /// The status that the call returned.
    pub status: i32,
    /// The place of the error. Its unit depends on the status; 0 if there is no place.
    pub at: u64,
    /// The number that was needed, or the largest that is allowed.
    pub needed: u64,
    /// The number that was given.
    pub given: u64,
    /// The error in English, cut to fit and ended by 0.
    pub text: [c_char; 96],
}

/// Why a call failed. The fields mean the same as those of [`gleed_error`].
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    status: i32,
    at: u64,
    needed: u64,
    given: u64,
    text: Text<96>,
}

impl Failure {
    /// Returns a failure with this status, described by `text`.
    ///
    /// No float and no `{:?}` of a string may be among the arguments of `text`: core formats them with
    /// code that can panic.
    pub fn new(status: i32, text: fmt::Arguments<'_>) -> Self {
        let mut failure = Self { status, at: 0, needed: 0, given: 0, text: Text::EMPTY };
        // A text that does not fit is cut, which is no error.
        let _ = failure.text.write_fmt(text);
        failure
    }

    /// Returns this failure with the place of the error.
    pub fn at(self, at: impl TryInto<u64>) -> Self {
        Self { at: at.try_into().unwrap_or(u64::MAX), ..self }
    }

    /// Returns this failure with the numbers that were needed and given.
    pub fn numbers(self, needed: impl TryInto<u64>, given: impl TryInto<u64>) -> Self {
        let (needed, given) = (needed.try_into().unwrap_or(u64::MAX), given.try_into().unwrap_or(u64::MAX));
        Self { needed, given, ..self }
    }

    /// Returns the status that the call returns.
    pub fn status(&self) -> i32 {
        self.status
    }
}

/// The body of every function of the ABI that has an `error`: calls [`run`] with a closure. Unsafe operations in the
/// closure need `unsafe` blocks of their own.
///
/// The macro has no `unsafe` block: the promise about `error` is a part of what the whole function demands, so the
/// macro compiles only in an `unsafe fn`. The closure is made outside of the unsafe call, which does not cover it.
#[macro_export]
macro_rules! boundary {
    ($error:expr, $body:expr $(,)?) => {{
        let body = $body;
        // The function's caller promises what the header says at `gleed_error`: `error` is NULL, or points to as many
        // bytes as its `struct_size` says, which nobody else uses during the call.
        #[allow(unsafe_op_in_unsafe_fn)]
        let status = $crate::error::run($error, body);
        status
    }};
}
pub(crate) use boundary;

/// Runs the body of a function of the ABI and returns its status. If it fails, or returns "full", the details are
/// written to `error`, which may be NULL. A `struct_size` that is too small is refused before the body runs.
///
/// # Safety
/// `error` is NULL or points to a struct that starts with a `uint32_t struct_size`, and to as many bytes as it
/// says, which nobody else uses during the call.
pub unsafe fn run(error: *mut gleed_error, body: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    if !error.is_null() {
        if !error.is_aligned() {
            return status::E_ALIGNMENT;
        }
        // SAFETY: it is not NULL and aligned, as the lines above find; the caller promises that a struct_size is there.
        let size = unsafe { (&raw const (*error).struct_size).read() };
        if usize::try_from(size).unwrap_or(usize::MAX) < size_of::<gleed_error>() {
            return status::E_STRUCT_SIZE;
        }
    }
    match contained(body) {
        Ok(status) => status,
        Err(failure) => {
            if !error.is_null() {
                // SAFETY: it is not NULL and aligned, and struct_size, which is at least that of a gleed_error, says
                // how many bytes are there. A body that wrote to the same bytes, which the caller has excluded, could
                // not make them invalid: every bit pattern is valid in these fields.
                unsafe {
                    (&raw mut (*error).status).write(failure.status);
                    (&raw mut (*error).at).write(failure.at);
                    (&raw mut (*error).needed).write(failure.needed);
                    (&raw mut (*error).given).write(failure.given);
                    (&raw mut (*error).text).write(failure.text.chars());
                }
            }
            failure.status
        }
    }
}

/// Returns the body's result. With std a panic of the library unwinds, and ends here: it must not reach C.
#[cfg(feature = "std")]
fn contained(body: impl FnOnce() -> Result<i32, Failure>) -> Result<i32, Failure> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    result.unwrap_or_else(|_| Err(Failure::new(status::E_INTERNAL, format_args!("the library panicked"))))
}

/// Returns the body's result. Without std nothing unwinds, and `bare/check.sh` proves that nothing panics.
#[cfg(not(feature = "std"))]
fn contained(body: impl FnOnce() -> Result<i32, Failure>) -> Result<i32, Failure> {
    body()
}

/// Returns `text`, cut at a character so that a 0 follows.
pub fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut cut = Text::EMPTY;
    // A text that does not fit is cut, which is no error.
    let _ = cut.write_str(text);
    cut.chars()
}

/// A text of less than `N` bytes; a longer one is cut at a character.
#[derive(Clone, Copy)]
struct Text<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> Text<N> {
    const EMPTY: Self = Self { bytes: [0; N], len: 0 };

    fn chars(&self) -> [c_char; N] {
        self.bytes.map(|byte| byte as c_char)
    }
}

impl<const N: usize> Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for c in s.chars() {
            let mut utf8 = [0; 4];
            let utf8 = c.encode_utf8(&mut utf8).as_bytes();
            let free = self.bytes.get_mut(self.len..N.saturating_sub(1)).unwrap_or_default();
            let Some(slots) = free.get_mut(..utf8.len()) else {
                return Err(fmt::Error);
            };
            for (slot, &byte) in slots.iter_mut().zip(utf8) {
                *slot = byte;
            }
            self.len += utf8.len();
        }
        Ok(())
    }
}

impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.bytes.get(..self.len).and_then(|bytes| core::str::from_utf8(bytes).ok());
        f.write_str(text.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gleed::mem::MemoryError;
    use std::ffi::CStr;

    fn blank() -> gleed_error {
        gleed_error { struct_size: 128, status: 7, at: 7, needed: 7, given: 7, text: [7; 96] }
    }

    fn text(error: &gleed_error) -> &str {
        // SAFETY: c_char and u8 have the same size, and u8 takes every bit pattern.
        let bytes: &[u8; 96] = unsafe { &*core::ptr::from_ref(&error.text).cast() };
        CStr::from_bytes_until_nul(bytes).unwrap().to_str().unwrap()
    }

    #[test]
    fn details_are_written_on_failure_only() {
        let mut error = blank();
        // SAFETY: a reference to a whole struct.
        let status = unsafe { run(&mut error, || Ok(status::YIELDED)) };
        assert_eq!((status, error.status, error.text), (1, 7, [7; 96]));

        let failure = Failure::from(MemoryError::TooSmall { needed: 4096, given: 100 });
        // SAFETY: a reference to a whole struct that nothing else uses.
        let status = unsafe { run(&mut error, || Err(failure)) };
        assert_eq!((status, error.status, error.at, error.needed, error.given), (-100, -100, 0, 4096, 100));
        assert_eq!(text(&error), "memory too small: 4096 bytes needed, 100 given");

        // SAFETY: `run` takes NULL for "no details wanted" and then writes nothing.
        let status = unsafe { run(core::ptr::null_mut(), || Err(failure)) };
        assert_eq!(status, -100);
    }

    #[cfg(feature = "std")]
    #[test]
    fn panics_end_at_the_border() {
        let mut error = blank();
        // SAFETY: a reference to a whole struct.
        let status = unsafe { run(&mut error, || panic!("a defect")) };
        assert_eq!((status, error.status, text(&error)), (-99, -99, "the library panicked"));
    }

    #[test]
    fn a_struct_that_is_too_small_is_refused_before_the_call() {
        let mut error = blank();
        error.struct_size = 127;
        // SAFETY: a reference to a whole struct.
        let status = unsafe { run(&mut error, || panic!("the body ran")) };
        assert_eq!((status, error.status), (status::E_STRUCT_SIZE, 7));
        // A struct of a later version is larger; the fields that are known are written.
        error.struct_size = 1000;
        // SAFETY: a reference to a whole struct; none of the bytes that its size claims beyond it is used.
        let status = unsafe { run(&mut error, || Err(Failure::new(-5, format_args!("x")).at(3))) };
        assert_eq!((status, error.at, error.struct_size), (-5, 3, 1000));
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let mut error = blank();
        let long = "ä".repeat(60);
        // SAFETY: a reference to a whole struct.
        unsafe { run(&mut error, || Err(Failure::new(-5, format_args!("{long}")))) };
        assert_eq!(text(&error), "ä".repeat(47));
        assert_eq!(error.text[94..], [0, 0]);
    }
}
