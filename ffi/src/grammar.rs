//! Grammars: JSON Schemas, GBNF and regular expressions, compiled into the caller's memory.

use core::ffi::{c_char, c_void};

use gleed::grammar::{ErrorKind, Escapes, Grammar, GrammarError, Options, Planned, Source, Whitespace};
use gleed::mem::{ALIGN, MemoryError};

use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, out_layout, slice, slice_mut, unread};
use crate::status;
use crate::text::{check_text_len, known_flags, utf8};
use crate::versioned::{Versioned, versioned_or_null};

/// A JSON Schema.
pub const GLEED_GRAMMAR_SCHEMA: u32 = 0;
/// A grammar in the notation of llama.cpp.
pub const GLEED_GRAMMAR_GBNF: u32 = 1;
/// A regular expression.
pub const GLEED_GRAMMAR_REGEX: u32 = 2;

/// Nothing, a blank, or a line feed and up to 40 blanks or tabs.
pub const GLEED_WHITESPACE_BOUNDED: u32 = 0;
/// Nothing.
pub const GLEED_WHITESPACE_COMPACT: u32 = 1;
/// One blank behind each comma and colon.
pub const GLEED_WHITESPACE_SPACED: u32 = 2;
/// Any blanks, tabs and line ends.
pub const GLEED_WHITESPACE_ANY: u32 = 3;

/// Objects have no members that they do not declare.
pub const GLEED_GRAMMAR_CLOSED: u32 = 1;
/// `oneOf` may mean `anyOf`.
pub const GLEED_GRAMMAR_ONE_OF_AS_ANY_OF: u32 = 2;
/// Strings may have `\uXXXX`.
pub const GLEED_GRAMMAR_ALL_ESCAPES: u32 = 4;
/// The grammar knows how far the end of a text is.
pub const GLEED_GRAMMAR_CLOSE: u32 = 8;

/// The most keywords that are ignored.
const MAX_IGNORED: usize = 32;

impl Opaque for Grammar<'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedG01");
}

/// A compiled grammar, at the head of its memory.
pub type gleed_grammar = Object<Grammar<'static>>;

const HEAD: usize = size_of::<gleed_grammar>().next_multiple_of(ALIGN);

const _: () = assert!(align_of::<gleed_grammar>() <= ALIGN);

/// What a grammar is, and how it is compiled; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_grammar_options {
    /// `sizeof(gleed_grammar_options)`, set by the caller.
    pub struct_size: u32,
    /// `GLEED_GRAMMAR_SCHEMA` and so on.
    pub kind: u32,
    /// `GLEED_WHITESPACE_BOUNDED` and so on.
    pub whitespace: u32,
    /// `GLEED_GRAMMAR_CLOSED` and so on.
    pub flags: u32,
    /// The most states of an automaton; 0: 4,096.
    pub states: u32,
    /// 0.
    pub reserved: u32,
    /// Keywords that are taken as if they were not there, with blanks between them.
    pub ignore: *const c_char,
    /// Its bytes.
    pub ignore_len: usize,
}

// SAFETY: six integers of 4 bytes, the first the size, and a pointer and a length: no gaps with pointers of 4 or 8 bytes,
// and every bit pattern is one (a pointer is checked before it is used).
unsafe impl Versioned for gleed_grammar_options {}

impl From<GrammarError> for Failure {
    fn from(error: GrammarError) -> Self {
        let new = |status| Self::new(status, format_args!("{error}")).at(error.at);
        match error.kind {
            ErrorKind::Syntax(_) => new(status::E_GRAMMAR),
            ErrorKind::Unsupported(_) => new(status::E_GRAMMAR_UNSUPPORTED),
            ErrorKind::Value(_) => new(status::E_GRAMMAR_VALUE),
            ErrorKind::Empty => new(status::E_GRAMMAR_EMPTY),
            ErrorKind::LeftRecursion => new(status::E_GRAMMAR_RECURSION),
            ErrorKind::TooManyStates { limit } => new(status::E_GRAMMAR_STATES).numbers(limit, 0_u32),
            ErrorKind::ScratchTooSmall { given } => too_small(given, given.saturating_mul(4)),
            ErrorKind::Memory(error) => error.into(),
            _ => new(status::E_INTERNAL),
        }
    }
}

fn too_small(given: usize, needed: usize) -> Failure {
    let text = format_args!("the scratch of {given} 32-bit words is too small, {needed} may do");
    Failure::new(status::E_SCRATCH_TOO_SMALL, text).numbers(needed, given)
}

/// The options at a pointer, the default ones at NULL, and the keywords in them.
///
/// # Safety
/// As [`versioned_or_null`], and `ignore_len` bytes at `ignore` that nobody writes to during `'a`.
unsafe fn options<'a>(options: *const gleed_grammar_options) -> Result<(gleed_grammar_options, Ignored<'a>), Failure> {
    const DEFAULT: gleed_grammar_options = gleed_grammar_options {
        struct_size: 0,
        kind: 0,
        whitespace: 0,
        flags: 0,
        states: 0,
        reserved: 0,
        ignore: core::ptr::null(),
        ignore_len: 0,
    };
    // SAFETY: the caller promises as many bytes as struct_size says; NULL, alignment and struct_size are checked here.
    let options = unsafe { versioned_or_null("options", options) }?.unwrap_or(DEFAULT);
    if options.reserved != 0 {
        let text = format_args!("reserved must be 0");
        return Err(Failure::new(status::E_VALUE, text).numbers(0_u32, options.reserved));
    }
    // SAFETY: the caller promises `ignore_len` bytes at `ignore`; NULL and the length are checked here.
    let ignored = unsafe { slice("ignore", options.ignore.cast::<u8>(), options.ignore_len) }?;
    Ok((options, Ignored::new(utf8(ignored)?)?))
}

/// Keywords that are ignored.
struct Ignored<'a> {
    keywords: [&'a str; MAX_IGNORED],
    count: usize,
}

impl<'a> Ignored<'a> {
    fn new(text: &'a str) -> Result<Self, Failure> {
        let mut ignored = Self { keywords: [""; MAX_IGNORED], count: 0 };
        for keyword in text.split_ascii_whitespace() {
            let text = format_args!("at most {MAX_IGNORED} keywords are ignored");
            let too_many = || Failure::new(status::E_VALUE, text).numbers(MAX_IGNORED, MAX_IGNORED + 1);
            *ignored.keywords.get_mut(ignored.count).ok_or_else(too_many)? = keyword;
            ignored.count += 1;
        }
        Ok(ignored)
    }

    fn keywords(&self) -> &[&'a str] {
        self.keywords.get(..self.count).unwrap_or_default()
    }
}

/// The options as the library has them.
fn converted<'a>(options: &gleed_grammar_options, ignored: &'a Ignored<'_>) -> Result<Options<'a>, Failure> {
    let wrong = |what: &str, most: u32, given: u32| {
        Failure::new(status::E_VALUE, format_args!("{what} {given}, the last one is {most}")).numbers(most, given)
    };
    let whitespace = match options.whitespace {
        GLEED_WHITESPACE_BOUNDED => Whitespace::Bounded,
        GLEED_WHITESPACE_COMPACT => Whitespace::Compact,
        GLEED_WHITESPACE_SPACED => Whitespace::Spaced,
        GLEED_WHITESPACE_ANY => Whitespace::Any,
        other => return Err(wrong("whitespace", GLEED_WHITESPACE_ANY, other)),
    };
    if options.kind > GLEED_GRAMMAR_REGEX {
        return Err(wrong("kind", GLEED_GRAMMAR_REGEX, options.kind));
    }
    const KNOWN: u32 =
        GLEED_GRAMMAR_CLOSED | GLEED_GRAMMAR_ONE_OF_AS_ANY_OF | GLEED_GRAMMAR_ALL_ESCAPES | GLEED_GRAMMAR_CLOSE;
    let flags = known_flags(options.flags, KNOWN)?;
    let default = Options::default();
    Ok(Options {
        whitespace,
        escapes: if flags & GLEED_GRAMMAR_ALL_ESCAPES != 0 { Escapes::All } else { Escapes::Short },
        closed: flags & GLEED_GRAMMAR_CLOSED != 0,
        one_of_as_any_of: flags & GLEED_GRAMMAR_ONE_OF_AS_ANY_OF != 0,
        ignore: ignored.keywords(),
        states: if options.states == 0 { default.states } else { options.states },
        close: flags & GLEED_GRAMMAR_CLOSE != 0,
    })
}

fn source(kind: u32, text: &[u8]) -> Source<'_> {
    match kind {
        GLEED_GRAMMAR_GBNF => Source::Gbnf(text),
        GLEED_GRAMMAR_REGEX => Source::Regex(text),
        _ => Source::Schema(text),
    }
}

/// The bytes of a grammar, if the scratch is large enough.
fn planned(source: Source<'_>, options: &Options<'_>, scratch: &mut [u32]) -> Result<usize, Failure> {
    match Grammar::plan(source, options, scratch)? {
        Planned::Scratch(needed) => Err(too_small(scratch.len(), needed)),
        Planned::Memory(bytes) => Ok(bytes.checked_add(HEAD).ok_or(MemoryError::TooLarge)?),
    }
}

/// Bytes and alignment of the memory that a grammar wants.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_grammar_plan(
    text: *const c_char,
    text_len: usize,
    scratch: *mut u32,
    scratch_len: usize,
    size: *mut usize,
    align: *mut usize,
    options: *const gleed_grammar_options,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `text_len` bytes are at `text` if
        // so many can be taken, `scratch_len` elements at `scratch` are used by nothing else, and `size` and `align` are
        // places for results that nothing else uses.
        let (text, scratch, layout) = unsafe {
            (
                unread("text", text.cast::<u8>(), text_len)?,
                slice_mut("scratch", scratch, scratch_len)?,
                out_layout(size, align)?,
            )
        };
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `options` is NULL or has as
        // many bytes as its struct_size says, and as many at `ignore` as its ignore_len says.
        let (given, ignored) = unsafe { self::options(options) }?;
        let options = converted(&given, &ignored)?;
        let text = text.read_if(check_text_len)?;
        layout.write(planned(source(given.kind, text), &options, scratch)?, ALIGN);
        Ok(status::OK)
    })
}

/// Compiles a grammar.
///
/// # Safety
/// As `include/gleed.h` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gleed_grammar_init(
    text: *const c_char,
    text_len: usize,
    scratch: *mut u32,
    scratch_len: usize,
    options: *const gleed_grammar_options,
    memory: *mut c_void,
    memory_len: usize,
    grammar: *mut *const gleed_grammar,
    error: *mut gleed_error,
) -> i32 {
    boundary!(error, || {
        // SAFETY: NULL, alignment and lengths are checked here. gleed.h demands the rest: `text_len` bytes are at `text` if
        // so many can be taken, `scratch_len` elements at `scratch` are used by nothing else, and `grammar` is a place for
        // a result that nothing else uses.
        let (text, scratch, place) = unsafe {
            (
                unread("text", text.cast::<u8>(), text_len)?,
                slice_mut("scratch", scratch, scratch_len)?,
                out("grammar", grammar)?,
            )
        };
        // SAFETY: NULL, alignment and struct_size are checked here. gleed.h demands the rest: `options` is NULL or has as
        // many bytes as its struct_size says, and as many at `ignore` as its ignore_len says.
        let (given, ignored) = unsafe { self::options(options) }?;
        let options = converted(&given, &ignored)?;
        let source = source(given.kind, text.read_if(check_text_len)?);
        let needed = planned(source, &options, scratch)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the grammar or a matcher is used. So they are lent for as long as
        // anyone may look.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = memory.split_at_mut_checked(HEAD).unwrap_or_default();
        place.write(Object::place(head, Grammar::new(source, &options, scratch, rest)?)?);
        Ok(status::OK)
    })
}
