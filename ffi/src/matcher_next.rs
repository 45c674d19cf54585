//! Matchers: the tokens that may follow a text, and the bytes and tokens that have to follow it.

use core::ffi::c_char;

use gleed::grammar::Matcher;

use crate::error::{Failure, boundary, gleed_error};
use crate::matcher::gleed_matcher;
use crate::object::Object;
use crate::ptr::{out, slice_mut};
use crate::status;
use crate::text::known_flags;
use crate::tokenizer::gleed_tokenizer;
use crate::trie::{Tokens, gleed_trie};

/// Where the text may end, the mask has the tokens that end a text, too.
pub const GLEED_MASK_ENDS: u32 = 1;

/// Goes on with the mask of the tokens that may follow.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_mask(
    matcher: *mut gleed_matcher,
    trie: *const gleed_trie,
    units: u64,
    flags: u32,
    mask: *mut u32,
    mask_len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `matcher` and `trie` are checked here. gleed.h
        // demands the rest: nothing but this call uses `matcher`, no other call changes `trie`, and `mask_len` elements
        // at `mask` are used by nothing else.
        let (mut matcher, trie, mask) = unsafe {
            (Object::get_mut("matcher", matcher)?, Object::get("trie", trie)?, slice_mut("mask", mask, mask_len)?)
        };
        make(&mut matcher, trie, None, units, flags, mask)
    })
}

/// Goes on with the mask of the tokens that may follow if the text is to end within a number of tokens.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_mask_within(
    matcher: *mut gleed_matcher,
    trie: *const gleed_trie,
    within: u64,
    units: u64,
    flags: u32,
    mask: *mut u32,
    mask_len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `matcher` and `trie` are checked here. gleed.h
        // demands the rest: nothing but this call uses `matcher`, no other call changes `trie`, and `mask_len` elements
        // at `mask` are used by nothing else.
        let (mut matcher, trie, mask) = unsafe {
            (Object::get_mut("matcher", matcher)?, Object::get("trie", trie)?, slice_mut("mask", mask, mask_len)?)
        };
        make(&mut matcher, trie, Some(within), units, flags, mask)
    })
}

/// Goes on with a mask. With `within`, the text is to end within so many tokens.
pub(crate) fn make(
    matcher: &mut Matcher<'_, '_>,
    trie: &Tokens,
    within: Option<u64>,
    units: u64,
    flags: u32,
    mask: &mut [u32],
) -> Result<i32, Failure> {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let flags = known_flags(flags, GLEED_MASK_ENDS)?;
    let units = if units == 0 { usize::MAX } else { count(units) };
    let is_made = match within {
        None => matcher.mask(&trie.trie, units, mask)?,
        Some(tokens) => matcher.mask_within(&trie.trie, count(tokens), units, mask)?,
    };
    if !is_made {
        return Ok(status::YIELDED);
    }
    if flags & GLEED_MASK_ENDS != 0 && matcher.may_end() {
        for &id in trie.ends() {
            mask.get_mut(id as usize / 32).into_iter().for_each(|word| *word |= 1 << (id % 32));
        }
    }
    Ok(status::OK)
}

/// Returns a number of bytes that suffices to bring the text to an end.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_bytes_to_end(
    matcher: *mut gleed_matcher,
    bytes: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `matcher` are checked here. gleed.h demands the rest:
        // nothing but this call uses `matcher`, and `bytes` is a place for a result that nothing else uses.
        let (mut matcher, bytes) = unsafe { (Object::get_mut("matcher", matcher)?, out("bytes", bytes)?) };
        bytes.write(matcher.bytes_to_end()?);
        Ok(status::OK)
    })
}

/// Writes the bytes that have to follow.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_forced(
    matcher: *mut gleed_matcher,
    text: *mut c_char,
    text_len: usize,
    written: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `matcher` are checked here. gleed.h demands the
        // rest: nothing but this call uses `matcher`, `text_len` elements at `text` are used by nothing else, and
        // `written` is a place for a result that nothing else uses.
        let (mut matcher, text, written) = unsafe {
            (
                Object::get_mut("matcher", matcher)?,
                slice_mut("text", text.cast::<u8>(), text_len)?,
                out("written", written)?,
            )
        };
        written.write(matcher.forced(text)?);
        Ok(status::OK)
    })
}

/// Writes the tokens that have to follow.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_forced_tokens(
    matcher: *mut gleed_matcher,
    tokenizer: *const gleed_tokenizer,
    trie: *const gleed_trie,
    scratch: *mut u32,
    scratch_len: usize,
    tokens: *mut u32,
    tokens_len: usize,
    count: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of the three objects are checked here. gleed.h demands the
        // rest: nothing but this call uses `matcher`, and no other call changes `tokenizer` and `trie`.
        let (mut matcher, tokenizer, trie) = unsafe {
            (Object::get_mut("matcher", matcher)?, Object::get("tokenizer", tokenizer)?, Object::get("trie", trie)?)
        };
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `scratch_len` elements at
        // `scratch` and `tokens_len` elements at `tokens` are used by nothing else, and `count` is a place for a result
        // that nothing else uses.
        let (scratch, tokens, count) = unsafe {
            (
                slice_mut("scratch", scratch, scratch_len)?,
                slice_mut("tokens", tokens, tokens_len)?,
                out("count", count)?,
            )
        };
        count.write(matcher.forced_tokens(tokenizer, &trie.trie, scratch, tokens)?);
        Ok(status::OK)
    })
}
