//! Turn formats: how a conversation is written down for a model.

use core::ffi::c_char;
use core::mem::{align_of, size_of};
use core::ops::Range;
use core::slice::from_raw_parts_mut;

use gleed::token::{TokenError, Tokenizer};
use gleed::turns::{Message, Piece, Role, TurnFormat, TurnText, Turns};

use crate::error::{Failure, boundary, chars, gleed_error};
use crate::model::gleed_model;
use crate::object::Object;
use crate::ptr::{out, slice, slice_mut, small, unread};
use crate::status;
use crate::text::{check_fits, check_text_len, known_flags, utf8};
use crate::tokenizer::gleed_tokenizer;
use crate::versioned::{Versioned, out_struct};

/// Number for no turn format: none is known.
pub const GLEED_NO_TURNS: u32 = u32::MAX;

/// Not a role: nothing comes before, a conversation begins.
pub const GLEED_AFTER_NOTHING: u32 = 0;
/// The role of instructions to the model before the conversation.
pub const GLEED_ROLE_SYSTEM: u32 = 1;
/// The role of the user.
pub const GLEED_ROLE_USER: u32 = 2;
/// The role of the model.
pub const GLEED_ROLE_ASSISTANT: u32 = 3;
/// Not a role: the model has written a reply, and its turn is open.
pub const GLEED_AFTER_REPLY: u32 = 4;

/// BOS is put at the beginning, if the vocabulary says so and the format writes none.
pub const GLEED_TURNS_ADD_BOS: u32 = 1;
/// The model's turn is opened at the end.
pub const GLEED_TURNS_REPLY: u32 = 2;

/// A message of a conversation; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_message {
    /// The role: `GLEED_ROLE_USER` and so on.
    pub role: u32,
    /// 0.
    pub reserved: u32,
    /// The text of the message.
    pub text: *const c_char,
    /// Bytes of `text`.
    pub text_len: usize,
}

/// The properties of a turn format; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_turns_info {
    /// `sizeof(gleed_turns_info)`, set by the caller.
    pub struct_size: u32,
    /// 1: conversations of the format begin with BOS.
    pub writes_bos: u32,
    /// The name of the format.
    pub name: [c_char; 32],
}

// SAFETY: two integers of 4 bytes, of which the first is the size, and bytes: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_turns_info {}

/// Returns the number of the turn format of a model's file, or [`GLEED_NO_TURNS`].
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `model` and `tokenizer` are checked here. gleed.h
        // demands the rest: no other call changes `model` and `tokenizer`, and `format` is a place for a result that
        // nothing else uses.
        let (model, tokenizer, format) =
            unsafe { (Object::get("model", model)?, Object::get("tokenizer", tokenizer)?, out("format", format)?) };
        let found = TurnFormat::of(model.gguf(), tokenizer).map(TurnFormat::name);
        format.write(number_of(|name| Some(name) == found));
        Ok(status::OK)
    })
}

/// Returns the number of the turn format with this name, or [`GLEED_NO_TURNS`].
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `name_len` bytes are at
        // `name`, and `format` is a place for a result that nothing else uses.
        let (name, format) = unsafe { (slice("name", name.cast::<u8>(), name_len)?, out("format", format)?) };
        // Slices of other lengths are unequal without being read: so no name that is too long is read.
        format.write(number_of(|other| other.as_bytes() == name));
        Ok(status::OK)
    })
}

/// Writes the properties of a turn format to `info`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_turns_describe(
    format: u32,
    info: *mut gleed_turns_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `info` has as many
        // bytes as its struct_size says.
        let info = unsafe { out_struct("info", info) }?;
        let format = self::format(format)?;
        let (writes_bos, name) = (format.writes_bos().into(), chars(format.name()));
        info.write(gleed_turns_info { struct_size: 0, writes_bos, name });
        Ok(status::OK)
    })
}

/// Encodes messages as tokens, in a turn format.
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
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `tokenizer` are checked here. gleed.h demands
        // the rest: no other call changes `tokenizer`, `messages_len` messages are at `messages` if so many can be
        // taken, `scratch_len` elements at `scratch` are used by nothing else, `tokens_len` elements at `tokens` are
        // used by nothing else, and `count` is a place for a result that nothing else uses.
        let (tokenizer, messages, scratch, tokens, count) = unsafe {
            (
                Object::get("tokenizer", tokenizer)?,
                unread("messages", messages, messages_len)?,
                slice_mut("scratch", scratch, scratch_len)?,
                slice_mut("tokens", tokens, tokens_len)?,
                out("count", count)?,
            )
        };
        let format = self::format(format)?;
        let turns = turns_after(format, after)?;
        let flags = known_flags(flags, GLEED_TURNS_ADD_BOS | GLEED_TURNS_REPLY)?;
        // A conversation has more bytes than messages, so the limit of a text's bytes bounds their number, too.
        let messages = messages.read_if(check_text_len)?;
        // SAFETY: NULL and lengths are checked here. gleed.h demands the rest: at `text` of each of the `messages`
        // are `text_len` bytes until the call ends.
        let messages = unsafe { Messages::new(messages) }?;
        let has_bos = after == GLEED_AFTER_NOTHING && flags & GLEED_TURNS_ADD_BOS != 0;
        let has_bos = has_bos && tokenizer.vocab().adds_bos() && !format.writes_bos();
        let talk = Talk { turns, messages, has_bos, has_reply: flags & GLEED_TURNS_REPLY != 0 };
        count.write(talk.encode(tokenizer, scratch, tokens)?);
        Ok(status::OK)
    })
}

/// Returns whether a token ends the model's turn.
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
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `tokenizer` are checked here. gleed.h demands the rest:
        // no other call changes `tokenizer`, and `is_stop` is a place for a result that nothing else uses.
        let (tokenizer, is_stop) = unsafe { (Object::get("tokenizer", tokenizer)?, out("is_stop", is_stop)?) };
        let format = self::format(format)?;
        tokenizer.text(token).ok_or(TokenError::UnknownId { id: token, tokens: tokenizer.vocab().len() })?;
        is_stop.write(format.is_stop(tokenizer, token).into());
        Ok(status::OK)
    })
}

/// Returns the number of the turn format whose name `is_it` accepts, or [`GLEED_NO_TURNS`].
fn number_of(is_it: impl Fn(&str) -> bool) -> u32 {
    let found = TurnFormat::ALL.iter().position(|format| is_it(format.name()));
    found.map_or(GLEED_NO_TURNS, small)
}

/// Returns the turn format with this number.
pub(crate) fn format(number: u32) -> Result<&'static TurnFormat, Failure> {
    let found = usize::try_from(number).ok().and_then(|number| TurnFormat::ALL.get(number));
    found.ok_or_else(|| {
        let most = TurnFormat::ALL.len().saturating_sub(1);
        Failure::new(status::E_VALUE, format_args!("format is {number}, it must be 0 to {most}")).numbers(most, number)
    })
}

/// Returns the state of a conversation that ends with `after`: a role, or one of the two `GLEED_AFTER_` numbers.
fn turns_after(format: &'static TurnFormat, after: u32) -> Result<Turns, Failure> {
    match after {
        GLEED_AFTER_NOTHING => Ok(Turns::new(format)),
        GLEED_AFTER_REPLY => Ok(Turns::after_reply(format)),
        _ => Ok(Turns::after_message(format, role(after, GLEED_AFTER_REPLY)?)),
    }
}

/// Returns the role with this number. `most` is the largest number that is allowed there, for the error.
pub(crate) fn role(number: u32, most: u32) -> Result<Role, Failure> {
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

/// Messages of the caller's, checked.
struct Messages<'c>(&'c [gleed_message]);

impl<'c> Messages<'c> {
    /// Checks all messages. `at` of a failure is the index of the message. For a text that is not UTF-8 it is the
    /// offset of the byte.
    ///
    /// # Safety
    /// As [`message`] for each message, during `'c`.
    unsafe fn new(given: &'c [gleed_message]) -> Result<Self, Failure> {
        for (index, one) in given.iter().enumerate() {
            let place = |failure: Failure| if failure.status() == status::E_TEXT { failure } else { failure.at(index) };
            // SAFETY: the caller promises the text of each message.
            unsafe { message(one) }.map_err(place)?;
        }
        Ok(Self(given))
    }

    fn each(&self, mut call: impl FnMut(Message<'c>) -> Result<(), Failure>) -> Result<(), Failure> {
        for one in self.0 {
            // SAFETY: the caller of `new` promised the texts for `'c`, which has not ended.
            call(unsafe { message(one) }?)?;
        }
        Ok(())
    }
}

/// Checks the caller's message, and returns it.
///
/// # Safety
/// As [`unread`] for its text.
pub(crate) unsafe fn message<'a>(given: &gleed_message) -> Result<Message<'a>, Failure> {
    let role = role(given.role, GLEED_ROLE_ASSISTANT)?;
    if given.reserved != 0 {
        let text = format_args!("reserved is {}, it must be 0", given.reserved);
        return Err(Failure::new(status::E_VALUE, text).numbers(0_u32, given.reserved));
    }
    // SAFETY: the caller promises `text_len` bytes at `text`, if a text can have so many; NULL and the length are
    // checked here.
    let text = unsafe { unread("text", given.text.cast::<u8>(), given.text_len) }?;
    Ok(Message { role, text: utf8(text.read_if(check_text_len)?)? })
}

/// A part of a conversation that is to be encoded.
struct Talk<'c> {
    turns: Turns,
    messages: Messages<'c>,
    has_bos: bool,
    has_reply: bool,
}

/// Words of scratch that the range of one text takes.
const RANGE_WORDS: usize = size_of::<Range<usize>>().div_ceil(size_of::<u32>());
/// Words of scratch that the alignment of all ranges takes.
const ALIGN_WORDS: usize = align_of::<Range<usize>>().div_ceil(size_of::<u32>());

impl Talk<'_> {
    /// Writes the tokens to `out`, after a trial without output: so `out` is written to only if the call succeeds.
    /// Returns the number of tokens.
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
        // SAFETY: bytes need no alignment, a word has 4 of them and takes every bit pattern, and `text` is borrowed
        // exclusively by the new slice, which takes its place.
        let text = unsafe { from_raw_parts_mut(text.as_mut_ptr().cast::<u8>(), text.len().saturating_mul(4)) };
        let mut text = TurnText::new(text, places);
        self.each_piece(|piece| {
            let pushed = text.push(tokenizer, piece);
            pushed.map_err(|error| Failure::new(status::E_INTERNAL, format_args!("{error}")))
        })?;
        check_fits(text.encode(tokenizer, scratch, &mut []).map(drop).map_err(whole), out.len())?;
        Ok(text.encode(tokenizer, scratch, out).map_err(whole)?.ids)
    }

    /// Returns how many bytes the whole text has, and how many texts of messages are in it.
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
        self.messages.each(|message| turns.add(message).try_for_each(&mut call))?;
        if self.has_reply { turns.reply().try_for_each(call) } else { Ok(()) }
    }
}
