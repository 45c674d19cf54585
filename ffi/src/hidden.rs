//! What a model makes of a text besides the next token: embeddings, probabilities, hidden states.

use gleed::{Pooling, SeqId};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::object::Object;
use crate::ptr::{out, out_row, slice_mut, small, unread};
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
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `count` ids are at `tokens` if so many can be taken, and
        // `values_len` elements at `values` are used by nothing else.
        let (mut engine, tokens, values) = unsafe {
            (
                Object::get_mut("engine", engine)?,
                unread("tokens", tokens, count)?,
                slice_mut("values", values, values_len)?,
            )
        };
        let pooling = match pooling {
            GLEED_POOLING_MEAN => Pooling::Mean,
            GLEED_POOLING_LAST => Pooling::Last,
            given => {
                let text = format_args!("pooling is {given}, it must be 0 or 1");
                return Err(Failure::new(status::E_VALUE, text).numbers(GLEED_POOLING_LAST, given));
            }
        };
        let seq = SeqId::from_bits(seq);
        let tokens = tokens.read_if(|count| engine.can_prefill(seq, count))?;
        engine.embed(seq, tokens, pooling, values)?;
        Ok(status::OK)
    })
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
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `count` ids are at `tokens` if so many can be taken, and
        // `values_len` elements at `values` are used by nothing else.
        let (mut engine, tokens, values) = unsafe {
            (
                Object::get_mut("engine", engine)?,
                unread("tokens", tokens, count)?,
                slice_mut("values", values, values_len)?,
            )
        };
        let seq = SeqId::from_bits(seq);
        let tokens = tokens.read_if(|count| engine.can_prefill(seq, count))?;
        engine.log_probs(seq, tokens, values)?;
        Ok(status::OK)
    })
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`, and `seq`, `position`, `hidden` and `hidden_len` are places for
        // results that nothing else uses.
        let (mut engine, seq, position, hidden) = unsafe {
            (
                Object::get_mut("engine", engine)?,
                out("seq", seq)?,
                out("position", position)?,
                out_row(["hidden", "hidden_len"], hidden, hidden_len)?,
            )
        };
        let rows = engine.hidden_rows();
        let (owner, at, row) = engine.hidden_row(index).ok_or_else(|| {
            let text = format_args!("{rows} rows have hidden states, there is no row {index}");
            Failure::new(status::E_NO_LOGITS, text).numbers(rows, index)
        })?;
        seq.write(owner.to_bits());
        position.write(small(at));
        hidden.write(row);
        Ok(status::OK)
    })
}
