//! Readers: text, thoughts and calls of tools in what a model has written.

use core::ffi::{c_char, c_void};
use core::fmt::{self, Write};

use gleed::tools::{Call, CallError, CallErrorKind, Part, Reader, Tools};

use crate::call_format::{GLEED_THOUGHTS_OPEN, formats};
use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{out, out_layout, slice, slice_mut};
use crate::status;
use crate::text::utf8;
use crate::versioned::{Versioned, out_struct};

/// No part: more text is needed, or all of the text has been read.
pub const GLEED_PART_NONE: u32 = 0;
/// Text for the reader.
pub const GLEED_PART_TEXT: u32 = 1;
/// What the model thinks.
pub const GLEED_PART_THOUGHT: u32 = 2;
/// A call of a tool.
pub const GLEED_PART_CALL: u32 = 3;
/// Text that is no call that can be carried out.
pub const GLEED_PART_WRONG: u32 = 4;

/// Nothing is wrong with the call.
pub const GLEED_CALL_RIGHT: u32 = 0;
/// The text ends inside the call.
pub const GLEED_CALL_INCOMPLETE: u32 = 1;
/// The text here belongs to no call of the format.
pub const GLEED_CALL_INVALID: u32 = 2;
/// More than 64 lists and objects are inside each other.
pub const GLEED_CALL_TOO_DEEP: u32 = 3;
/// An argument has no name.
pub const GLEED_CALL_POSITIONAL: u32 = 4;
/// No tool has this name.
pub const GLEED_CALL_UNKNOWN_TOOL: u32 = 5;
/// The arguments are no JSON object.
pub const GLEED_CALL_NO_OBJECT: u32 = 6;
/// An argument is missing that the tool requires.
pub const GLEED_CALL_MISSING: u32 = 7;
/// The tool knows no argument of this name.
pub const GLEED_CALL_UNKNOWN_ARGUMENT: u32 = 8;
/// A value is of another type than the tool's parameters say.
pub const GLEED_CALL_TYPE: u32 = 9;
/// A value is none of those that the tool's parameters list.
pub const GLEED_CALL_VALUE: u32 = 10;

/// A reader, and the tools that it checks calls against.
#[derive(Debug)]
pub struct Reading {
    reader: Reader,
    tools: Option<Tools<'static>>,
}

impl Opaque for Reading {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedC01");
}

/// A reader of calls.
pub type gleed_calls = Object<Reading>;

/// A part of what a model has written; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_calls_part {
    /// `sizeof(gleed_calls_part)`, set by the caller.
    pub struct_size: u32,
    /// `GLEED_PART_TEXT` and so on.
    pub kind: u32,
    /// What is wrong with the call: `GLEED_CALL_RIGHT` and so on.
    pub wrong: u32,
    /// 0.
    pub reserved: u32,
    /// Byte offset of the part in the text.
    pub at: usize,
    /// Bytes of the part.
    pub len: usize,
    /// Byte offset of the tool's name in the text.
    pub name_at: usize,
    /// Bytes of the name.
    pub name_len: usize,
    /// Byte offset of the call's identifier in the text.
    pub id_at: usize,
    /// Bytes of the identifier; 0: the call has none.
    pub id_len: usize,
    /// Byte offset in the text of the arguments, as the model has written them.
    pub arguments_at: usize,
    /// Bytes of these arguments; 0 if the model has written none.
    pub arguments_len: usize,
    /// Bytes of the arguments as JSON.
    pub json_len: usize,
    /// Byte offset of what is wrong: of a call in the JSON, otherwise in the text.
    pub wrong_at: usize,
}

// SAFETY: four integers of 4 bytes, the first the size, and integers of 4 or 8 bytes: no gaps, and every bit pattern is
// one.
unsafe impl Versioned for gleed_calls_part {}

/// Returns the size and alignment of the memory of a reader, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_calls_size(size: *mut usize, align: *mut usize, error: *mut gleed_error) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        layout.write(size_of::<gleed_calls>(), align_of::<gleed_calls>());
        Ok(status::OK)
    })
}

/// Starts to read a reply.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_calls_init(
    format: u32,
    flags: u32,
    tools: *const c_char,
    tools_len: usize,
    memory: *mut c_void,
    memory_len: usize,
    calls: *mut *mut gleed_calls,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `tools_len` bytes are at
        // `tools`, to which nobody writes as long as the reader is used, and `calls` is a place for a result that
        // nothing else uses.
        let (tools, place) = unsafe { (slice("tools", tools.cast::<u8>(), tools_len)?, out("calls", calls)?) };
        let (format, marks) = formats(format, flags)?;
        let is_thinking = flags & GLEED_THOUGHTS_OPEN != 0;
        let tools = if tools.is_empty() { None } else { Some(Tools::new(utf8(tools)?)?) };
        let reading = Reading { reader: Reader::new(format, marks, is_thinking), tools };
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the reader is used.
        place.write(unsafe { Object::place_at(memory, memory_len, reading) }?);
        Ok(status::OK)
    })
}

/// Reads the next part of a reply.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_calls_next(
    calls: *mut gleed_calls,
    text: *const c_char,
    text_len: usize,
    is_whole: u32,
    json: *mut c_char,
    json_len: usize,
    part: *mut gleed_calls_part,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths, struct_size and the tag and address of `calls` are checked here. gleed.h
        // demands the rest: nothing but this call uses `calls`, `text_len` bytes are at `text`, `json_len` elements at
        // `json` are used by nothing else, and `part` has as many bytes as its struct_size says.
        let (mut calls, text, json, part) = unsafe {
            (
                Object::get_mut("calls", calls)?,
                slice("text", text.cast::<u8>(), text_len)?,
                slice_mut("json", json.cast::<u8>(), json_len)?,
                out_struct("part", part)?,
            )
        };
        let text = utf8(text)?;
        let (mut reader, tools) = (calls.reader, calls.tools);
        let found = match reader.next(text, is_whole != 0, tools.as_ref()) {
            None => gleed_calls_part { at: reader.at(), ..NOTHING },
            Some(Ok(Part::Text(part))) => piece(GLEED_PART_TEXT, text, part),
            Some(Ok(Part::Thought(part))) => piece(GLEED_PART_THOUGHT, text, part),
            Some(Ok(Part::Call(call))) => self::call(&call, text, tools.as_ref(), json)?,
            Some(Err(error)) => wrong(error),
        };
        calls.reader = reader;
        part.write(found);
        Ok(status::OK)
    })
}

const NOTHING: gleed_calls_part = gleed_calls_part {
    struct_size: 0,
    kind: GLEED_PART_NONE,
    wrong: GLEED_CALL_RIGHT,
    reserved: 0,
    at: 0,
    len: 0,
    name_at: 0,
    name_len: 0,
    id_at: 0,
    id_len: 0,
    arguments_at: 0,
    arguments_len: 0,
    json_len: 0,
    wrong_at: 0,
};

/// Returns the byte offset of a part in a text, and the length of the part. `None` if the part does not lie in the
/// text: arguments that were left out do not.
fn place(text: &str, part: &str) -> Option<(usize, usize)> {
    let at = part.as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    (at.checked_add(part.len())? <= text.len()).then_some((at, part.len()))
}

fn piece(kind: u32, text: &str, part: &str) -> gleed_calls_part {
    let (at, len) = place(text, part).unwrap_or_default();
    gleed_calls_part { kind, at, len, ..NOTHING }
}

fn wrong(error: CallError<'_>) -> gleed_calls_part {
    gleed_calls_part { kind: GLEED_PART_WRONG, wrong: number(error.kind), at: error.at, wrong_at: error.at, ..NOTHING }
}

/// Returns the part of a call. Writes its arguments to `json`, and checks them against the tool's parameters.
fn call(call: &Call<'_>, text: &str, tools: Option<&Tools<'_>>, json: &mut [u8]) -> Result<gleed_calls_part, Failure> {
    let tool = tools.and_then(|tools| tools.find(call.name));
    let given = json.len();
    let mut out = Buffer { bytes: &mut *json, used: 0 };
    // Bytes that do not fit are counted, so that the error can say how many are needed.
    let _ = call.arguments.write_json(tool.as_ref(), &mut out);
    let needed = out.used;
    let too_small = || {
        let text = format_args!("the arguments have {needed} bytes as JSON, the buffer {given}");
        Failure::new(status::E_OUTPUT_TOO_SMALL, text).numbers(needed, given)
    };
    let json = utf8(json.get(..needed).ok_or_else(too_small)?)?;
    let (name_at, name_len) = place(text, call.name).unwrap_or_default();
    let (id_at, id_len) = call.id.and_then(|id| place(text, id)).unwrap_or_default();
    let (arguments_at, arguments_len) = place(text, call.arguments.text()).unwrap_or((call.range.end, 0));
    let checked = tool.map_or(Ok(()), |tool| tool.check(json).map_err(|error| (number(error.kind), error.at)));
    let (wrong, wrong_at) = checked.err().unwrap_or((GLEED_CALL_RIGHT, 0));
    Ok(gleed_calls_part {
        struct_size: 0,
        kind: GLEED_PART_CALL,
        wrong,
        reserved: 0,
        at: call.range.start,
        len: call.range.end.saturating_sub(call.range.start),
        name_at,
        name_len,
        id_at,
        id_len,
        arguments_at,
        arguments_len,
        json_len: needed,
        wrong_at,
    })
}

fn number(kind: CallErrorKind<'_>) -> u32 {
    match kind {
        CallErrorKind::Incomplete => GLEED_CALL_INCOMPLETE,
        CallErrorKind::TooDeep => GLEED_CALL_TOO_DEEP,
        CallErrorKind::Positional => GLEED_CALL_POSITIONAL,
        CallErrorKind::UnknownTool(_) => GLEED_CALL_UNKNOWN_TOOL,
        CallErrorKind::NoObject => GLEED_CALL_NO_OBJECT,
        CallErrorKind::Missing(_) => GLEED_CALL_MISSING,
        CallErrorKind::UnknownArgument(_) => GLEED_CALL_UNKNOWN_ARGUMENT,
        CallErrorKind::Type => GLEED_CALL_TYPE,
        CallErrorKind::Value => GLEED_CALL_VALUE,
        _ => GLEED_CALL_INVALID,
    }
}

/// A buffer that takes bytes as far as there is room, and counts all of them.
struct Buffer<'b> {
    bytes: &'b mut [u8],
    used: usize,
}

impl Write for Buffer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let places = self.bytes.get_mut(self.used..).unwrap_or_default();
        places.iter_mut().zip(text.as_bytes()).for_each(|(place, byte)| *place = *byte);
        self.used = self.used.saturating_add(text.len());
        Ok(())
    }
}
