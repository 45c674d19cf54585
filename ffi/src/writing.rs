//! Writings: a sequence and its matcher, kept together.

use core::ffi::c_void;

use gleed::SeqId;
use gleed::grammar::{Grammar, Limits, Matcher};
use gleed::mem::ALIGN;
use gleed::writing::{Writing, WritingError};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::grammar::gleed_grammar;
use crate::matcher::{self, gleed_matcher_limits};
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, out_layout, slice};
use crate::sequence::gleed_seq;
use crate::status;
use crate::tokenizer::gleed_tokenizer;

impl Opaque for Writing<'static, 'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedY01");
}

/// A writing: a sequence's text under a grammar, at the head of its memory.
pub type gleed_writing = Object<Writing<'static, 'static>>;

impl From<WritingError> for Failure {
    fn from(error: WritingError) -> Self {
        let new = |status| Self::new(status, format_args!("{error}"));
        match error {
            WritingError::Engine(error) => error.into(),
            WritingError::Match(error) => error.into(),
            WritingError::Before { begin, given } => new(status::E_NOT_REWINDABLE).numbers(begin, given),
            WritingError::Gone { position } => new(status::E_WINDOW).at(position),
            WritingError::Refused { position, token } => new(status::E_NOT_ALLOWED).numbers(0_u32, token).at(position),
            WritingError::State { given } => new(status::E_SNAPSHOT_GRAMMAR).numbers(0_u32, given),
            _ => new(status::E_INTERNAL),
        }
    }
}

fn planned(limits: Limits) -> Result<usize, Failure> {
    Ok(gleed_writing::with_head(Matcher::plan(limits)?)?)
}

/// Returns the size and alignment of the memory of a writing, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_plan(
    size: *mut usize,
    align: *mut usize,
    limits: *const gleed_matcher_limits,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `size` and `align` are
        // places for results that nothing else uses, and `limits` is NULL or has as many bytes as its struct_size says.
        let (layout, limits) = unsafe { (out_layout(size, align)?, matcher::limits(limits)?) };
        layout.write(planned(limits)?, ALIGN);
        Ok(status::OK)
    })
}

/// Starts a writing in `memory`: an empty text behind the tokens of a sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_init(
    engine: *const gleed_engine,
    seq: gleed_seq,
    grammar: *const gleed_grammar,
    limits: *const gleed_matcher_limits,
    memory: *mut c_void,
    memory_len: usize,
    writing: *mut *mut gleed_writing,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `engine` and `grammar` are checked here.
        // gleed.h demands the rest: no other call changes them, `writing` is a place for a result that nothing else
        // uses, and `limits` is NULL or has as many bytes as its struct_size says.
        let (engine, grammar, place, limits) = unsafe {
            (
                Object::get("engine", engine)?,
                Object::get("grammar", grammar)?,
                out("writing", writing)?,
                matcher::limits(limits)?,
            )
        };
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the writing is used. So they are lent for as long as they are
        // used.
        let (head, matcher) = unsafe { start(grammar, limits, memory, memory_len) }?;
        place.write(Object::place(head, Writing::new(engine, SeqId::from_bits(seq), matcher)?)?);
        Ok(status::OK)
    })
}

/// Returns the memory of the head, and a new matcher behind it, in the caller's memory.
///
/// # Safety
/// As [`memory`](crate::ptr::memory), for as long as anybody uses the matcher.
unsafe fn start(
    grammar: &Grammar<'static>,
    limits: Limits,
    memory: *mut c_void,
    len: usize,
) -> Result<(&'static mut [u8], Matcher<'static, 'static>), Failure> {
    let needed = planned(limits)?;
    // SAFETY: the size and alignment of the memory are checked here; the caller promises the rest.
    let memory = unsafe { self::memory("memory", memory.cast(), len, needed, ALIGN) }?;
    let (head, rest) = gleed_writing::halves(memory);
    Ok((head, Matcher::new(grammar, limits, rest)?))
}

/// Goes on with the text of a sequence that was restored, in a new writing.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_resume(
    engine: *const gleed_engine,
    tokenizer: *const gleed_tokenizer,
    seq: gleed_seq,
    grammar: *const gleed_grammar,
    state: *const u8,
    state_len: usize,
    limits: *const gleed_matcher_limits,
    memory: *mut c_void,
    memory_len: usize,
    writing: *mut *mut gleed_writing,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of the three objects are checked here. gleed.h demands the
        // rest: no other call changes them.
        let (engine, tokenizer, grammar) = unsafe {
            (Object::get("engine", engine)?, Object::get("tokenizer", tokenizer)?, Object::get("grammar", grammar)?)
        };
        // SAFETY: NULL, alignment, lengths and struct_size are checked here. gleed.h demands the rest: `state_len`
        // bytes are at `state`, `writing` is a place for a result that nothing else uses, and `limits` is NULL or has
        // as many bytes as its struct_size says.
        let (state, place, limits) =
            unsafe { (slice("state", state, state_len)?, out("writing", writing)?, matcher::limits(limits)?) };
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the writing is used. So they are lent for as long as they are
        // used.
        let (head, matcher) = unsafe { start(grammar, limits, memory, memory_len) }?;
        let writing = Writing::resume(engine, tokenizer, SeqId::from_bits(seq), matcher, state)?;
        place.write(Object::place(head, writing)?);
        Ok(status::OK)
    })
}

/// Opens a sequence that starts with the first `keep` tokens of a writing's sequence, and makes a writing of it that
/// has the text of these tokens.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_fork(
    writing: *mut gleed_writing,
    engine: *mut gleed_engine,
    tokenizer: *const gleed_tokenizer,
    keep: usize,
    memory: *mut c_void,
    memory_len: usize,
    fork: *mut *mut gleed_writing,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of the three objects are checked here. gleed.h demands the
        // rest: nothing but this call uses `writing` and `engine`, no other call changes `tokenizer`, and `fork` is a
        // place for a result that nothing else uses.
        let (mut writing, mut engine, tokenizer, place) = unsafe {
            (
                Object::get_mut("writing", writing)?,
                Object::get_mut("engine", engine)?,
                Object::get("tokenizer", tokenizer)?,
                out("fork", fork)?,
            )
        };
        let needed = planned(writing.matcher().limits())?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the copy is used. So they are lent for as long as they are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_writing::halves(memory);
        let fork = writing.fork(&mut engine, tokenizer, keep, rest)?;
        place.write(Object::place(head, fork)?);
        Ok(status::OK)
    })
}

/// Keeps only the first `keep` tokens of the sequence, and the text of these tokens.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_rewind(
    writing: *mut gleed_writing,
    engine: *mut gleed_engine,
    tokenizer: *const gleed_tokenizer,
    keep: usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of the three objects are checked here. gleed.h demands the
        // rest: nothing but this call uses `writing` and `engine`, and no other call changes `tokenizer`.
        let (mut writing, mut engine, tokenizer) = unsafe {
            (
                Object::get_mut("writing", writing)?,
                Object::get_mut("engine", engine)?,
                Object::get("tokenizer", tokenizer)?,
            )
        };
        writing.rewind(&mut engine, tokenizer, keep)?;
        Ok(status::OK)
    })
}

/// Brings the text to the length of the sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_writing_follow(
    writing: *mut gleed_writing,
    engine: *const gleed_engine,
    tokenizer: *const gleed_tokenizer,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of the three objects are checked here. gleed.h demands the
        // rest: nothing but this call uses `writing`, and no other call changes `engine` and `tokenizer`.
        let (mut writing, engine, tokenizer) = unsafe {
            (Object::get_mut("writing", writing)?, Object::get("engine", engine)?, Object::get("tokenizer", tokenizer)?)
        };
        writing.follow(engine, tokenizer)?;
        Ok(status::OK)
    })
}
