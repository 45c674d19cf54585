//! Tries: the tokens of a vocabulary by their bytes.

use core::ffi::c_void;

use gleed::grammar::{TokenTrie, TrieBuild, TrieError};
use gleed::mem::ALIGN;
use gleed::token::Tokenizer;

use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, out_layout, slice_mut};
use crate::status;
use crate::tokenizer::gleed_tokenizer;

/// The most tokens of a vocabulary that may end a text.
const MAX_ENDS: usize = 32;

/// A trie of a vocabulary's tokens, and the tokens that end a text.
#[derive(Debug)]
pub struct Tokens {
    pub(crate) trie: TokenTrie<'static>,
    ends: [u32; MAX_ENDS],
    count: usize,
}

impl Tokens {
    /// Returns the ids of the tokens that end a text.
    pub(crate) fn ends(&self) -> &[u32] {
        self.ends.get(..self.count).unwrap_or_default()
    }
}

impl Opaque for Tokens {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedK01");
}

/// A trie, at the head of its memory.
pub type gleed_trie = Object<Tokens>;

impl From<TrieError> for Failure {
    fn from(error: TrieError) -> Self {
        let new = |status| Self::new(status, format_args!("{error}"));
        match error {
            TrieError::TooLarge { given, limit } => new(status::E_VOCAB_UNSUPPORTED).numbers(limit, given),
            TrieError::ScratchTooSmall { needed, given } => new(status::E_SCRATCH_TOO_SMALL).numbers(needed, given),
            TrieError::Unfinished => new(status::E_BUSY),
            TrieError::Memory(error) => error.into(),
            _ => new(status::E_INTERNAL),
        }
    }
}

/// Places a trie in its head, with the tokens that end a text.
pub(crate) fn placed(
    head: &mut [u8],
    tokenizer: &Tokenizer<'_, '_>,
    trie: TokenTrie<'static>,
) -> Result<*mut gleed_trie, Failure> {
    let (ends, count) = ends(tokenizer)?;
    Ok(Object::place(head, Tokens { trie, ends, count })?)
}

/// Returns the ids of the tokens that end a text, and their number.
fn ends(tokenizer: &Tokenizer<'_, '_>) -> Result<([u32; MAX_ENDS], usize), Failure> {
    let (mut ends, mut count) = ([0; MAX_ENDS], 0);
    let tokens = u32::try_from(tokenizer.vocab().len()).unwrap_or(u32::MAX);
    for id in (0..tokens).filter(|&id| tokenizer.is_end(id)) {
        let text = format_args!("more than {MAX_ENDS} tokens end a text");
        let too_many = || Failure::new(status::E_VOCAB_UNSUPPORTED, text).numbers(MAX_ENDS, MAX_ENDS + 1);
        *ends.get_mut(count).ok_or_else(too_many)? = id;
        count += 1;
    }
    Ok((ends, count))
}

/// Returns the size and alignment of the memory of a trie, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_trie_plan(
    tokenizer: *const gleed_tokenizer,
    scratch: *mut u32,
    scratch_len: usize,
    size: *mut usize,
    align: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `tokenizer` are checked here. gleed.h demands the
        // rest: no other call changes `tokenizer`, `scratch_len` elements at `scratch` are used by nothing else, and
        // `size` and `align` are places for results that nothing else uses.
        let (tokenizer, scratch, layout) = unsafe {
            (
                Object::get("tokenizer", tokenizer)?,
                slice_mut("scratch", scratch, scratch_len)?,
                out_layout(size, align)?,
            )
        };
        layout.write(gleed_trie::with_head(TokenTrie::plan(tokenizer, scratch)?)?, ALIGN);
        Ok(status::OK)
    })
}

/// Makes a trie in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_trie_init(
    tokenizer: *const gleed_tokenizer,
    scratch: *mut u32,
    scratch_len: usize,
    memory: *mut c_void,
    memory_len: usize,
    trie: *mut *const gleed_trie,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, lengths and the tag and address of `tokenizer` are checked here. gleed.h demands the
        // rest: no other call changes `tokenizer`, `scratch_len` elements at `scratch` are used by nothing else, and
        // `trie` is a place for a result that nothing else uses.
        let (tokenizer, scratch, place) = unsafe {
            (Object::get("tokenizer", tokenizer)?, slice_mut("scratch", scratch, scratch_len)?, out("trie", trie)?)
        };
        ends(tokenizer)?;
        let mut build = TrieBuild::new(tokenizer, scratch)?;
        build.step(usize::MAX)?;
        let needed = gleed_trie::with_head(build.bytes()?)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the trie is used. So they are lent for as long as they are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_trie::halves(memory);
        build.place(rest)?;
        build.step(usize::MAX)?;
        place.write(placed(head, tokenizer, build.finish()?)?);
        Ok(status::OK)
    })
}

/// Returns the number of elements of a mask.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_trie_mask_len(
    trie: *const gleed_trie,
    mask_len: *mut usize,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and the tag and address of `trie` are checked here. gleed.h demands the rest: no
        // other call changes `trie`, and `mask_len` is a place for a result that nothing else uses.
        let (trie, mask_len) = unsafe { (Object::get("trie", trie)?, out("mask_len", mask_len)?) };
        mask_len.write(trie.trie.mask_len());
        Ok(status::OK)
    })
}
