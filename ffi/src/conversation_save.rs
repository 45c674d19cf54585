//! Saved conversations: written to bytes, and loaded from them.

use core::ffi::c_void;

use gleed::conversation::{Conversation, Saved};
use gleed::mem::ALIGN;
use gleed::token::TokenError;

use crate::conversation::{gleed_conversation, gleed_conversation_limits, limits, planned};
use crate::desk::gleed_desk;
use crate::engine::gleed_engine;
use crate::entry::{gleed_entry, shown};
use crate::error::{boundary, gleed_error};
use crate::object::Object;
use crate::ptr::{memory, out, slice, slice_mut, unread};
use crate::status;

/// Returns the number of bytes that [`gleed_conversation_save`] writes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_conversation_saved_size(
    conversation: *const gleed_conversation,
    engine: *const gleed_engine,
    desk: *mut gleed_desk,
    entries: *const gleed_entry,
    entries_len: usize,
    size: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `conversation` and `engine` are checked here. gleed.h
        // demands the rest: no other call changes them.
        let (conversation, engine) =
            unsafe { (Object::get("conversation", conversation)?, Object::get("engine", engine)?) };
        // SAFETY: NULL, alignment, lengths and the tag and address of `desk` are checked here. gleed.h demands the
        // rest: nothing but this call uses `desk`, `entries_len` entries are at `entries` if so many can be taken, and
        // `size` is a place for a result that nothing else uses.
        let (mut desk, entries, size) =
            unsafe { (Object::get_mut("desk", desk)?, unread("entries", entries, entries_len)?, out("size", size)?) };
        // SAFETY: gleed.h demands as many bytes as it says at each text of the entries until the call ends.
        let (entries, _) = unsafe { desk.read(entries) }?;
        size.write(conversation.saved_len(engine, entries)?);
        Ok(status::OK)
    })
}

/// Writes a conversation and the snapshot of its sequence to a buffer.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_conversation_save(
    conversation: *const gleed_conversation,
    engine: *const gleed_engine,
    desk: *mut gleed_desk,
    entries: *const gleed_entry,
    entries_len: usize,
    bytes: *mut u8,
    len: usize,
    written: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `conversation` and `engine` are checked here. gleed.h
        // demands the rest: no other call changes them.
        let (conversation, engine) =
            unsafe { (Object::get("conversation", conversation)?, Object::get("engine", engine)?) };
        // SAFETY: NULL, alignment, lengths and the tag and address of `desk` are checked here. gleed.h demands the
        // rest: nothing but this call uses `desk`, and `entries_len` entries are at `entries` if so many can be taken.
        let (mut desk, entries) = unsafe { (Object::get_mut("desk", desk)?, unread("entries", entries, entries_len)?) };
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `len` elements at `bytes` are
        // used by nothing else, and `written` is a place for a result that nothing else uses.
        let (bytes, written) = unsafe { (slice_mut("bytes", bytes, len)?, out("written", written)?) };
        // SAFETY: gleed.h demands as many bytes as it says at each text of the entries until the call ends.
        let (entries, _) = unsafe { desk.read(entries) }?;
        written.write(conversation.save(engine, entries, bytes)?);
        Ok(status::OK)
    })
}

/// Opens a sequence and a conversation in it that go on where a saved conversation was.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_conversation_load(
    engine: *mut gleed_engine,
    bytes: *const u8,
    len: usize,
    limits: *const gleed_conversation_limits,
    memory: *mut c_void,
    memory_len: usize,
    conversation: *mut *mut gleed_conversation,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `engine` are checked here. gleed.h demands the
        // rest: nothing but this call uses `engine`, `len` bytes are at `bytes`, and `conversation` is a place for a
        // result that nothing else uses.
        let (mut engine, bytes, place) = unsafe {
            (Object::get_mut("engine", engine)?, slice("bytes", bytes, len)?, out("conversation", conversation)?)
        };
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `limits` is NULL or has
        // as many bytes as its struct_size says.
        let limits = unsafe { self::limits(limits, &engine) }?;
        let needed = planned(&limits)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the conversation is used. So they are lent for as long as they
        // are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_conversation::halves(memory);
        place.write(Object::place(head, Conversation::load(&mut engine, bytes, &limits, rest)?.0)?);
        Ok(status::OK)
    })
}

/// Writes the entries of a saved conversation to `entries`. Their texts lie in `bytes`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_conversation_saved_entries(
    bytes: *const u8,
    len: usize,
    entries: *mut gleed_entry,
    entries_len: usize,
    count: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `len` bytes are at `bytes`,
        // `entries_len` elements at `entries`, which take every bit pattern, are used by nothing else, and `count` is a
        // place for a result that nothing else uses.
        let (bytes, entries, count) =
            unsafe { (slice("bytes", bytes, len)?, slice_mut("entries", entries, entries_len)?, out("count", count)?) };
        let saved = Saved::read(bytes)?;
        let (needed, given) = (saved.entries().count(), entries.len());
        let places = entries.get_mut(..needed).ok_or(TokenError::OutputTooSmall { needed, given })?;
        places.iter_mut().zip(saved.entries()).for_each(|(place, entry)| *place = shown(&entry));
        count.write(needed);
        Ok(status::OK)
    })
}
