//! Numbers of the formats of calls, and of the marks around thoughts.

use core::ffi::c_char;

use gleed::tools::{CallFormat, ThoughtMarks};
use gleed::turns::{Thinking, ToolFormat};

use crate::error::{Failure, boundary, gleed_error};
use crate::model::gleed_model;
use crate::object::Object;
use crate::ptr::{out, slice, small};
use crate::status;
use crate::text::known_flags;
use crate::turns;

/// Number for no format of calls: the model calls no tools.
pub const GLEED_NO_CALLS: u32 = u32::MAX;

/// Thoughts are between `<think>` and `</think>`.
pub const GLEED_THOUGHTS_THINK: u32 = 1;
/// Thoughts are between `<|channel>thought` and `<channel|>`.
pub const GLEED_THOUGHTS_CHANNEL: u32 = 2;
/// Thoughts are between `[THINK]` and `[/THINK]`.
pub const GLEED_THOUGHTS_BRACKETS: u32 = 4;
/// The prompt has opened a thought.
pub const GLEED_THOUGHTS_OPEN: u32 = 8;
/// Thoughts are between `<seed:think>` and `</seed:think>`.
pub const GLEED_THOUGHTS_SEED: u32 = 16;

const MARKS: [(u32, ThoughtMarks); 4] = [
    (GLEED_THOUGHTS_THINK, ThoughtMarks::THINK),
    (GLEED_THOUGHTS_CHANNEL, ThoughtMarks::CHANNEL),
    (GLEED_THOUGHTS_BRACKETS, ThoughtMarks::BRACKETS),
    (GLEED_THOUGHTS_SEED, ThoughtMarks::SEED),
];

/// Returns the number of the format of calls with this name, or [`GLEED_NO_CALLS`].
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_calls_named(
    name: *const c_char,
    name_len: usize,
    format: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `name_len` bytes are at
        // `name`, and `format` is a place for a result that nothing else uses.
        let (name, format) = unsafe { (slice("name", name.cast::<u8>(), name_len)?, out("format", format)?) };
        let found = CallFormat::ALL.iter().position(|format| format.name().as_bytes() == name);
        format.write(found.map_or(GLEED_NO_CALLS, small));
        Ok(status::OK)
    })
}

/// Returns the number of the format in which a model with a turn format calls tools, and the flag of its thought marks.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_turns_calls(
    model: *const gleed_model,
    format: u32,
    calls: *mut u32,
    thoughts: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `model` are checked here. gleed.h demands the rest: no
        // other call changes `model`, and `calls` and `thoughts` are places for results that nothing else uses.
        let (model, calls, thoughts) =
            unsafe { (Object::get("model", model)?, out("calls", calls)?, out("thoughts", thoughts)?) };
        let format = turns::format(format)?;
        let template = model.gguf().get("tokenizer.chat_template").and_then(|value| value.as_str());
        calls.write(ToolFormat::of(format, template).map_or(GLEED_NO_CALLS, |tools| number_of(tools.calls())));
        let marks = Thinking::of(format).map(Thinking::marks);
        thoughts.write(MARKS.iter().find(|(_, known)| marks == Some(*known)).map_or(0, |(flag, _)| *flag));
        Ok(status::OK)
    })
}

fn number_of(format: CallFormat) -> u32 {
    CallFormat::ALL.iter().position(|known| *known == format).map_or(GLEED_NO_CALLS, small)
}

/// Returns the format of calls with a number, `None` for [`GLEED_NO_CALLS`], and the marks of thoughts in `flags`.
pub(crate) fn formats(format: u32, flags: u32) -> Result<(Option<CallFormat>, Option<ThoughtMarks>), Failure> {
    let known = MARKS.iter().fold(GLEED_THOUGHTS_OPEN, |known, (flag, _)| known | flag);
    let flags = known_flags(flags, known)?;
    let mut marked = MARKS.iter().filter(|(flag, _)| flags & flag != 0).map(|(_, marks)| *marks);
    let marks = marked.next();
    if marked.next().is_some() {
        return Err(Failure::new(status::E_VALUE, format_args!("thoughts have one kind of marks")));
    }
    if format == GLEED_NO_CALLS {
        return Ok((None, marks));
    }
    let formats = CallFormat::ALL;
    let found = formats.get(usize::try_from(format).unwrap_or(usize::MAX)).ok_or_else(|| {
        Failure::new(status::E_VALUE, format_args!("no format of calls has number {format}"))
            .numbers(formats.len().saturating_sub(1), format)
    })?;
    Ok((Some(*found), marks))
}
