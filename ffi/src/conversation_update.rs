//! The tokens of a conversation that the model has not read yet.

use core::cell::Cell;
use core::ffi::{c_char, c_void};

use gleed::Engine;
use gleed::conversation::{Conversation, ConversationError, Desk, Entry, Keep, New, Script};
use gleed::token::Tokenizer;
use gleed::tools::Tools;
use gleed::turns::{Message, ToolFormat, TurnFormat};

use crate::conversation::gleed_conversation;
use crate::desk::gleed_desk;
use crate::engine::gleed_engine;
use crate::entry::{gleed_entry, text};
use crate::error::{Failure, boundary, gleed_error};
use crate::object::Object;
use crate::ptr::{small, unread};
use crate::status;
use crate::text::known_flags;
use crate::tokenizer::gleed_tokenizer;
use crate::turns::{GLEED_NO_TURNS, format, gleed_message, message};
use crate::versioned::{Versioned, out_struct, versioned, versioned_or_null};

/// The script says nothing of thinking: the format decides.
pub const GLEED_THINK_DEFAULT: u32 = 0;
/// The model is told not to think.
pub const GLEED_THINK_NO: u32 = 1;
/// The model is told to think.
pub const GLEED_THINK_YES: u32 = 2;

/// BOS is written only where the format writes it, not because the vocabulary adds it.
pub const GLEED_SCRIPT_NO_BOS: u32 = 1;
/// Thoughts of earlier turns stay, also where the format leaves them out.
pub const GLEED_SCRIPT_KEEP_THOUGHTS: u32 = 2;

/// How a conversation is written; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_script {
    /// `sizeof(gleed_script)`, set by the caller.
    pub struct_size: u32,
    /// The number of a turn format, or [`GLEED_NO_TURNS`].
    pub format: u32,
    /// What the model is told of thinking: `GLEED_THINK_DEFAULT` and so on.
    pub think: u32,
    /// Flags: `GLEED_SCRIPT_NO_BOS` and so on.
    pub flags: u32,
    /// The JSON list of the tools that are offered.
    pub tools: *const c_char,
    /// Bytes of `tools`; 0: no tools are offered.
    pub tools_len: usize,
    /// The name of the format in which tools are offered.
    pub tool_format: *const c_char,
    /// Bytes of `tool_format`; 0: the tool format that belongs to the turn format.
    pub tool_format_len: usize,
}

/// Writes a message in the place of `count` entries from index `first` on. Returns 1 if it has written one, else 0.
pub type gleed_summary =
    Option<unsafe extern "C" fn(ctx: *mut c_void, first: usize, count: usize, message: *mut gleed_message) -> i32>;

/// What is left out of a conversation that does not fit the context; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_keep {
    /// `sizeof(gleed_keep)`, set by the caller.
    pub struct_size: u32,
    /// Tokens that stay free for the reply.
    pub room: u32,
    /// Turns at the beginning that stay.
    pub first: u32,
    /// Turns at the end that stay; 0: all.
    pub last: u32,
    /// The most tokens of the conversation after turns were left out; 0: half of the context.
    pub target: u32,
    /// 0.
    pub reserved: u32,
    /// Writes a message in the place of the entries that are left out, or NULL.
    pub summary: gleed_summary,
    /// The first argument of `summary`.
    pub summary_ctx: *mut c_void,
}

/// The tokens that the model has not read yet, and the entries that are left out; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_update {
    /// `sizeof(gleed_update)`, set by the caller.
    pub struct_size: u32,
    /// Position of the first token.
    pub position: u32,
    /// The tokens, in the desk.
    pub tokens: *const u32,
    /// Number of tokens.
    pub tokens_len: usize,
    /// Index of the first entry that is left out.
    pub left_out: usize,
    /// Number of entries that are left out.
    pub left_out_len: usize,
}

// SAFETY: four integers of 4 bytes, the first the size, then pointers and lengths: no gaps with pointers of 4 or 8
// bytes, and every bit pattern is one (a pointer is checked before it is used).
unsafe impl Versioned for gleed_script {}
// SAFETY: six integers of 4 bytes, the first the size, and two pointers: no gaps with pointers of 4 or 8 bytes. A
// pointer to a function takes every bit pattern but for NULL, which is `None`; gleed.h demands that a function is
// there.
unsafe impl Versioned for gleed_keep {}
// SAFETY: two integers of 4 bytes, the first the size, a pointer and lengths: no gaps with pointers of 4 or 8 bytes,
// and every bit pattern is one.
unsafe impl Versioned for gleed_update {}

fn wrong(what: &str, most: u32, given: u32) -> Failure {
    Failure::new(status::E_VALUE, format_args!("{what} is {given}, it must be 0 to {most}")).numbers(most, given)
}

impl gleed_script {
    /// Returns the script as the Rust API takes it.
    ///
    /// # Safety
    /// As [`text`] for its texts.
    unsafe fn with<'t>(&self, tokenizer: &'t Tokenizer<'t, 't>) -> Result<Script<'t>, Failure> {
        let turns = if self.format == GLEED_NO_TURNS { None } else { Some(format(self.format)?) };
        let think = match self.think {
            GLEED_THINK_DEFAULT => None,
            GLEED_THINK_NO | GLEED_THINK_YES => Some(self.think == GLEED_THINK_YES),
            other => return Err(wrong("think", GLEED_THINK_YES, other)),
        };
        let flags = known_flags(self.flags, GLEED_SCRIPT_NO_BOS | GLEED_SCRIPT_KEEP_THOUGHTS)?;
        // SAFETY: the caller promises the bytes of both texts.
        let (tools, name) = unsafe {
            (text("tools", self.tools, self.tools_len)?, text("tool_format", self.tool_format, self.tool_format_len)?)
        };
        let script = Script::new(turns, tokenizer);
        Ok(Script {
            tools: if tools.is_empty() { None } else { Some((tool_format(turns, name)?, Tools::new(tools)?)) },
            think,
            bos: script.bos && flags & GLEED_SCRIPT_NO_BOS == 0,
            keeps_thoughts: flags & GLEED_SCRIPT_KEEP_THOUGHTS != 0,
            ..script
        })
    }
}

/// Returns the tool format with this name, or, if the name is empty, the one that belongs to the turn format.
fn tool_format(turns: Option<&'static TurnFormat>, name: &str) -> Result<&'static ToolFormat, Failure> {
    let of = |turns| if name.is_empty() { ToolFormat::of(turns, None) } else { ToolFormat::named(name) };
    let text = format_args!("no format is known in which the tools could be offered");
    turns.and_then(of).ok_or_else(|| Failure::new(status::E_VALUE, text))
}

/// Returns `given` as the Rust API takes it, without the summary.
fn kept(given: &gleed_keep) -> Result<Keep<'static>, Failure> {
    if given.reserved != 0 {
        return Err(wrong("reserved", 0, given.reserved));
    }
    let number = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let last = if given.last == 0 { usize::MAX } else { number(given.last) };
    let (room, first, target) = (number(given.room), number(given.first), number(given.target));
    Ok(Keep { room, first, last, target, summary: None })
}

const KEEP_ALL: gleed_keep = gleed_keep {
    struct_size: 0,
    room: 0,
    first: 0,
    last: 0,
    target: 0,
    reserved: 0,
    summary: None,
    summary_ctx: core::ptr::null_mut(),
};

/// Returns the message that the host writes in the place of `count` entries from index `first` on.
///
/// # Safety
/// `summary` may be called with `summary_ctx`, and what it writes is as [`message`] demands, during `'a`.
unsafe fn summarize<'a>(keep: &gleed_keep, first: usize, count: usize) -> Result<Option<Message<'a>>, Failure> {
    let mut place = gleed_message { role: 0, reserved: 0, text: core::ptr::null(), text_len: 0 };
    let Some(summary) = keep.summary else { return Ok(None) };
    // SAFETY: the caller promises that `summary` may be called with these arguments; `place` is a local message that
    // nothing else uses.
    if unsafe { summary(keep.summary_ctx, first, count, &mut place) } == 0 {
        return Ok(None);
    }
    // SAFETY: the caller promises that the message which `summary` has written is as `message` demands.
    unsafe { message(&place) }.map(Some)
}

/// Calls [`Conversation::update`] with the summary function of `given`.
///
/// # Safety
/// As [`summarize`], until it returns.
unsafe fn updated<'d>(
    (conversation, engine): (&mut Conversation<'_>, &mut Engine<'_, '_>),
    script: &Script<'_>,
    (given, keep): (&gleed_keep, Keep<'_>),
    entries: &[Entry<'_>],
    desk: &'d mut Desk<'_>,
) -> Result<New<'d>, Failure> {
    let failed = Cell::new(None);
    let summary = |left_out: &[Entry<'_>]| {
        let bytes = left_out.as_ptr().addr().saturating_sub(entries.as_ptr().addr());
        // SAFETY: the caller promises that the summary may be called, and that its text lives until this function
        // returns.
        unsafe { summarize(given, bytes / size_of::<Entry<'_>>(), left_out.len()) }.map_err(|failure| {
            failed.set(Some(failure));
            ConversationError::Summary
        })
    };
    let keep = Keep { summary: if given.summary.is_some() { Some(&summary) } else { None }, ..keep };
    let new = conversation.update(engine, script, &keep, entries, desk);
    new.map_err(|error| failed.take().unwrap_or_else(|| error.into()))
}

/// Returns the new tokens and the entries that are left out, as C sees them.
fn shown(new: &New<'_>) -> gleed_update {
    gleed_update {
        struct_size: 0,
        position: small(new.position),
        tokens: new.tokens.as_ptr(),
        tokens_len: new.tokens.len(),
        left_out: new.left_out.start,
        left_out_len: new.left_out.len(),
    }
}

/// Rewinds a sequence to what it has in common with the messages, and returns the tokens that are missing.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_conversation_update(
    conversation: *mut gleed_conversation,
    engine: *mut gleed_engine,
    tokenizer: *const gleed_tokenizer,
    desk: *mut gleed_desk,
    entries: *const gleed_entry,
    entries_len: usize,
    script: *const gleed_script,
    keep: *const gleed_keep,
    update: *mut gleed_update,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `conversation` and `engine` are checked here. gleed.h
        // demands the rest: nothing but this call uses `conversation` and `engine`.
        let (mut conversation, mut engine) =
            unsafe { (Object::get_mut("conversation", conversation)?, Object::get_mut("engine", engine)?) };
        // SAFETY: NULL, alignment and the tag and address of `tokenizer` and `desk` are checked here. gleed.h demands
        // the rest: no other call changes `tokenizer`, and nothing but this call uses `desk`.
        let (tokenizer, mut desk) = unsafe { (Object::get("tokenizer", tokenizer)?, Object::get_mut("desk", desk)?) };
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `entries_len` entries are at
        // `entries` if so many can be taken.
        let entries = unsafe { unread("entries", entries, entries_len) }?;
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `script`, `keep` if it is
        // not NULL, and `update`, which nothing else uses, have as many bytes as their struct_size says.
        let (script, keep, update) =
            unsafe { (versioned("script", script)?, versioned_or_null("keep", keep)?, out_struct("update", update)?) };
        // SAFETY: NULL and lengths are checked here. gleed.h demands the rest: as many bytes as it says are at each
        // text of `script` until the call ends.
        let script = unsafe { script.with(tokenizer) }?;
        let given = keep.unwrap_or(KEEP_ALL);
        let keep = kept(&given)?;
        // SAFETY: gleed.h demands as many bytes as it says at each text of the entries until the call ends.
        let (entries, desk) = unsafe { desk.read(entries) }?;
        // SAFETY: gleed.h demands that the summary may be called until the call ends, and that its text lives as long.
        let new = unsafe { updated((&mut conversation, &mut engine), &script, (&given, keep), entries, desk) }?;
        update.write(shown(&new));
        Ok(status::OK)
    })
}
