//! Cached prefixes, which sequences share, and room in the pool.

use core::ffi::c_void;

use gleed::SeqId;

use crate::engine::gleed_engine;
use crate::error::{boundary, gleed_error};
use crate::object::Object;
use crate::ptr::{out, out_row, unread};
use crate::sequence::{gleed_seq, gleed_seq_info, seq_info};
use crate::status;

/// Decides whether a sequence may be closed. Returns 0 if not.
pub type gleed_consent =
    Option<unsafe extern "C" fn(ctx: *mut c_void, seq: gleed_seq, info: *const gleed_seq_info) -> i32>;

/// Starts an empty sequence with the cached prefix of a prompt.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_reuse(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    tokens: *const u32,
    count: usize,
    reused: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `count` ids are at `tokens` if so many can be taken, and
        // `reused` is a place for a result that nothing else uses.
        let (mut engine, tokens, reused) =
            unsafe { (Object::get_mut("engine", engine)?, unread("tokens", tokens, count)?, out("reused", reused)?) };
        let seq = SeqId::from_bits(seq);
        let tokens = tokens.read_if(|count| engine.can_reuse(seq, count))?;
        reused.write(engine.reuse(seq, tokens)?);
        Ok(status::OK)
    })
}

/// Fills an empty sequence with a prompt, whose cached prefix is not computed again.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_prefill_prompt(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    tokens: *const u32,
    count: usize,
    logits: *mut *const f32,
    logits_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `count` ids are at `tokens` if so many can be taken, and
        // `logits` and `logits_len` are places for results that nothing else uses.
        let (mut engine, tokens, logits) = unsafe {
            (
                Object::get_mut("engine", engine)?,
                unread("tokens", tokens, count)?,
                out_row(["logits", "logits_len"], logits, logits_len)?,
            )
        };
        let seq = SeqId::from_bits(seq);
        let tokens = tokens.read_if(|count| engine.can_prefill_prompt(seq, count))?;
        logits.write(engine.prefill_prompt(seq, tokens)?);
        Ok(status::OK)
    })
}

/// Pins the cached prefix of a prompt.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_pin(
    engine: *mut gleed_engine,
    tokens: *const u32,
    count: usize,
    pinned: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `count` ids are at `tokens` if so many can be taken, and
        // `pinned` is a place for a result that nothing else uses.
        let (mut engine, tokens, pinned) =
            unsafe { (Object::get_mut("engine", engine)?, unread("tokens", tokens, count)?, out("pinned", pinned)?) };
        let tokens = tokens.read_if(|count| engine.check_context(count))?;
        pinned.write(engine.pin(tokens)?);
        Ok(status::OK)
    })
}

/// Removes one pin from each pinned block of a prompt: undoes [`gleed_pin`].
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_unpin(
    engine: *mut gleed_engine,
    tokens: *const u32,
    count: usize,
    unpinned: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `count` ids are at `tokens` if so many can be taken, and
        // `unpinned` is a place for a result that nothing else uses.
        let (mut engine, tokens, unpinned) = unsafe {
            (Object::get_mut("engine", engine)?, unread("tokens", tokens, count)?, out("unpinned", unpinned)?)
        };
        let tokens = tokens.read_if(|count| engine.check_context(count))?;
        unpinned.write(engine.unpin(tokens)?);
        Ok(status::OK)
    })
}

/// Closes idle sequences, the least recently used first, until `tokens` more tokens fit in `seq`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_make_room(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    tokens: usize,
    consent: gleed_consent,
    ctx: *mut c_void,
    closed: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`, and `closed` is a place for a result that nothing else uses.
        let (mut engine, closed) = unsafe { (Object::get_mut("engine", engine)?, out("closed", closed)?) };
        let count = engine.make_room(SeqId::from_bits(seq), tokens, |seq, stats| {
            let info = seq_info(stats, None, false);
            // SAFETY: gleed.h demands that `consent` is NULL or a function that may be called with `ctx` until the
            // call ends. A function from C is never NULL here, and `info` lives until it returns.
            consent.is_none_or(|consent| unsafe { consent(ctx, seq.to_bits(), &info) } != 0)
        })?;
        closed.write(count);
        Ok(status::OK)
    })
}
