//! Matchers: the state of a text under a grammar.

use core::ffi::{c_char, c_void};

use gleed::grammar::{Limits, MatchError, Matcher};
use gleed::mem::ALIGN;

use crate::error::{Failure, boundary, gleed_error};
use crate::grammar::gleed_grammar;
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, out_layout, slice};
use crate::status;
use crate::tokenizer::gleed_tokenizer;
use crate::versioned::{Versioned, versioned_or_null};

impl Opaque for Matcher<'static, 'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedX01");
}

/// A matcher, at the head of its memory.
pub type gleed_matcher = Object<Matcher<'static, 'static>>;

/// How much a matcher has room for; see `include/gleed.h`. 0 stands for the default everywhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_matcher_limits {
    /// `sizeof(gleed_matcher_limits)`, set by the caller.
    pub struct_size: u32,
    /// The most ways in which a text can be read at once.
    pub items: u32,
    /// The most calls of rules that are kept.
    pub nodes: u32,
    /// The most calls of rules nested in each other.
    pub depth: u32,
    /// 32-bit words that keep the states before the last tokens, for a rewind.
    pub past: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: only integers of 4 bytes, of which the first is the size: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_matcher_limits {}

impl From<MatchError> for Failure {
    fn from(error: MatchError) -> Self {
        let new = |status| Self::new(status, format_args!("{error}"));
        match error {
            MatchError::TooAmbiguous { limit } => new(status::E_AMBIGUOUS).numbers(limit, 0_u32),
            MatchError::TooDeep { limit } => new(status::E_NESTED).numbers(limit, 0_u32),
            MatchError::Memory(error) => error.into(),
            MatchError::Mask { needed, given } => new(status::E_SHAPE).numbers(needed, given),
            MatchError::ScratchTooSmall { needed, given } => new(status::E_SCRATCH_TOO_SMALL).numbers(needed, given),
            MatchError::NoEnds => new(status::E_VALUE),
            MatchError::NoToken { byte } => new(status::E_NO_TOKEN).numbers(byte.map_or(256, u32::from), 0_u32),
            MatchError::NotKept { given, kept } => new(status::E_NOT_REWINDABLE).numbers(kept, given),
            MatchError::Buffer { needed, given } => new(status::E_SNAPSHOT_BUFFER).numbers(needed, given),
            MatchError::NoSnapshot => new(status::E_SNAPSHOT_MAGIC),
            MatchError::Version { given, known } => new(status::E_SNAPSHOT_VERSION).numbers(known, given),
            MatchError::OtherGrammar => new(status::E_SNAPSHOT_GRAMMAR),
            MatchError::Damaged { at } => new(status::E_SNAPSHOT).at(at),
            _ => new(status::E_INTERNAL),
        }
    }
}

/// Returns the limits at a pointer; the default ones at NULL.
///
/// # Safety
/// As [`versioned_or_null`].
pub(crate) unsafe fn limits(limits: *const gleed_matcher_limits) -> Result<Limits, Failure> {
    // SAFETY: the caller promises as many bytes as struct_size says; NULL, alignment and struct_size are checked here.
    let Some(given) = unsafe { versioned_or_null("limits", limits) }? else { return Ok(Limits::default()) };
    if given.reserved != 0 {
        return Err(Failure::new(status::E_VALUE, format_args!("reserved must be 0")).numbers(0_u32, given.reserved));
    }
    let or = |given: u32, default: usize| match given {
        0 => default,
        given => usize::try_from(given).unwrap_or(usize::MAX),
    };
    let default = Limits::default();
    Ok(Limits {
        items: or(given.items, default.items),
        nodes: or(given.nodes, default.nodes),
        depth: or(given.depth, default.depth),
        past: or(given.past, default.past),
    })
}

/// Returns the bytes of a matcher with its head.
pub(crate) fn planned(limits: Limits) -> Result<usize, Failure> {
    Ok(gleed_matcher::with_head(Matcher::plan(limits)?)?)
}

/// Returns the size and alignment of the memory of a matcher, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_plan(
    size: *mut usize,
    align: *mut usize,
    limits: *const gleed_matcher_limits,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `size` and `align` are
        // places for results that nothing else uses, and `limits` is NULL or has as many bytes as its struct_size says.
        let (layout, limits) = unsafe { (out_layout(size, align)?, self::limits(limits)?) };
        layout.write(planned(limits)?, ALIGN);
        Ok(status::OK)
    })
}

/// Starts a matcher of an empty text in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_init(
    grammar: *const gleed_grammar,
    limits: *const gleed_matcher_limits,
    memory: *mut c_void,
    memory_len: usize,
    matcher: *mut *mut gleed_matcher,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `grammar` are checked here. gleed.h demands
        // the rest: no other call changes `grammar`, `matcher` is a place for a result that nothing else uses, and
        // `limits` is NULL or has as many bytes as its struct_size says.
        let (grammar, place, limits) =
            unsafe { (Object::get("grammar", grammar)?, out("matcher", matcher)?, self::limits(limits)?) };
        let needed = planned(limits)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the matcher is used. So they are lent for as long as they are
        // used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_matcher::halves(memory);
        place.write(Object::place(head, Matcher::new(grammar, limits, rest)?)?);
        Ok(status::OK)
    })
}

/// Goes back to the empty text.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_reset(matcher: *mut gleed_matcher, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `matcher` are checked here. gleed.h demands the rest:
        // nothing but this call uses `matcher`.
        let mut matcher = unsafe { Object::get_mut("matcher", matcher) }?;
        matcher.reset()?;
        Ok(status::OK)
    })
}

/// Takes a token, if the grammar allows it.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_accept(
    matcher: *mut gleed_matcher,
    tokenizer: *const gleed_tokenizer,
    token: u32,
    accepted: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `matcher` and `tokenizer` are checked here. gleed.h
        // demands the rest: nothing but this call uses `matcher`, no other call changes `tokenizer`, and `accepted` is
        // a place for a result that nothing else uses.
        let (mut matcher, tokenizer, accepted) = unsafe {
            (Object::get_mut("matcher", matcher)?, Object::get("tokenizer", tokenizer)?, out("accepted", accepted)?)
        };
        accepted.write(matcher.accept(tokenizer, token)?.into());
        Ok(status::OK)
    })
}

/// Takes the longest beginning of a text that the grammar allows.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_accept_text(
    matcher: *mut gleed_matcher,
    text: *const c_char,
    text_len: usize,
    taken: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `matcher` are checked here. gleed.h demands the
        // rest: nothing but this call uses `matcher`, `text_len` bytes are at `text`, and `taken` is a place for a
        // result that nothing else uses.
        let (mut matcher, text, taken) = unsafe {
            (Object::get_mut("matcher", matcher)?, slice("text", text.cast::<u8>(), text_len)?, out("taken", taken)?)
        };
        taken.write(matcher.take_all(text)?);
        Ok(status::OK)
    })
}

/// Returns whether the text may end here.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_is_end(
    matcher: *const gleed_matcher,
    is_end: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `matcher` are checked here. gleed.h demands the rest: no
        // other call changes `matcher`, and `is_end` is a place for a result that nothing else uses.
        let (matcher, is_end) = unsafe { (Object::get("matcher", matcher)?, out("is_end", is_end)?) };
        is_end.write(matcher.may_end().into());
        Ok(status::OK)
    })
}

/// Returns whether the text is free here, as it is before and between calls of tools.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_matcher_is_free(
    matcher: *const gleed_matcher,
    is_free: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `matcher` are checked here. gleed.h demands the rest: no
        // other call changes `matcher`, and `is_free` is a place for a result that nothing else uses.
        let (matcher, is_free) = unsafe { (Object::get("matcher", matcher)?, out("is_free", is_free)?) };
        is_free.write(matcher.is_free().into());
        Ok(status::OK)
    })
}
