//! Finders of stop strings: strings that end a text.

use core::ffi::{c_char, c_void};

use gleed::token::{MAX_STOPS, StopError, StopStrings};

use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{Out, out, out_layout, slice, small, unread};
use crate::status;
use crate::text::utf8;
use crate::versioned::{Versioned, out_struct};

/// No stop string was found.
pub const GLEED_NO_STOP: u32 = u32::MAX;

impl Opaque for StopStrings<'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedW01");
}

/// A finder of stop strings.
pub type gleed_stops = Object<StopStrings<'static>>;

/// A text of the caller's.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_string {
    /// The text, in UTF-8.
    pub text: *const c_char,
    /// Bytes of `text`.
    pub text_len: usize,
}

/// The text that can be shown after a piece; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_shown {
    /// `sizeof(gleed_shown)`, set by the caller.
    pub struct_size: u32,
    /// Index of the string that ends the text here, or [`GLEED_NO_STOP`].
    pub stop: u32,
    /// Text that was held back before, and begins no stop string.
    pub held: *const c_char,
    /// Bytes of `held`.
    pub held_len: usize,
    /// Bytes of the piece that follow `held` in the text.
    pub text_len: usize,
}

// SAFETY: two integers of 4 bytes, the first the size, a pointer and two lengths: no gaps with pointers of 4 or 8
// bytes, and every bit pattern is one.
unsafe impl Versioned for gleed_shown {}

impl From<StopError> for Failure {
    fn from(error: StopError) -> Self {
        let new = || Self::new(status::E_VALUE, format_args!("{error}"));
        match error {
            StopError::TooMany { given, limit } => new().numbers(limit, given),
            StopError::Length { index, given, limit } => new().at(index).numbers(limit, given),
            _ => Self::new(status::E_INTERNAL, format_args!("{error}")),
        }
    }
}

/// Returns the texts of at most [`MAX_STOPS`] strings, then empty ones.
///
/// # Safety
/// `text_len` bytes are at `text` of each of them, which nobody writes to during `'a`.
unsafe fn texts<'a>(strings: &[gleed_string]) -> Result<[&'a str; MAX_STOPS], Failure> {
    let mut texts = [""; MAX_STOPS];
    for (place, string) in texts.iter_mut().zip(strings) {
        // SAFETY: NULL and the length are checked here; the caller promises that the bytes are there.
        *place = utf8(unsafe { slice("text", string.text.cast::<u8>(), string.text_len) }?)?;
    }
    Ok(texts)
}

/// Returns the size and alignment of the memory of a finder, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_stops_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        layout.write(size_of::<gleed_stops>(), align_of::<gleed_stops>());
        Ok(status::OK)
    })
}

/// Starts a finder of strings in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_stops_init(
    strings: *const gleed_string,
    count: usize,
    memory: *mut c_void,
    memory_len: usize,
    stops: *mut *mut gleed_stops,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `count` strings are at
        // `strings` if so many can be taken, and `stops` is a place for a result that nothing else uses.
        let (strings, place) = unsafe { (unread("strings", strings, count)?, out("stops", stops)?) };
        let strings = strings.read_if(|given| match given <= MAX_STOPS {
            true => Ok(()),
            false => Err(Failure::from(StopError::TooMany { given, limit: MAX_STOPS })),
        })?;
        // SAFETY: gleed.h demands that the bytes of each string are there, and that nobody writes to them as long as
        // the finder is used. So they are lent for as long as they are used.
        let texts = unsafe { texts(strings) }?;
        let finder = StopStrings::new(texts.get(..strings.len()).unwrap_or_default())?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the finder is used.
        place.write(unsafe { Object::place_at(memory, memory_len, finder) }?);
        Ok(status::OK)
    })
}

/// Takes the next piece of the text, and returns the text that can be shown now.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_stops_push(
    stops: *mut gleed_stops,
    text: *const c_char,
    text_len: usize,
    shown: *mut gleed_shown,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths, struct_size and the tag and address of `stops` are checked here. gleed.h
        // demands the rest: nothing but this call uses `stops`, `text_len` bytes are at `text`, and `shown` has as many
        // bytes as its struct_size says.
        let (mut stops, text, shown) = unsafe {
            (Object::get_mut("stops", stops)?, slice("text", text.cast::<u8>(), text_len)?, out_struct("shown", shown)?)
        };
        let found = stops.push(utf8(text)?);
        shown.write(gleed_shown {
            struct_size: 0,
            stop: found.stop.map_or(GLEED_NO_STOP, small),
            held: found.held.as_ptr().cast(),
            held_len: found.held.len(),
            text_len: found.text.len(),
        });
        Ok(status::OK)
    })
}

/// Ends the text, and returns the text that was held back.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_stops_finish(
    stops: *mut gleed_stops,
    held: *mut *const c_char,
    held_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `stops` are checked here. gleed.h demands the rest:
        // nothing but this call uses `stops`, and `held` and `held_len` are places for results that nothing else uses.
        let (mut stops, held, held_len): (_, Out<'_, *const c_char>, _) =
            unsafe { (Object::get_mut("stops", stops)?, out("held", held)?, out("held_len", held_len)?) };
        let text = stops.finish();
        held.write(text.as_ptr().cast());
        held_len.write(text.len());
        Ok(status::OK)
    })
}
