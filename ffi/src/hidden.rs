//! What a model makes of a text besides the next token: embeddings, probabilities, hidden states.

use gleed::{Pooling, SeqId};

use crate::engine::gleed_engine;
use crate::error::{Failure, gleed_error, run};
use crate::object::Object;
use crate::ptr::{out, slice_mut, small, unread};
use crate::sequence::gleed_seq;
use crate::status;

/// The mean of the hidden states.
pub const GLEED_POOLING_MEAN: u32 = 0;
/// The last hidden state.
pub const GLEED_POOLING_LAST: u32 = 1;

/// Appends tokens to a sequence and pools their hidden states.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_embed(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    tokens: *const u32,
    count: usize,
    pooling: u32,
    values: *mut f32,
    values_len: usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let mut engine = Object::get_mut("engine", engine)?;
            let tokens = unread("tokens", tokens, count)?;
            let values = slice_mut("values", values, values_len)?;
            let pooling = match pooling {
                GLEED_POOLING_MEAN => Pooling::Mean,
                GLEED_POOLING_LAST => Pooling::Last,
                given => {
                    let text = format_args!("pooling is {given}, it must be 0 or 1");
                    return Err(Failure::new(status::E_VALUE, text).numbers(GLEED_POOLING_LAST, given));
                }
            };
            let seq = SeqId::from_bits(seq);
            engine.can_prefill(seq, tokens.len())?;
            engine.embed(seq, tokens.read(), pooling, values)?;
            Ok(status::OK)
        })
    }
}

/// Appends tokens to a sequence and says how probable each was.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_log_probs(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    tokens: *const u32,
    count: usize,
    values: *mut f32,
    values_len: usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let mut engine = Object::get_mut("engine", engine)?;
            let tokens = unread("tokens", tokens, count)?;
            let values = slice_mut("values", values, values_len)?;
            let seq = SeqId::from_bits(seq);
            engine.can_prefill(seq, tokens.len())?;
            engine.log_probs(seq, tokens.read(), values)?;
            Ok(status::OK)
        })
    }
}

/// A row of the last batch whose hidden state was wanted.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_hidden(
    engine: *mut gleed_engine,
    index: usize,
    seq: *mut gleed_seq,
    position: *mut u32,
    hidden: *mut *const f32,
    hidden_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let mut engine = Object::get_mut("engine", engine)?;
            let (seq, position) = (out("seq", seq)?, out("position", position)?);
            let (hidden, hidden_len) = (out("hidden", hidden)?, out("hidden_len", hidden_len)?);
            let rows = engine.hidden_rows();
            let (owner, at, row) = engine.hidden_row(index).ok_or_else(|| {
                let text = format_args!("{rows} rows have hidden states, there is no row {index}");
                Failure::new(status::E_NO_LOGITS, text).numbers(rows, index)
            })?;
            seq.write(owner.to_bits());
            position.write(small(at));
            hidden.write_row(hidden_len, row);
            Ok(status::OK)
        })
    }
}
