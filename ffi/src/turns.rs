//! Turn formats: how a conversation is written down for a model.

use core::ffi::c_char;
use core::mem::{align_of, size_of};
use core::ops::Range;
use core::slice::from_raw_parts_mut;

use gleed::token::{TokenError, Tokenizer};
use gleed::turns::{Message, Piece, Role, TurnFormat, TurnText, Turns};

use crate::error::{Failure, chars, gleed_error, run};
use crate::model::gleed_model;
use crate::object::Object;
use crate::ptr::{Versioned, out, out_struct, slice, slice_mut, small};
use crate::status;
use crate::tokenizer::{check_fits, gleed_tokenizer, known_flags, utf8};

/// No turn format: the file's is none of the known ones.
pub const GLEED_NO_TURNS: u32 = u32::MAX;

/// Nothing comes before: a conversation begins.
pub const GLEED_AFTER_NOTHING: u32 = 0;
/// What the model is told before the conversation.
pub const GLEED_ROLE_SYSTEM: u32 = 1;
/// The other side.
pub const GLEED_ROLE_USER: u32 = 2;
/// The model.
pub const GLEED_ROLE_ASSISTANT: u32 = 3;
/// The model has written a reply, whose turn is not closed.
pub const GLEED_AFTER_REPLY: u32 = 4;

/// Begin with BOS where the vocabulary says so and the format does not.
pub const GLEED_TURNS_ADD_BOS: u32 = 1;
/// Open the model's turn at the end.
pub const GLEED_TURNS_REPLY: u32 = 2;

/// A message of a conversation; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_message {
    /// Who says it: `GLEED_ROLE_USER` and so on.
    pub role: u32,
    /// 0.
    pub reserved: u32,
    /// What is said.
    pub text: *const c_char,
    /// Its bytes.
    pub text_len: usize,
}

/// What a turn format is; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_turns_info {
    /// `sizeof(gleed_turns_info)`, set by the caller.
    pub struct_size: u32,
    /// Whether conversations begin with BOS.
    pub writes_bos: u32,
    /// Its name.
    pub name: [c_char; 32],
}

// SAFETY: integers of 4 bytes, and bytes.
unsafe impl Versioned for gleed_turns_info {}

/// The format of a model's file.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_turns_find(
    model: *const gleed_model,
    tokenizer: *const gleed_tokenizer,
    format: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let model = Object::get("model", model)?;
            let tokenizer = Object::get("tokenizer", tokenizer)?;
            let format = out("format", format)?;
            format.write(number_of(TurnFormat::of(model.gguf(), tokenizer).map(TurnFormat::name)));
            Ok(status::OK)
        })
    }
}

/// The format with this name.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_turns_named(
    name: *const c_char,
    name_len: usize,
    format: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let name = slice("name", name.cast::<u8>(), name_len)?;
            let format = out("format", format)?;
            format.write(number_of(core::str::from_utf8(name).ok()));
            Ok(status::OK)
        })
    }
}

/// Says what a format is.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_turns_describe(
    format: u32,
    info: *mut gleed_turns_info,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let info = out_struct("info", info)?;
            let format = self::format(format)?;
            let (writes_bos, name) = (format.writes_bos().into(), chars(format.name()));
            info.write(gleed_turns_info { struct_size: 0, writes_bos, name });
            Ok(status::OK)
        })
    }
}

/// Turns messages into tokens.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_turns_encode(
    tokenizer: *const gleed_tokenizer,
    format: u32,
    after: u32,
    messages: *const gleed_message,
    messages_len: usize,
    flags: u32,
    scratch: *mut u32,
    scratch_len: usize,
    tokens: *mut u32,
    tokens_len: usize,
    count: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them; the texts of the messages are there, too.
    unsafe {
        run(error, || {
            let tokenizer = Object::get("tokenizer", tokenizer)?;
            let format = self::format(format)?;
            let turns = match after {
                GLEED_AFTER_NOTHING => Turns::new(format),
                GLEED_AFTER_REPLY => Turns::after_reply(format),
                _ => Turns::after_message(format, role(after, GLEED_AFTER_REPLY)?),
            };
            let messages = slice("messages", messages, messages_len)?;
            for (index, given) in messages.iter().enumerate() {
                let place =
                    |failure: Failure| if failure.status() == status::E_TEXT { failure } else { failure.at(index) };
                message(given).map_err(place)?;
            }
            let flags = known_flags(flags, GLEED_TURNS_ADD_BOS | GLEED_TURNS_REPLY)?;
            let scratch = slice_mut("scratch", scratch, scratch_len)?;
            let tokens = slice_mut("tokens", tokens, tokens_len)?;
            let count = out("count", count)?;
            let has_bos = after == GLEED_AFTER_NOTHING && flags & GLEED_TURNS_ADD_BOS != 0;
            let has_bos = has_bos && tokenizer.vocab().adds_bos() && !format.writes_bos();
            let talk = Talk { turns, messages, has_bos, has_reply: flags & GLEED_TURNS_REPLY != 0 };
            count.write(talk.encode(tokenizer, scratch, tokens)?);
            Ok(status::OK)
        })
    }
}

/// Whether a token ends the model's turn.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_turns_is_stop(
    tokenizer: *const gleed_tokenizer,
    format: u32,
    token: u32,
    is_stop: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        run(error, || {
            let tokenizer = Object::get("tokenizer", tokenizer)?;
            let format = self::format(format)?;
            let is_stop = out("is_stop", is_stop)?;
            tokenizer.text(token).ok_or(TokenError::UnknownId { id: token, tokens: tokenizer.vocab().len() })?;
            is_stop.write(format.is_stop(tokenizer, token).into());
            Ok(status::OK)
        })
    }
}

/// The number of the format with a name.
fn number_of(name: Option<&str>) -> u32 {
    let found = TurnFormat::ALL.iter().position(|format| Some(format.name()) == name);
    found.map_or(GLEED_NO_TURNS, small)
}

fn format(number: u32) -> Result<&'static TurnFormat, Failure> {
    let found = usize::try_from(number).ok().and_then(|number| TurnFormat::ALL.get(number));
    found.ok_or_else(|| {
        let most = TurnFormat::ALL.len().saturating_sub(1);
        Failure::new(status::E_VALUE, format_args!("format is {number}, it must be 0 to {most}")).numbers(most, number)
    })
}

/// The role with this number; `most` is the largest that is allowed there.
fn role(number: u32, most: u32) -> Result<Role, Failure> {
    match number {
        GLEED_ROLE_SYSTEM => Ok(Role::System),
        GLEED_ROLE_USER => Ok(Role::User),
        GLEED_ROLE_ASSISTANT => Ok(Role::Assistant),
        _ => {
            let text = format_args!("no role has the number {number}, the largest is {most}");
            Err(Failure::new(status::E_VALUE, text).numbers(most, number))
        }
    }
}

/// The caller's message, checked.
///
/// # Safety
/// As [`slice()`] for its text.
unsafe fn message<'a>(given: &gleed_message) -> Result<Message<'a>, Failure> {
    let role = role(given.role, GLEED_ROLE_ASSISTANT)?;
    if given.reserved != 0 {
        let text = format_args!("reserved is {}, it must be 0", given.reserved);
        return Err(Failure::new(status::E_VALUE, text).numbers(0_u32, given.reserved));
    }
    // SAFETY: the caller promises `text_len` bytes at `text`, as `slice` asks for.
    let text = unsafe { slice("text", given.text.cast::<u8>(), given.text_len) }?;
    Ok(Message { role, text: utf8(text)? })
}

/// A part of a conversation.
struct Talk<'c> {
    turns: Turns,
    /// Checked.
    messages: &'c [gleed_message],
    has_bos: bool,
    has_reply: bool,
}

/// Words of scratch for the places of texts: one for each, and what aligning them takes.
const RANGE_WORDS: usize = size_of::<Range<usize>>().div_ceil(size_of::<u32>());
const ALIGN_WORDS: usize = align_of::<Range<usize>>().div_ceil(size_of::<u32>());

impl Talk<'_> {
    /// Its tokens in `out`, which is not touched before it is known that all goes well; how many there are.
    fn encode(&self, tokenizer: &Tokenizer<'_, '_>, scratch: &mut [u32], out: &mut [u32]) -> Result<usize, Failure> {
        let (bytes, texts) = self.size(tokenizer)?;
        let places = texts.saturating_mul(RANGE_WORDS).saturating_add(ALIGN_WORDS);
        let words = places.saturating_add(bytes.div_ceil(size_of::<u32>()));
        let given = scratch.len();
        let too_small = |more: usize| TokenError::ScratchTooSmall { needed: words.saturating_add(more), given };
        let whole = |error| match error {
            TokenError::ScratchTooSmall { needed, .. } => too_small(needed),
            error => error,
        };
        let parts = scratch.split_at_mut_checked(words);
        let (own, scratch) = parts.ok_or_else(|| too_small(tokenizer.scratch_len(bytes)))?;
        let (places, text) = own.split_at_mut_checked(places).unwrap_or_default();
        // SAFETY: a range consists of two numbers, without gaps, and takes every bit pattern.
        let (_, places, _) = unsafe { places.align_to_mut::<Range<usize>>() };
        // SAFETY: words of 4 bytes each as bytes, borrowed exclusively.
        let text = unsafe { from_raw_parts_mut(text.as_mut_ptr().cast::<u8>(), text.len().saturating_mul(4)) };
        let mut text = TurnText::new(text, places);
        self.each_piece(|piece| {
            let pushed = text.push(tokenizer, piece);
            pushed.map_err(|error| Failure::new(status::E_INTERNAL, format_args!("{error}")))
        })?;
        check_fits(text.encode(tokenizer, scratch, &mut []).map(drop).map_err(whole), out.len())?;
        Ok(text.encode(tokenizer, scratch, out).map_err(whole)?)
    }

    /// How many bytes its text has, and how many texts of messages are in it.
    fn size(&self, tokenizer: &Tokenizer<'_, '_>) -> Result<(usize, usize), Failure> {
        let name = |id: Option<u32>| {
            id.and_then(|id| tokenizer.text(id)).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or_default()
        };
        let (bos, eos) = (name(tokenizer.vocab().bos()), name(tokenizer.vocab().eos()));
        let (mut bytes, mut texts) = (0_usize, 0_usize);
        self.each_piece(|piece| {
            bytes = bytes.saturating_add(piece.text(bos, eos).len());
            texts = texts.saturating_add(usize::from(matches!(piece, Piece::Text(_))));
            Ok(())
        })?;
        Ok((bytes, texts))
    }

    fn each_piece(&self, mut call: impl FnMut(Piece<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut turns = self.turns;
        if self.has_bos {
            call(Piece::Bos)?;
        }
        for given in self.messages {
            // SAFETY: the caller's promise, for as long as the call takes.
            turns.add(unsafe { message(given) }?).try_for_each(&mut call)?;
        }
        if self.has_reply { turns.reply().try_for_each(call) } else { Ok(()) }
    }
}
