//! Detokenizers: streams of tokens become text.

use core::ffi::{c_char, c_void};

use gleed::token::{DecodeOptions, Detokenizer, TokenError};

use crate::error::{boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{out, out_layout, slice_mut};
use crate::status;
use crate::text::{check_fits, known_flags};
use crate::tokenizer::gleed_tokenizer;

/// The names of control tokens are written; without this flag they are left out.
pub const GLEED_DECODE_RENDER_SPECIAL: u32 = 1;
/// The text continues another one.
pub const GLEED_DECODE_CONTINUES: u32 = 2;

impl Opaque for Detokenizer {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedD01");
}

/// A detokenizer: turns a stream of tokens into text.
pub type gleed_detokenizer = Object<Detokenizer>;

/// Returns the size and alignment of the memory of a detokenizer, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_detokenizer_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        layout.write(size_of::<gleed_detokenizer>(), align_of::<gleed_detokenizer>());
        Ok(status::OK)
    })
}

/// Starts a detokenizer in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_detokenizer_init(
    tokenizer: *const gleed_tokenizer,
    flags: u32,
    memory: *mut c_void,
    memory_len: usize,
    detokenizer: *mut *mut gleed_detokenizer,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `tokenizer` are checked here. gleed.h demands the rest:
        // no other call changes `tokenizer`, and `detokenizer` is a place for a result that nothing else uses.
        let (tokenizer, place) = unsafe { (Object::get("tokenizer", tokenizer)?, out("detokenizer", detokenizer)?) };
        let flags = known_flags(flags, GLEED_DECODE_RENDER_SPECIAL | GLEED_DECODE_CONTINUES)?;
        let options = DecodeOptions {
            render_special: flags & GLEED_DECODE_RENDER_SPECIAL != 0,
            starts_text: flags & GLEED_DECODE_CONTINUES == 0,
        };
        let detokenizer = Detokenizer::new(tokenizer, options);
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the detokenizer is used.
        place.write(unsafe { Object::place_at(memory, memory_len, detokenizer) }?);
        Ok(status::OK)
    })
}

/// Writes the text that a token completes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_detokenize(
    detokenizer: *mut gleed_detokenizer,
    tokenizer: *const gleed_tokenizer,
    token: u32,
    text: *mut c_char,
    text_len: usize,
    written: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `detokenizer` and `tokenizer` are checked here.
        // gleed.h demands the rest: nothing but this call uses `detokenizer`, no other call changes `tokenizer`,
        // `text_len` elements at `text` are used by nothing else, and `written` is a place for a result that nothing
        // else uses.
        let (mut detokenizer, tokenizer, text, written) = unsafe {
            (
                Object::get_mut("detokenizer", detokenizer)?,
                Object::get("tokenizer", tokenizer)?,
                slice_mut("text", text.cast::<u8>(), text_len)?,
                out("written", written)?,
            )
        };
        let mut trial = *detokenizer;
        check_fits(trial.push(tokenizer, token, &mut []).map(drop), text_len)?;
        written.write(detokenizer.push(tokenizer, token, text)?.len());
        Ok(status::OK)
    })
}

/// Ends a stream of tokens. Writes U+FFFD if it ended within a character.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_detokenizer_finish(
    detokenizer: *mut gleed_detokenizer,
    text: *mut c_char,
    text_len: usize,
    written: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `detokenizer` are checked here. gleed.h demands
        // the rest: nothing but this call uses `detokenizer`, `text_len` elements at `text` are used by nothing else,
        // and `written` is a place for a result that nothing else uses.
        let (mut detokenizer, text, written) = unsafe {
            (
                Object::get_mut("detokenizer", detokenizer)?,
                slice_mut("text", text.cast::<u8>(), text_len)?,
                out("written", written)?,
            )
        };
        let mut trial = *detokenizer;
        let rest = trial.finish();
        let (needed, given) = (rest.len(), text.len());
        let place = text.get_mut(..needed).ok_or(TokenError::OutputTooSmall { needed, given })?;
        for (to, from) in place.iter_mut().zip(rest.bytes()) {
            *to = from;
        }
        *detokenizer = trial;
        written.write(needed);
        Ok(status::OK)
    })
}
