//! What sequences have in common: cached prefixes, and room in the pool.

use core::ffi::c_void;

use gleed::SeqId;

use crate::engine::gleed_engine;
use crate::error::{gleed_error, run};
use crate::object::Object;
use crate::ptr::{out, slice};
use crate::sequence::{gleed_seq, gleed_seq_info, seq_info};
use crate::status;

/// Whether a sequence may be closed: 0 if not.
pub type gleed_consent =
    Option<unsafe extern "C" fn(ctx: *mut c_void, seq: gleed_seq, info: *const gleed_seq_info) -> i32>;

/// Starts an empty sequence with what is known of a prompt.
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
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let engine = Object::get_mut("engine", engine)?;
            let tokens = slice("tokens", tokens, count)?;
            let reused = out("reused", reused)?;
            reused.write(engine.reuse(SeqId::from_bits(seq), tokens)?);
            Ok(status::OK)
        })
    }
}

/// Fills an empty sequence with a prompt, of which what is known is not computed again.
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
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let engine = Object::get_mut("engine", engine)?;
            let tokens = slice("tokens", tokens, count)?;
            let (logits, logits_len) = (out("logits", logits)?, out("logits_len", logits_len)?);
            let row = engine.prefill_prompt(SeqId::from_bits(seq), tokens)?;
            logits.write_row(logits_len, row);
            Ok(status::OK)
        })
    }
}

/// Keeps what is known of a prompt.
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
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let engine = Object::get_mut("engine", engine)?;
            let tokens = slice("tokens", tokens, count)?;
            let pinned = out("pinned", pinned)?;
            pinned.write(engine.pin(tokens)?);
            Ok(status::OK)
        })
    }
}

/// Undoes [`gleed_pin`].
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
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let engine = Object::get_mut("engine", engine)?;
            let tokens = slice("tokens", tokens, count)?;
            let unpinned = out("unpinned", unpinned)?;
            unpinned.write(engine.unpin(tokens)?);
            Ok(status::OK)
        })
    }
}

/// Closes idle sequences until tokens fit.
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
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let engine = Object::get_mut("engine", engine)?;
            let closed = out("closed", closed)?;
            let count = engine.make_room(SeqId::from_bits(seq), tokens, |seq, stats| {
                consent.is_none_or(|consent| consent(ctx, seq.to_bits(), &seq_info(stats, None, false)) != 0)
            })?;
            closed.write(count);
            Ok(status::OK)
        })
    }
}
