//! Text to tokens.

use core::ffi::c_char;

use gleed::token::EncodeOptions;

use crate::error::{Failure, boundary, gleed_error};
use crate::object::Object;
use crate::ptr::{out, slice_mut, unread};
use crate::status;
use crate::text::{check_fits, check_text_len, known_flags, utf8};
use crate::tokenizer::gleed_tokenizer;

/// The tokens that begin and end a text are added, if the vocabulary says so.
pub const GLEED_ENCODE_ADD_SPECIAL: u32 = 1;
/// Names of control tokens in the text become these tokens.
pub const GLEED_ENCODE_PARSE_SPECIAL: u32 = 2;
/// A text with bytes that the vocabulary cannot spell is refused.
pub const GLEED_ENCODE_EXACT: u32 = 4;
/// The text continues another one: no blank is put before it.
pub const GLEED_ENCODE_CONTINUES: u32 = 8;

/// Encodes a text as tokens.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_encode(
    tokenizer: *const gleed_tokenizer,
    text: *const c_char,
    text_len: usize,
    flags: u32,
    scratch: *mut u32,
    scratch_len: usize,
    tokens: *mut u32,
    tokens_len: usize,
    count: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `tokenizer` are checked here. gleed.h demands
        // the rest: no other call changes `tokenizer`, `text_len` bytes are at `text` if so many can be taken,
        // `scratch_len` elements at `scratch` are used by nothing else, `tokens_len` elements at `tokens` are used by
        // nothing else, and `count` is a place for a result that nothing else uses.
        let (tokenizer, text, scratch, tokens, count) = unsafe {
            (
                Object::get("tokenizer", tokenizer)?,
                unread("text", text.cast::<u8>(), text_len)?,
                slice_mut("scratch", scratch, scratch_len)?,
                slice_mut("tokens", tokens, tokens_len)?,
                out("count", count)?,
            )
        };
        let options = encode_options(flags)?;
        let text = utf8(text.read_if(check_text_len)?)?;
        // A trial without output comes first: the caller's buffer is written to only if the call succeeds.
        check_fits(tokenizer.encode(text, options, scratch, &mut []).map(drop), tokens_len)?;
        count.write(tokenizer.encode(text, options, scratch, tokens)?.ids);
        Ok(status::OK)
    })
}

/// Returns how many bytes of a text the vocabulary cannot spell.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_unspelled(
    tokenizer: *const gleed_tokenizer,
    text: *const c_char,
    text_len: usize,
    flags: u32,
    scratch: *mut u32,
    scratch_len: usize,
    bytes: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `tokenizer` are checked here. gleed.h demands
        // the rest: no other call changes `tokenizer`, `text_len` bytes are at `text` if so many can be taken,
        // `scratch_len` elements at `scratch` are used by nothing else, and `bytes` is a place for a result that
        // nothing else uses.
        let (tokenizer, text, scratch, bytes) = unsafe {
            (
                Object::get("tokenizer", tokenizer)?,
                unread("text", text.cast::<u8>(), text_len)?,
                slice_mut("scratch", scratch, scratch_len)?,
                out("bytes", bytes)?,
            )
        };
        let options = encode_options(flags)?;
        let text = utf8(text.read_if(check_text_len)?)?;
        bytes.write(tokenizer.unspelled(text, options, scratch)?);
        Ok(status::OK)
    })
}

fn encode_options(flags: u32) -> Result<EncodeOptions, Failure> {
    const KNOWN: u32 =
        GLEED_ENCODE_ADD_SPECIAL | GLEED_ENCODE_PARSE_SPECIAL | GLEED_ENCODE_EXACT | GLEED_ENCODE_CONTINUES;
    let flags = known_flags(flags, KNOWN)?;
    Ok(EncodeOptions {
        add_special: flags & GLEED_ENCODE_ADD_SPECIAL != 0,
        parse_special: flags & GLEED_ENCODE_PARSE_SPECIAL != 0,
        exact: flags & GLEED_ENCODE_EXACT != 0,
        continues: flags & GLEED_ENCODE_CONTINUES != 0,
    })
}
