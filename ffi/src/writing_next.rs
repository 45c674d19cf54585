//! Writings: their state, and the tokens that may follow or have to follow their text.

use gleed::grammar::MatchError;
use gleed::writing::STATE_LEN;

use crate::error::{Failure, boundary, gleed_error};
use crate::matcher_next::make;
use crate::object::Object;
use crate::ptr::{out, slice_mut, small};
use crate::status;
use crate::tokenizer::gleed_tokenizer;
use crate::trie::gleed_trie;
use crate::versioned::{Versioned, out_struct};
use crate::writing::gleed_writing;

/// As `within`: the text need not end within a number of tokens. As `bytes_to_end`: the number of bytes is not known.
pub const GLEED_NO_END: u64 = u64::MAX;

/// The state of a writing; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_writing_info {
    /// `sizeof(gleed_writing_info)`, set by the caller.
    pub struct_size: u32,
    /// Handle of the sequence.
    pub seq: u32,
    /// Position of the text's first token.
    pub begin: u32,
    /// Position behind the last token that the matcher has taken.
    pub end: u32,
    /// 1: the text may end here.
    pub is_end: u32,
    /// 0.
    pub reserved: u32,
    /// A number of bytes that suffices to bring the text to an end; `GLEED_NO_END` if the grammar does not know it.
    pub bytes_to_end: u64,
}

// SAFETY: integers, the first the size and the 8-byte one at a multiple of 8: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_writing_info {}

/// Writes the state of a writing to `info`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_describe(
    writing: *mut gleed_writing,
    info: *mut gleed_writing_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `writing` are checked here. gleed.h demands
        // the rest: nothing but this call uses `writing`, and `info` has as many bytes as its struct_size says.
        let (mut writing, info) = unsafe { (Object::get_mut("writing", writing)?, out_struct("info", info)?) };
        let bytes_to_end = match writing.matcher().bytes_to_end() {
            Ok(bytes) => bytes as u64,
            Err(MatchError::NoEnds) => GLEED_NO_END,
            Err(error) => return Err(error.into()),
        };
        info.write(gleed_writing_info {
            struct_size: 0,
            seq: writing.seq().to_bits(),
            begin: small(writing.begin()),
            end: small(writing.len()),
            is_end: writing.matcher().may_end().into(),
            reserved: 0,
            bytes_to_end,
        });
        Ok(status::OK)
    })
}

/// Writes the bytes that have to be saved with the sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_state(
    writing: *const gleed_writing,
    bytes: *mut u8,
    len: usize,
    written: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `writing` are checked here. gleed.h demands the
        // rest: no other call changes `writing`, `len` elements at `bytes` are used by nothing else, and `written` is a
        // place for a result that nothing else uses.
        let (writing, bytes, written) =
            unsafe { (Object::get("writing", writing)?, slice_mut("bytes", bytes, len)?, out("written", written)?) };
        let text = format_args!("the state has {STATE_LEN} bytes, the buffer {len}");
        let too_small = || Failure::new(status::E_SNAPSHOT_BUFFER, text).numbers(STATE_LEN, len);
        *bytes.first_chunk_mut::<STATE_LEN>().ok_or_else(too_small)? = writing.state();
        written.write(STATE_LEN);
        Ok(status::OK)
    })
}

/// Takes a token that is appended to the sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_accept(
    writing: *mut gleed_writing,
    tokenizer: *const gleed_tokenizer,
    token: u32,
    accepted: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `writing` and `tokenizer` are checked here. gleed.h
        // demands the rest: nothing but this call uses `writing`, no other call changes `tokenizer`, and `accepted` is
        // a place for a result that nothing else uses.
        let (mut writing, tokenizer, accepted) = unsafe {
            (Object::get_mut("writing", writing)?, Object::get("tokenizer", tokenizer)?, out("accepted", accepted)?)
        };
        accepted.write(writing.accept(tokenizer, token)?.into());
        Ok(status::OK)
    })
}

/// Goes on with the mask of the tokens that may follow.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_mask(
    writing: *mut gleed_writing,
    trie: *const gleed_trie,
    within: u64,
    units: u64,
    flags: u32,
    mask: *mut u32,
    mask_len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `writing` and `trie` are checked here. gleed.h
        // demands the rest: nothing but this call uses `writing`, no other call changes `trie`, and `mask_len` elements
        // at `mask` are used by nothing else.
        let (mut writing, trie, mask) = unsafe {
            (Object::get_mut("writing", writing)?, Object::get("trie", trie)?, slice_mut("mask", mask, mask_len)?)
        };
        let within = Some(within).filter(|&within| within != GLEED_NO_END);
        make(writing.matcher(), trie, within, units, flags, mask)
    })
}

/// Writes the tokens that have to follow.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_forced_tokens(
    writing: *mut gleed_writing,
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
        // rest: nothing but this call uses `writing`, and no other call changes `tokenizer` and `trie`.
        let (mut writing, tokenizer, trie) = unsafe {
            (Object::get_mut("writing", writing)?, Object::get("tokenizer", tokenizer)?, Object::get("trie", trie)?)
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
        count.write(writing.matcher().forced_tokens(tokenizer, &trie.trie, scratch, tokens)?);
        Ok(status::OK)
    })
}
