//! Tokenizers: the tables of a vocabulary, and the properties of its tokens.

use core::ffi::{c_char, c_void};

use gleed::mem::ALIGN;
use gleed::token::{TokenError, TokenKind, Tokenizer};

use crate::error::{boundary, gleed_error};
use crate::model::gleed_model;
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, out_layout, slice, small};
use crate::status;
use crate::versioned::{Versioned, out_struct};

/// No token: the vocabulary has none for a purpose, or the keys and values of a token were imported.
pub const GLEED_NO_TOKEN: u32 = u32::MAX;

/// The token is of no known kind.
pub const GLEED_TOKEN_UNDEFINED: u32 = 0;
/// The token is ordinary text.
pub const GLEED_TOKEN_NORMAL: u32 = 1;
/// The token stands for text that no token spells.
pub const GLEED_TOKEN_UNKNOWN: u32 = 2;
/// The token steers the model.
pub const GLEED_TOKEN_CONTROL: u32 = 3;
/// The token is matched in every text, before anything else.
pub const GLEED_TOKEN_USER_DEFINED: u32 = 4;
/// The token is not in use.
pub const GLEED_TOKEN_UNUSED: u32 = 5;
/// The token is a single byte.
pub const GLEED_TOKEN_BYTE: u32 = 6;

impl Opaque for Tokenizer<'static, 'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedT01");
}

/// A tokenizer: a vocabulary with its tables, at the head of its memory.
pub type gleed_tokenizer = Object<Tokenizer<'static, 'static>>;

/// The properties of a vocabulary; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_vocab_info {
    /// `sizeof(gleed_vocab_info)`, set by the caller.
    pub struct_size: u32,
    /// Token ids are below this.
    pub tokens: u32,
    /// Id of the token that begins a text; [`GLEED_NO_TOKEN`] if there is none, as in the next four fields.
    pub bos: u32,
    /// Id of the token that ends a text.
    pub eos: u32,
    /// Id of the token that ends a turn.
    pub eot: u32,
    /// Id of the token that ends a message.
    pub eom: u32,
    /// Id of the token that stands for text that no token spells.
    pub unknown: u32,
    /// The most bytes that a detokenizer writes for one token.
    pub max_text: u32,
    /// 1: `GLEED_ENCODE_ADD_SPECIAL` puts `bos` in front of a text.
    pub adds_bos: u32,
    /// 1: `GLEED_ENCODE_ADD_SPECIAL` puts `eos` at the end of a text.
    pub adds_eos: u32,
}

// SAFETY: only integers of 4 bytes, of which the first is the size: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_vocab_info {}

/// Returns the size and alignment of the memory of a tokenizer, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_tokenizer_size(
    model: *const gleed_model,
    size: *mut usize,
    align: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `model` are checked here. gleed.h demands the rest: no
        // other call changes `model`, and `size` and `align` are places for results that nothing else uses.
        let (model, layout) = unsafe { (Object::get("model", model)?, out_layout(size, align)?) };
        let tables = Tokenizer::plan(model.gguf())?;
        layout.write(gleed_tokenizer::with_head(tables)?, ALIGN);
        Ok(status::OK)
    })
}

/// Starts a tokenizer in `memory`, where it builds its tables.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_tokenizer_init(
    model: *const gleed_model,
    memory: *mut c_void,
    memory_len: usize,
    tokenizer: *mut *const gleed_tokenizer,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `model` are checked here. gleed.h demands the rest: no
        // other call changes `model`, and `tokenizer` is a place for a result that nothing else uses.
        let (model, place) = unsafe { (Object::get("model", model)?, out("tokenizer", tokenizer)?) };
        let needed = gleed_tokenizer::with_head(Tokenizer::plan(model.gguf())?)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the tokenizer is used. So they are lent for as long as they
        // are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_tokenizer::halves(memory);
        place.write(Object::place(head, Tokenizer::new(model.gguf(), rest)?)?);
        Ok(status::OK)
    })
}

/// Writes the properties of a vocabulary to `info`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_tokenizer_describe(
    tokenizer: *const gleed_tokenizer,
    info: *mut gleed_vocab_info,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `tokenizer` are checked here. gleed.h
        // demands the rest: no other call changes `tokenizer`, and `info` has as many bytes as its struct_size says.
        let (tokenizer, info) = unsafe { (Object::get("tokenizer", tokenizer)?, out_struct("info", info)?) };
        let vocab = tokenizer.vocab();
        let id = |id: Option<u32>| id.unwrap_or(GLEED_NO_TOKEN);
        info.write(gleed_vocab_info {
            struct_size: 0,
            tokens: small(vocab.len()),
            bos: id(vocab.bos()),
            eos: id(vocab.eos()),
            eot: id(vocab.eot()),
            eom: id(vocab.eom()),
            unknown: id(vocab.unknown()),
            max_text: small(tokenizer.max_push()),
            adds_bos: vocab.adds_bos().into(),
            adds_eos: vocab.adds_eos().into(),
        });
        Ok(status::OK)
    })
}

/// Returns the kind of a token, and whether it ends a generation.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_token_kind(
    tokenizer: *const gleed_tokenizer,
    token: u32,
    kind: *mut u32,
    is_end: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `tokenizer` are checked here. gleed.h demands the rest:
        // no other call changes `tokenizer`, and `kind` and `is_end` are places for results that nothing else uses.
        let (tokenizer, kind, is_end) =
            unsafe { (Object::get("tokenizer", tokenizer)?, out("kind", kind)?, out("is_end", is_end)?) };
        tokenizer.text(token).ok_or(TokenError::UnknownId { id: token, tokens: tokenizer.vocab().len() })?;
        kind.write(match tokenizer.kind(token) {
            TokenKind::Normal => GLEED_TOKEN_NORMAL,
            TokenKind::Unknown => GLEED_TOKEN_UNKNOWN,
            TokenKind::Control => GLEED_TOKEN_CONTROL,
            TokenKind::UserDefined => GLEED_TOKEN_USER_DEFINED,
            TokenKind::Unused => GLEED_TOKEN_UNUSED,
            TokenKind::Byte => GLEED_TOKEN_BYTE,
            _ => GLEED_TOKEN_UNDEFINED,
        });
        is_end.write(tokenizer.is_end(token).into());
        Ok(status::OK)
    })
}

/// Returns the id of the token with exactly this text in the file, or [`GLEED_NO_TOKEN`].
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_vocab_find(
    tokenizer: *const gleed_tokenizer,
    text: *const c_char,
    text_len: usize,
    token: *mut u32,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `tokenizer` are checked here. gleed.h demands
        // the rest: no other call changes `tokenizer`, `text_len` bytes are at `text`, and `token` is a place for a
        // result that nothing else uses.
        let (tokenizer, text, token) = unsafe {
            (Object::get("tokenizer", tokenizer)?, slice("text", text.cast::<u8>(), text_len)?, out("token", token)?)
        };
        token.write(tokenizer.find(text).unwrap_or(GLEED_NO_TOKEN));
        Ok(status::OK)
    })
}
