//! Desks: memory in which conversations are written.

use core::ffi::c_void;

use gleed::conversation::{Desk, DeskLimits, Entry};
use gleed::mem::{ALIGN, MemoryError};
use gleed::token::Tokenizer;
use gleed::turns::{Message, Role};

use crate::entry::{entry, gleed_entry};
use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{Unread, filled, memory, out, out_layout};
use crate::status;
use crate::tokenizer::gleed_tokenizer;
use crate::versioned::{Versioned, versioned_or_null};

/// A desk, and room for the entries of a call.
#[derive(Debug)]
pub struct Room {
    desk: Desk<'static>,
    entries: &'static mut [u8],
    /// The most entries that fit in `entries`.
    most: usize,
}

impl Opaque for Room {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedR01");
}

/// Memory in which conversations are written.
pub type gleed_desk = Object<Room>;

const _: () = assert!(align_of::<Entry<'static>>() <= ALIGN);

/// How much a desk has room for; see `include/gleed.h`. 0 stands for the default everywhere.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_desk_limits {
    /// `sizeof(gleed_desk_limits)`, set by the caller.
    pub struct_size: u32,
    /// Tokens of the longest conversation.
    pub context: u32,
    /// Bytes of the longest text between two replies that are kept.
    pub text: u32,
    /// Bytes of the longest word in such a text.
    pub word: u32,
    /// The most replies whose tokens are kept.
    pub replies: u32,
    /// The most entries of a call.
    pub entries: u32,
}

// SAFETY: only integers of 4 bytes, of which the first is the size: no gaps, and every bit pattern is one.
unsafe impl Versioned for gleed_desk_limits {}

/// The sizes of what lies in the memory of a desk.
struct Sizes {
    limits: DeskLimits,
    most: usize,
    /// Bytes for entries.
    entries: usize,
    /// Bytes of all the memory, with the head.
    bytes: usize,
}

impl Sizes {
    fn new(given: &gleed_desk_limits, tokenizer: &Tokenizer<'_, '_>) -> Result<Self, Failure> {
        let or = |given: u32, default: usize| match given {
            0 => default,
            given => usize::try_from(given).unwrap_or(usize::MAX),
        };
        let text = or(given.text, 16_384);
        let limits = DeskLimits {
            context: or(given.context, 4096),
            text,
            word: or(given.word, text),
            replies: or(given.replies, 64),
        };
        let most = or(given.entries, 256);
        let entries = most.checked_mul(size_of::<Entry<'static>>()).and_then(|len| len.checked_next_multiple_of(ALIGN));
        let entries = entries.ok_or(MemoryError::TooLarge)?;
        let bytes = gleed_desk::with_head(Desk::plan(tokenizer, &limits)?)?.checked_add(entries);
        Ok(Self { limits, most, entries, bytes: bytes.ok_or(MemoryError::TooLarge)? })
    }
}

/// Returns the limits at a pointer; all of them 0, the defaults, at NULL.
///
/// # Safety
/// As [`versioned_or_null`].
unsafe fn limits(limits: *const gleed_desk_limits) -> Result<gleed_desk_limits, Failure> {
    const DEFAULT: gleed_desk_limits =
        gleed_desk_limits { struct_size: 0, context: 0, text: 0, word: 0, replies: 0, entries: 0 };
    // SAFETY: the caller promises as many bytes as struct_size says; NULL, alignment and struct_size are checked here.
    Ok(unsafe { versioned_or_null("limits", limits) }?.unwrap_or(DEFAULT))
}

/// Returns the size and alignment of the memory of a desk, in bytes.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_desk_plan(
    tokenizer: *const gleed_tokenizer,
    size: *mut usize,
    align: *mut usize,
    limits: *const gleed_desk_limits,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `tokenizer` are checked here. gleed.h demands
        // the rest: no other call changes `tokenizer`, `size` and `align` are places for results that nothing else
        // uses, and `limits` is NULL or has as many bytes as its struct_size says.
        let (tokenizer, layout, limits) =
            unsafe { (Object::get("tokenizer", tokenizer)?, out_layout(size, align)?, self::limits(limits)?) };
        layout.write(Sizes::new(&limits, tokenizer)?.bytes, ALIGN);
        Ok(status::OK)
    })
}

/// Makes a desk in `memory`.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_desk_init(
    tokenizer: *const gleed_tokenizer,
    limits: *const gleed_desk_limits,
    memory: *mut c_void,
    memory_len: usize,
    desk: *mut *mut gleed_desk,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment, struct_size and the tag and address of `tokenizer` are checked here. gleed.h demands
        // the rest: no other call changes `tokenizer`, `desk` is a place for a result that nothing else uses, and
        // `limits` is NULL or has as many bytes as its struct_size says.
        let (tokenizer, place, limits) =
            unsafe { (Object::get("tokenizer", tokenizer)?, out("desk", desk)?, self::limits(limits)?) };
        let sizes = Sizes::new(&limits, tokenizer)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the desk is used. So they are lent for as long as they are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, sizes.bytes, ALIGN) }?;
        let (head, rest) = gleed_desk::halves(memory);
        let (entries, rest) = rest.split_at_mut_checked(sizes.entries).unwrap_or_default();
        let desk = Desk::new(tokenizer, &sizes.limits, rest)?;
        place.write(Object::place(head, Room { desk, entries, most: sizes.most })?);
        Ok(status::OK)
    })
}

impl Room {
    /// Returns the caller's entries, if there is room for so many, and the desk. `at` of a failure is the index of the
    /// entry. For a text that is not UTF-8 it is the offset of the byte.
    ///
    /// # Safety
    /// As [`entry`] for each of them, during `'a`.
    pub(crate) unsafe fn read<'a>(
        &'a mut self,
        given: Unread<'a, gleed_entry>,
    ) -> Result<(&'a [Entry<'a>], &'a mut Desk<'static>), Failure> {
        const BLANK: Entry<'static> = Entry::Message(Message { role: Role::User, text: "" });
        let most = self.most;
        let given = given.read_if(|count| {
            let text = format_args!("{count} entries, the desk has room for {most}");
            let too_many = || Failure::new(status::E_SCRATCH_TOO_SMALL, text).numbers(count, most);
            if count > most { Err(too_many()) } else { Ok(()) }
        })?;
        let entries: &'a mut [Entry<'a>] = filled(self.entries, given.len(), BLANK)?;
        for (index, (place, one)) in entries.iter_mut().zip(given).enumerate() {
            let at = |failure: Failure| if failure.status() == status::E_TEXT { failure } else { failure.at(index) };
            // SAFETY: the caller promises the bytes of each entry's texts.
            *place = unsafe { entry(one) }.map_err(at)?;
        }
        Ok((entries, &mut self.desk))
    }
}
