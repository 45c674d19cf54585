//! Entries of a conversation: messages, and results of tools.

use core::ffi::c_char;

use gleed::conversation::Entry;
use gleed::turns::{Message, Role, ToolResult};

use crate::error::Failure;
use crate::ptr::unread;
use crate::status;
use crate::text::{check_text_len, utf8};
use crate::turns::{GLEED_ROLE_ASSISTANT, GLEED_ROLE_SYSTEM, GLEED_ROLE_USER, role};

/// The role of the result of a tool's call.
pub const GLEED_ROLE_TOOL: u32 = 5;

/// An entry of a conversation; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_entry {
    /// The role: `GLEED_ROLE_USER` and so on.
    pub role: u32,
    /// 0.
    pub reserved: u32,
    /// The text of the message or of the result.
    pub text: *const c_char,
    /// Bytes of `text`.
    pub text_len: usize,
    /// The name of the tool, of a result.
    pub name: *const c_char,
    /// Bytes of `name`.
    pub name_len: usize,
    /// The identifier of the call, of a result.
    pub id: *const c_char,
    /// Bytes of `id`; 0: the call has none.
    pub id_len: usize,
}

/// Checks the caller's entry, and returns it.
///
/// # Safety
/// As [`unread`] for its texts.
pub(crate) unsafe fn entry<'a>(given: &gleed_entry) -> Result<Entry<'a>, Failure> {
    let is_result = given.role == GLEED_ROLE_TOOL;
    // A result has no `Role`; the value is not used for it.
    let role = if is_result { Role::User } else { role(given.role, GLEED_ROLE_TOOL)? };
    if given.reserved != 0 {
        return Err(Failure::new(status::E_VALUE, format_args!("reserved must be 0")).numbers(0_u32, given.reserved));
    }
    if !is_result && given.name_len.max(given.id_len) > 0 {
        return Err(Failure::new(status::E_VALUE, format_args!("a message has no name and no identifier")));
    }
    // SAFETY: the caller promises `text_len` bytes at `text`, if a text can have so many.
    let text = unsafe { text("text", given.text, given.text_len) }?;
    if !is_result {
        return Ok(Entry::Message(Message { role, text }));
    }
    // SAFETY: the caller promises as many bytes as their lengths say at `name` and at `id`.
    let (name, id) =
        unsafe { (self::text("name", given.name, given.name_len)?, self::text("id", given.id, given.id_len)?) };
    Ok(Entry::Result(ToolResult { name, id: (!id.is_empty()).then_some(id), text }))
}

/// Returns the text at a pointer.
///
/// # Safety
/// As [`unread`].
pub(crate) unsafe fn text<'a>(what: &str, text: *const c_char, len: usize) -> Result<&'a str, Failure> {
    // SAFETY: the caller promises `len` bytes at `text`, if a text can have so many; NULL and the length are checked
    // here.
    let text = unsafe { unread(what, text.cast::<u8>(), len) }?;
    utf8(text.read_if(check_text_len)?)
}

/// Returns an entry as C sees it. It points to the same texts.
pub(crate) fn shown(entry: &Entry<'_>) -> gleed_entry {
    let (role, text, name, id) = match entry {
        Entry::Message(Message { role: Role::System, text }) => (GLEED_ROLE_SYSTEM, *text, "", ""),
        Entry::Message(Message { role: Role::User, text }) => (GLEED_ROLE_USER, *text, "", ""),
        Entry::Message(Message { role: Role::Assistant, text }) => (GLEED_ROLE_ASSISTANT, *text, "", ""),
        Entry::Result(ToolResult { name, id, text }) => (GLEED_ROLE_TOOL, *text, *name, id.unwrap_or_default()),
    };
    gleed_entry {
        role,
        reserved: 0,
        text: text.as_ptr().cast(),
        text_len: text.len(),
        name: name.as_ptr().cast(),
        name_len: name.len(),
        id: id.as_ptr().cast(),
        id_len: id.len(),
    }
}
