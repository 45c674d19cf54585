//! Sequences: open, extend, empty, close.

use gleed::SeqId;

use crate::engine::gleed_engine;
use crate::error::{gleed_error, run};
use crate::object::Object;
use crate::ptr::{out, slice};
use crate::status;

/// A handle of an open sequence; stale ones are recognised.
pub type gleed_seq = u32;

/// Opens an empty sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_seq_open(
    engine: *mut gleed_engine,
    seq: *mut gleed_seq,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let engine = Object::get_mut("engine", engine)?;
            let seq = out("seq", seq)?;
            seq.write(engine.open()?.to_bits());
            Ok(status::OK)
        })
    }
}

/// Closes a sequence and frees its blocks.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_seq_close(engine: *mut gleed_engine, seq: gleed_seq, error: *mut gleed_error) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            Object::get_mut("engine", engine)?.close(SeqId::from_bits(seq))?;
            Ok(status::OK)
        })
    }
}

/// Empties a sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_reset(engine: *mut gleed_engine, seq: gleed_seq, error: *mut gleed_error) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            Object::get_mut("engine", engine)?.reset(SeqId::from_bits(seq))?;
            Ok(status::OK)
        })
    }
}

/// Appends tokens to a sequence and computes the logits of the last one.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_prefill(
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
            let row = engine.prefill(SeqId::from_bits(seq), tokens)?;
            logits.write(row.as_ptr());
            logits_len.write(row.len());
            Ok(status::OK)
        })
    }
}

/// Appends one token to a sequence and computes its logits.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_decode_step(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    token: u32,
    logits: *mut *const f32,
    logits_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them; the token lives during the call.
    unsafe { gleed_prefill(engine, seq, &token, 1, logits, logits_len, error) }
}
