//! Conversations: their memory, start and fork. `conversation_update` says which tokens a model has not read yet.

use core::ffi::c_void;

use gleed::conversation::{Conversation, ConversationLimits, DeskLimits};
use gleed::mem::ALIGN;
use gleed::{Engine, SeqId};

use crate::engine::gleed_engine;
use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, out_layout};
use crate::sequence::gleed_seq;
use crate::status;
use crate::versioned::{Versioned, versioned_or_null};

impl Opaque for Conversation<'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedH01");
}

/// A conversation, at the head of its memory.
pub type gleed_conversation = Object<Conversation<'static>>;

/// How much a conversation has room for; see `include/gleed.h`. 0 stands for the default everywhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_conversation_limits {
    /// `sizeof(gleed_conversation_limits)`, set by the caller.
    pub struct_size: u32,
    /// The most replies whose tokens are kept, the last ones.
    pub replies: u32,
    /// The most tokens that are kept beside the sequence.
    pub tokens: u32,
    /// 0.
    pub reserved: u32,
}

// SAFETY: only integers of 4 bytes, of which the first is the size: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_conversation_limits {}

/// Returns the limits at a pointer. Where a limit is 0, or at NULL, it is the default for the engine's model.
///
/// # Safety
/// As [`versioned_or_null`].
pub(crate) unsafe fn limits(
    limits: *const gleed_conversation_limits,
    engine: &Engine<'_, '_>,
) -> Result<ConversationLimits, Failure> {
    const DEFAULT: gleed_conversation_limits =
        gleed_conversation_limits { struct_size: 0, replies: 0, tokens: 0, reserved: 0 };
    // SAFETY: the caller promises as many bytes as struct_size says; NULL, alignment and struct_size are checked here.
    let given = unsafe { versioned_or_null("limits", limits) }?.unwrap_or(DEFAULT);
    if given.reserved != 0 {
        return Err(Failure::new(status::E_VALUE, format_args!("reserved must be 0")).numbers(0_u32, given.reserved));
    }
    let or = |given: u32, default: usize| match given {
        0 => default,
        given => usize::try_from(given).unwrap_or(usize::MAX),
    };
    let geometry = engine.cache().geometry();
    let desk = DeskLimits { context: geometry.context, text: 0, word: 0, replies: 64 };
    let default = ConversationLimits::of(geometry, &desk);
    Ok(ConversationLimits { replies: or(given.replies, default.replies), tokens: or(given.tokens, default.tokens) })
}

/// Returns the bytes of a conversation with its head.
pub(crate) fn planned(limits: &ConversationLimits) -> Result<usize, Failure> {
    Ok(gleed_conversation::with_head(Conversation::plan(limits)?)?)
}

/// Returns the size and alignment of the memory of a conversation, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_conversation_plan(
    engine: *const gleed_engine,
    size: *mut usize,
    align: *mut usize,
    limits: *const gleed_conversation_limits,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`, and `size` and `align` are places for results that nothing else uses.
        let (engine, layout) = unsafe { (Object::get("engine", engine)?, out_layout(size, align)?) };
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `limits` is NULL or has
        // as many bytes as its struct_size says.
        let limits = unsafe { self::limits(limits, engine) }?;
        layout.write(planned(&limits)?, ALIGN);
        Ok(status::OK)
    })
}

/// Starts a conversation in an open sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_conversation_init(
    engine: *const gleed_engine,
    seq: gleed_seq,
    limits: *const gleed_conversation_limits,
    memory: *mut c_void,
    memory_len: usize,
    conversation: *mut *mut gleed_conversation,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `engine` are checked here. gleed.h demands the rest: no
        // other call changes `engine`, and `conversation` is a place for a result that nothing else uses.
        let (engine, place) = unsafe { (Object::get("engine", engine)?, out("conversation", conversation)?) };
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `limits` is NULL or has
        // as many bytes as its struct_size says.
        let limits = unsafe { self::limits(limits, engine) }?;
        let needed = planned(&limits)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the conversation is used. So they are lent for as long as they
        // are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let seq = SeqId::from_bits(seq);
        engine.seq_len(seq)?;
        let (head, rest) = gleed_conversation::halves(memory);
        place.write(Object::place(head, Conversation::new(seq, &limits, rest)?)?);
        Ok(status::OK)
    })
}

/// Returns the handle of a conversation's sequence.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_conversation_seq(
    conversation: *const gleed_conversation,
    seq: *mut gleed_seq,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `conversation` are checked here. gleed.h demands the rest:
        // no other call changes `conversation`, and `seq` is a place for a result that nothing else uses.
        let (conversation, seq) = unsafe { (Object::get("conversation", conversation)?, out("seq", seq)?) };
        seq.write(conversation.seq().to_bits());
        Ok(status::OK)
    })
}

/// Opens a second conversation that begins like another one, in a sequence of its own.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_conversation_fork(
    conversation: *const gleed_conversation,
    engine: *mut gleed_engine,
    memory: *mut c_void,
    memory_len: usize,
    fork: *mut *mut gleed_conversation,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `conversation` and `engine` are checked here. gleed.h
        // demands the rest: no other call changes `conversation`, nothing but this call uses `engine`, and `fork` is a
        // place for a result that nothing else uses.
        let (conversation, mut engine, place) = unsafe {
            (Object::get("conversation", conversation)?, Object::get_mut("engine", engine)?, out("fork", fork)?)
        };
        let needed = planned(&conversation.limits())?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the fork is used. So they are lent for as long as they are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_conversation::halves(memory);
        place.write(Object::place(head, conversation.fork(&mut engine, rest)?)?);
        Ok(status::OK)
    })
}
