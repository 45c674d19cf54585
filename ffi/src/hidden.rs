//! Results other than the next token's logits: embeddings, log probabilities, hidden states.

use gleed::{EngineError, Model, Pooling, SeqId};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::model::gleed_model;
use crate::object::Object;
use crate::ptr::{out, out_row, slice_mut, small, unread};
use crate::sequence::gleed_seq;
use crate::status;

/// The mean of the hidden states.
pub const GLEED_POOLING_MEAN: u32 = 0;
/// The last hidden state.
pub const GLEED_POOLING_LAST: u32 = 1;

/// The first hidden state.
pub const GLEED_POOLING_CLS: u32 = 2;
/// The output of a reranker's classifier: one number for each class.
pub const GLEED_POOLING_RANK: u32 = 3;
/// The pooling that the model's file asks for, or the mean if it asks for none.
pub const GLEED_POOLING_MODEL: u32 = 4;

/// Returns the pooling that a number stands for.
fn pooling_of(number: u32, model: &Model<'_>) -> Result<Pooling, Failure> {
    match number {
        GLEED_POOLING_MEAN => Ok(Pooling::Mean),
        GLEED_POOLING_LAST => Ok(Pooling::Last),
        GLEED_POOLING_CLS => Ok(Pooling::Cls),
        GLEED_POOLING_RANK => Ok(Pooling::Rank),
        GLEED_POOLING_MODEL => Ok(model.pooling().unwrap_or(Pooling::Mean)),
        given => {
            let text = format_args!("pooling is {given}, it must be 0 to 4");
            Err(Failure::new(status::E_VALUE, text).numbers(GLEED_POOLING_MODEL, given))
        }
    }
}

/// Returns the pooling that a number stands for, and the number of elements of such an embedding.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_model_embedding(
    model: *const gleed_model,
    pooling: u32,
    used: *mut u32,
    values_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `model` are checked here. gleed.h demands the rest: no
        // other call changes `model`, and `used` and `values_len` are places for results that nothing else uses.
        let (model, used, values_len) =
            unsafe { (Object::get("model", model)?, out("used", used)?, out("values_len", values_len)?) };
        let pooling = pooling_of(pooling, model)?;
        let len = model.config().embedding_len(pooling).ok_or(EngineError::NoClasses)?;
        used.write(match pooling {
            Pooling::Mean => GLEED_POOLING_MEAN,
            Pooling::Last => GLEED_POOLING_LAST,
            Pooling::Cls => GLEED_POOLING_CLS,
            Pooling::Rank => GLEED_POOLING_RANK,
        });
        values_len.write(len);
        Ok(status::OK)
    })
}

/// Writes embeddings of several texts.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_embed_texts(
    engine: *mut gleed_engine,
    tokens: *const u32,
    count: usize,
    lengths: *const usize,
    texts: usize,
    pooling: u32,
    values: *mut f32,
    values_len: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `texts` numbers are at `lengths` if `values_len` elements are that
        // many vectors, `count` ids are at `tokens` if that is the sum of these numbers, and `values_len` elements at
        // `values` are used by nothing else.
        let (mut engine, tokens, lengths, values) = unsafe {
            (
                Object::get_mut("engine", engine)?,
                unread("tokens", tokens, count)?,
                unread("lengths", lengths, texts)?,
                slice_mut("values", values, values_len)?,
            )
        };
        let pooling = pooling_of(pooling, engine.model())?;
        let width = engine.model().config().embedding_len(pooling).ok_or(EngineError::NoClasses)?;
        let lengths = lengths.read_if(|texts| match texts.saturating_mul(width) {
            needed if needed == values_len => Ok(()),
            needed => Err(EngineError::OutputLength { needed, given: values_len }),
        })?;
        lengths.iter().try_for_each(|&length| engine.check_context(length))?;
        let sum = lengths.iter().fold(0_usize, |sum, &length| sum.saturating_add(length));
        let tokens = tokens.read_if(|count| match count == sum {
            true => Ok(()),
            false => {
                let text = format_args!("the lengths of the texts are {sum} tokens, not {count}");
                Err(Failure::new(status::E_VALUE, text).numbers(sum, count))
            }
        })?;
        engine.embed_all(Texts { tokens, lengths: lengths.iter() }, pooling, values)?;
        Ok(status::OK)
    })
}

/// An iterator over texts whose tokens lie one after the other.
#[derive(Clone)]
struct Texts<'c> {
    tokens: &'c [u32],
    lengths: core::slice::Iter<'c, usize>,
}

impl<'c> Iterator for Texts<'c> {
    type Item = &'c [u32];

    fn next(&mut self) -> Option<&'c [u32]> {
        let (text, rest) = self.tokens.split_at_checked(*self.lengths.next()?)?;
        self.tokens = rest;
        Some(text)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.lengths.size_hint()
    }
}

impl ExactSizeIterator for Texts<'_> {}

/// Appends tokens to a sequence and writes their pooled hidden states.
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
        let pooling = pooling_of(pooling, engine.model())?;
        let seq = SeqId::from_bits(seq);
        let tokens = tokens.read_if(|count| engine.can_prefill(seq, count))?;
        engine.embed(seq, tokens, pooling, values)?;
        Ok(status::OK)
    })
}

/// Appends tokens to a sequence and writes the log probability of each but the first.
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

/// Returns a row of the last batch that has a hidden state.
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
