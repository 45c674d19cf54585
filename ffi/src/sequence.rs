//! Sequences: opened, extended, forked, rewound, emptied and closed.

use gleed::cache::{CacheError, SequenceStats};
use gleed::engine::Progress;
use gleed::{Engine, EngineError, SeqId};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::object::Object;
use crate::ptr::{out, out_row, slice_mut, small, unread};
use crate::status;
use crate::tokenizer::GLEED_NO_TOKEN;
use crate::versioned::{Versioned, out_struct};

/// A handle of an open sequence. The handle of a closed one is recognised.
pub type gleed_seq = u32;

/// The state of a sequence; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_seq_info {
    /// `sizeof(gleed_seq_info)`, set by the caller.
    pub struct_size: u32,
    /// Finished tokens.
    pub tokens: u32,
    /// Queued tokens that are not finished.
    pub queued: u32,
    /// Blocks that only this sequence holds.
    pub own_blocks: u32,
    /// Blocks that another sequence or a pin holds, too.
    pub shared_blocks: u32,
    /// 1 while the sequence has unfinished work.
    pub is_busy: u32,
    /// Finished units of work of the batch in progress; 0 if the sequence is not part of it.
    pub units_done: u64,
    /// Remaining units of work of that batch.
    pub units_left: u64,
    /// Bytes of the own blocks.
    pub own_bytes: u64,
    /// Bytes of the shared blocks.
    pub shared_bytes: u64,
}

// SAFETY: integers, the first the size and the 8-byte ones at multiples of 8: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_seq_info {}

/// Returns the state of a sequence as a whole struct. `progress` is `None` for a sequence without unfinished work.
pub(crate) fn seq_info(stats: &SequenceStats, progress: Option<Progress>, is_busy: bool) -> gleed_seq_info {
    let blocks = stats.total();
    let (queued, units_done, units_left) =
        progress.map_or((0, 0, 0), |progress| (progress.queued, progress.units_done, progress.units_left));
    gleed_seq_info {
        struct_size: small(size_of::<gleed_seq_info>()),
        tokens: small(stats.tokens),
        queued: small(queued),
        own_blocks: small(blocks.own),
        shared_blocks: small(blocks.shared),
        is_busy: is_busy.into(),
        units_done: units_done as u64,
        units_left: units_left as u64,
        own_bytes: stats.own_bytes as u64,
        shared_bytes: stats.shared_bytes as u64,
    }
}

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
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`, and `seq` is a place for a result that nothing else uses.
        let (mut engine, seq) = unsafe { (Object::get_mut("engine", engine)?, out("seq", seq)?) };
        seq.write(engine.open()?.to_bits());
        Ok(status::OK)
    })
}

/// Closes a sequence and frees its blocks.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_seq_close(engine: *mut gleed_engine, seq: gleed_seq, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`.
        let mut engine = unsafe { Object::get_mut("engine", engine) }?;
        engine.close(SeqId::from_bits(seq))?;
        Ok(status::OK)
    })
}

/// Removes all tokens of a sequence, which stays open.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_reset(engine: *mut gleed_engine, seq: gleed_seq, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`.
        let mut engine = unsafe { Object::get_mut("engine", engine) }?;
        engine.reset(SeqId::from_bits(seq))?;
        Ok(status::OK)
    })
}

/// Opens a sequence that starts with the first tokens of another one.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_fork(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    keep: usize,
    fork: *mut gleed_seq,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`, and `fork` is a place for a result that nothing else uses.
        let (mut engine, fork) = unsafe { (Object::get_mut("engine", engine)?, out("fork", fork)?) };
        fork.write(engine.fork(SeqId::from_bits(seq), keep)?.to_bits());
        Ok(status::OK)
    })
}

/// Keeps only the first tokens of a sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_rewind(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    keep: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`.
        let mut engine = unsafe { Object::get_mut("engine", engine) }?;
        engine.rewind(SeqId::from_bits(seq), keep)?;
        Ok(status::OK)
    })
}

/// Keeps the state of a sequence's recurrent layers.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_checkpoint(engine: *mut gleed_engine, seq: gleed_seq, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest:
        // nothing but this call uses `engine`.
        let mut engine = unsafe { Object::get_mut("engine", engine) }?;
        let seq = SeqId::from_bits(seq);
        if engine.checkpoint(seq)? {
            return Ok(status::OK);
        }
        let len = engine.seq_len(seq)?;
        let computed = engine.computed_at(seq, len)?;
        if computed < len {
            let text = format_args!("the state of {computed} of the {len} tokens is there");
            return Err(Failure::new(status::FULL, text).numbers(len, computed));
        }
        let text = format_args!("no checkpoint is free: the config has too few");
        Err(Failure::new(status::FULL, text).numbers(1_u32, 0_u32))
    })
}

/// Returns how many tokens need not be computed again after a rewind to `keep` tokens.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_computed_at(
    engine: *const gleed_engine,
    seq: gleed_seq,
    keep: usize,
    computed: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`, and `computed` is a place for a result that nothing else uses.
        let (engine, computed) = unsafe { (Object::get("engine", engine)?, out("computed", computed)?) };
        computed.write(engine.computed_at(SeqId::from_bits(seq), keep)?);
        Ok(status::OK)
    })
}

/// Writes the state of a sequence to `info`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_seq_describe(
    engine: *const gleed_engine,
    seq: gleed_seq,
    info: *mut gleed_seq_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `engine` are checked here. gleed.h demands
        // the rest: no other call changes `engine`, and `info` has as many bytes as its struct_size says.
        let (engine, info) = unsafe { (Object::get("engine", engine)?, out_struct("info", info)?) };
        let seq = SeqId::from_bits(seq);
        let stats = engine.sequence_stats(seq)?;
        let is_busy = matches!(engine.can_extend(seq, 0), Err(EngineError::Cache(CacheError::Busy { .. })));
        info.write(seq_info(&stats, Some(engine.progress(seq)?), is_busy));
        Ok(status::OK)
    })
}

/// Copies the ids of a sequence's tokens, from position `first` on.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_seq_tokens(
    engine: *const gleed_engine,
    seq: gleed_seq,
    first: usize,
    tokens: *mut u32,
    count: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: no other call changes `engine`, and `count` elements at `tokens` are used by nothing else.
        let (engine, tokens) = unsafe { (Object::get("engine", engine)?, slice_mut("tokens", tokens, count)?) };
        let (id, end) = (SeqId::from_bits(seq), first.saturating_add(count));
        let length = engine.seq_len(id)?;
        if end > length {
            let text = format_args!("the sequence has {length} tokens, asked for are those up to {end}");
            return Err(Failure::new(status::E_VALUE, text).numbers(length, end));
        }
        let token = |position| engine.cache().token(id, position);
        if let Some(position) = (first..end).find(|&position| token(position).is_none()) {
            let kept = (position..length).rev().take_while(|&position| token(position).is_some()).count();
            return Err(CacheError::WindowGone { position, first: length.saturating_sub(kept) }.into());
        }
        for (place, position) in tokens.iter_mut().zip(first..) {
            *place = token(position).unwrap_or(GLEED_NO_TOKEN);
        }
        Ok(status::OK)
    })
}

/// Checks whether more tokens fit in a sequence and in the pool.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_can_extend(
    engine: *const gleed_engine,
    seq: gleed_seq,
    tokens: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`.
        let engine = unsafe { Object::get("engine", engine) }?;
        engine.can_extend(SeqId::from_bits(seq), tokens)?;
        Ok(status::OK)
    })
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
    boundary!(error, || {
        // SAFETY: gleed.h demands of these arguments what `prefill` demands.
        unsafe { prefill(engine, seq, None, (tokens, count), (logits, logits_len)) }
    })
}

/// Appends tokens to a sequence that has as many tokens as the caller states, and computes the logits of the last one.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_prefill_at(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    position: usize,
    tokens: *const u32,
    count: usize,
    logits: *mut *const f32,
    logits_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: gleed.h demands of these arguments what `prefill` demands.
        unsafe { prefill(engine, seq, Some(position), (tokens, count), (logits, logits_len)) }
    })
}

/// Appends tokens to a sequence, at `position` if that is stated, and computes the logits of the last one.
///
/// # Safety
/// Nothing else uses the engine. `count` ids are at `tokens` if so many can be taken. `logits` and `logits_len` are
/// places for results that nothing else uses.
unsafe fn prefill(
    engine: *mut gleed_engine,
    seq: gleed_seq,
    position: Option<usize>,
    (tokens, count): (*const u32, usize),
    (logits, logits_len): (*mut *const f32, *mut usize),
) -> Result<i32, Failure> {
    // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. The caller promises the
    // rest.
    let (mut engine, tokens, logits) = unsafe {
        (
            Object::get_mut("engine", engine)?,
            unread("tokens", tokens, count)?,
            out_row(["logits", "logits_len"], logits, logits_len)?,
        )
    };
    let seq = SeqId::from_bits(seq);
    if let Some(position) = position {
        check_position(&engine, seq, position)?;
    }
    let tokens = tokens.read_if(|count| engine.can_prefill(seq, count))?;
    logits.write(engine.prefill(seq, tokens)?);
    Ok(status::OK)
}

/// Checks that a sequence has no unfinished work, and as many tokens as the caller states.
pub(crate) fn check_position(engine: &Engine<'_, '_>, seq: SeqId, given: usize) -> Result<(), EngineError> {
    engine.can_extend(seq, 0)?;
    let expected = engine.seq_len(seq)?;
    if given == expected { Ok(()) } else { Err(CacheError::Position { expected, given }.into()) }
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
    // SAFETY: gleed.h demands the same of `engine`, `logits`, `logits_len` and `error` for both functions, and one id
    // is at `&token`, which lives until the call returns.
    unsafe { gleed_prefill(engine, seq, &token, 1, logits, logits_len, error) }
}
