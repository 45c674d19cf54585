//! Grammars: JSON Schemas, GBNF, regular expressions and lists of tools, compiled into the caller's memory.

use core::ffi::{c_char, c_void};

use gleed::grammar::{
    Calls, ErrorKind, Escapes, Grammar, GrammarError, Marks, Options, Planned, Source, ToolChoice, Whitespace,
};
use gleed::mem::ALIGN;
use gleed::tools::{CallFormat, ThoughtMarks};

use crate::call_format::{GLEED_NO_CALLS, GLEED_THOUGHTS_OPEN, formats};
use crate::error::{Failure, boundary, gleed_error};
use crate::object::{Object, Opaque};
use crate::ptr::{memory, out, out_layout, slice, slice_mut, unread};
use crate::status;
use crate::text::{check_text_len, known_flags, utf8};
use crate::tokenizer::gleed_tokenizer;
use crate::versioned::{Versioned, versioned_or_null};

/// The text of the grammar is a JSON Schema.
pub const GLEED_GRAMMAR_SCHEMA: u32 = 0;
/// The text of the grammar is in the notation of llama.cpp.
pub const GLEED_GRAMMAR_GBNF: u32 = 1;
/// The text of the grammar is a regular expression.
pub const GLEED_GRAMMAR_REGEX: u32 = 2;
/// The text of the grammar is a JSON list of tools.
pub const GLEED_GRAMMAR_TOOLS: u32 = 3;

/// The model may call a tool.
pub const GLEED_CHOICE_AUTO: u32 = 0;
/// The model has to call a tool.
pub const GLEED_CHOICE_REQUIRED: u32 = 1;
/// The model has to call the tool that `tool` names.
pub const GLEED_CHOICE_NAMED: u32 = 2;

/// The text ends behind the first call.
pub const GLEED_CALLS_SINGLE: u32 = 1;

/// Between the parts of JSON: nothing, a blank, or a line feed and up to 40 blanks or tabs.
pub const GLEED_WHITESPACE_BOUNDED: u32 = 0;
/// Between the parts of JSON: nothing.
pub const GLEED_WHITESPACE_COMPACT: u32 = 1;
/// Between the parts of JSON: one blank behind each comma and colon.
pub const GLEED_WHITESPACE_SPACED: u32 = 2;
/// Between the parts of JSON: any blanks, tabs and line ends.
pub const GLEED_WHITESPACE_ANY: u32 = 3;

/// Objects have only the members that they declare, if the schema does not say.
pub const GLEED_GRAMMAR_CLOSED: u32 = 1;
/// `oneOf` means `anyOf` where its branches are not known to be disjoint.
pub const GLEED_GRAMMAR_ONE_OF_AS_ANY_OF: u32 = 2;
/// Strings may have escapes of any character by number, `\uXXXX`.
pub const GLEED_GRAMMAR_ALL_ESCAPES: u32 = 4;
/// The grammar knows how many bytes bring a text to its end. It takes twice the memory.
pub const GLEED_GRAMMAR_CLOSE: u32 = 8;

/// The most keywords that can be ignored.
const MAX_IGNORED: usize = 32;

impl Opaque for Grammar<'static> {
    const MAGIC: u64 = u64::from_le_bytes(*b"gleedG01");
}

/// A compiled grammar, at the head of its memory.
pub type gleed_grammar = Object<Grammar<'static>>;

/// What a grammar is, and how it is compiled; see `include/gleed.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct gleed_grammar_options {
    /// `sizeof(gleed_grammar_options)`, set by the caller.
    pub struct_size: u32,
    /// The kind of the text: `GLEED_GRAMMAR_SCHEMA` and so on.
    pub kind: u32,
    /// White space between the parts of JSON: `GLEED_WHITESPACE_BOUNDED` and so on.
    pub whitespace: u32,
    /// Flags: `GLEED_GRAMMAR_CLOSED` and so on.
    pub flags: u32,
    /// The most states of an automaton; 0: 4,096.
    pub states: u32,
    /// 0.
    pub reserved: u32,
    /// Keywords of schemas that are ignored, with blanks between them.
    pub ignore: *const c_char,
    /// Bytes of `ignore`.
    pub ignore_len: usize,
    /// Number of the format of calls, for a list of tools. This and the following fields are 0 for other kinds.
    pub calls: u32,
    /// Whether a reply has to call a tool: `GLEED_CHOICE_AUTO` and so on.
    pub choice: u32,
    /// Marks around thoughts: `GLEED_THOUGHTS_THINK` and so on.
    pub thoughts: u32,
    /// Flags of calls: `GLEED_CALLS_SINGLE`.
    pub call_flags: u32,
    /// The name of the tool for `GLEED_CHOICE_NAMED`.
    pub tool: *const c_char,
    /// Bytes of `tool`.
    pub tool_len: usize,
    /// The tokenizer whose control tokens are marks, or NULL: then all marks are text.
    pub tokenizer: *const gleed_tokenizer,
}

// SAFETY: six integers of 4 bytes, the first the size, a pointer and a length, four integers of 4 bytes, and two
// pointers with a length between: no gaps with pointers of 4 or 8 bytes, and every bit pattern is one (a pointer is
// checked before it is used).
unsafe impl Versioned for gleed_grammar_options {
    const EARLIER: &'static [usize] = &[core::mem::offset_of!(gleed_grammar_options, calls)];
}

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
            ErrorKind::ScratchTooSmall { given } if given >= Grammar::MOST_SCRATCH => {
                let text = format_args!("the grammar takes more than {given} 32-bit words of scratch");
                Self::new(status::E_GRAMMAR_STATES, text).numbers(Grammar::MOST_SCRATCH, given)
            }
            ErrorKind::ScratchTooSmall { given } => {
                too_small(given, given.saturating_mul(4).min(Grammar::MOST_SCRATCH))
            }
            ErrorKind::Unfinished => new(status::E_BUSY),
            ErrorKind::Memory(error) => error.into(),
            _ => new(status::E_INTERNAL),
        }
    }
}

pub(crate) fn too_small(given: usize, needed: usize) -> Failure {
    let text = format_args!("the scratch of {given} 32-bit words is too small, {needed} may do");
    Failure::new(status::E_SCRATCH_TOO_SMALL, text).numbers(needed, given)
}

/// The arguments of calls that make a grammar, checked.
pub(crate) struct Inputs<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) scratch: &'a mut [u32],
    pub(crate) given: gleed_grammar_options,
    pub(crate) ignored: Ignored<'a>,
    pub(crate) asked: Asked<'a>,
}

impl<'a> Inputs<'a> {
    /// Reads the arguments. Wrong options are refused before the text is read.
    ///
    /// # Safety
    /// `text_len` bytes are at `text` if so many can be taken, and nobody writes to them during `'a`. Nothing else uses
    /// `scratch_len` elements at `scratch` during `'a`. `options` is as [`options`] asks for.
    pub(crate) unsafe fn new(
        text: *const c_char,
        text_len: usize,
        scratch: *mut u32,
        scratch_len: usize,
        options: *const gleed_grammar_options,
    ) -> Result<Self, Failure> {
        // SAFETY: NULL, alignment and lengths are checked here. The caller promises the rest of `text` and `scratch`.
        let (text, scratch) =
            unsafe { (unread("text", text.cast::<u8>(), text_len)?, slice_mut("scratch", scratch, scratch_len)?) };
        // SAFETY: NULL, alignment and struct_size are checked here. The caller promises the rest.
        let (given, ignored, asked) = unsafe { self::options(options) }?;
        converted(&given, &ignored)?;
        Ok(Self { text: text.read_if(check_text_len)?, scratch, given, ignored, asked })
    }
}

/// Returns the options at a pointer, the default ones at NULL, with the keywords and the choice of calls in them.
///
/// # Safety
/// As [`versioned_or_null`], and `ignore_len` bytes at `ignore` and `tool_len` at `tool` that nobody writes to during
/// `'a`. Nothing changes the tokenizer.
unsafe fn options<'a>(
    options: *const gleed_grammar_options,
) -> Result<(gleed_grammar_options, Ignored<'a>, Asked<'a>), Failure> {
    const DEFAULT: gleed_grammar_options = gleed_grammar_options {
        struct_size: 0,
        kind: 0,
        whitespace: 0,
        flags: 0,
        states: 0,
        reserved: 0,
        ignore: core::ptr::null(),
        ignore_len: 0,
        calls: 0,
        choice: 0,
        thoughts: 0,
        call_flags: 0,
        tool: core::ptr::null(),
        tool_len: 0,
        tokenizer: core::ptr::null(),
    };
    // SAFETY: the caller promises as many bytes as struct_size says; NULL, alignment and struct_size are checked here.
    let options = unsafe { versioned_or_null("options", options) }?.unwrap_or(DEFAULT);
    if options.reserved != 0 {
        let text = format_args!("reserved must be 0");
        return Err(Failure::new(status::E_VALUE, text).numbers(0_u32, options.reserved));
    }
    // SAFETY: the caller promises `ignore_len` bytes at `ignore`; NULL and the length are checked here.
    let ignored = unsafe { slice("ignore", options.ignore.cast::<u8>(), options.ignore_len) }?;
    // SAFETY: the caller promises `tool_len` bytes at `tool` and that nothing changes the tokenizer, which is what this
    // asks for.
    let asked = unsafe { Asked::new(&options) }?;
    Ok((options, Ignored::new(utf8(ignored)?)?, asked))
}

/// Which calls may be written and how, without the list of tools.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    format: CallFormat,
    thoughts: Option<ThoughtMarks>,
    is_thinking: bool,
    parallel: bool,
    choice: ToolChoice<'a>,
    marks: Marks,
}

impl Asked<'_> {
    /// Returns the calls that the options ask for. Options of another kind than a list of tools must ask for none.
    ///
    /// # Safety
    /// As [`options`].
    unsafe fn new(options: &gleed_grammar_options) -> Result<Self, Failure> {
        let is_tools = options.kind == GLEED_GRAMMAR_TOOLS;
        if !is_tools && (options.calls, options.choice, options.thoughts, options.call_flags) != (0, 0, 0, 0) {
            let text = format_args!("calls, choice, thoughts and call_flags are those of tools, else 0");
            return Err(Failure::new(status::E_VALUE, text).numbers(GLEED_GRAMMAR_TOOLS, options.kind));
        }
        // SAFETY: the caller promises `tool_len` bytes at `tool`; NULL and the length are checked here.
        let tool = utf8(unsafe { slice("tool", options.tool.cast::<u8>(), options.tool_len) }?)?;
        let (format, thoughts) = formats(options.calls, options.thoughts)?;
        let format = format.ok_or_else(|| {
            Failure::new(status::E_VALUE, format_args!("tools have a format of calls")).numbers(0_u32, GLEED_NO_CALLS)
        })?;
        let marks = if options.tokenizer.is_null() || !is_tools {
            Marks::default()
        } else {
            // SAFETY: alignment and the tag and address of the tokenizer are checked here. The caller promises the
            // rest: no call changes it.
            Marks::of(format, thoughts, unsafe { Object::get("tokenizer", options.tokenizer) }?)
        };
        let choice = match options.choice {
            GLEED_CHOICE_AUTO => ToolChoice::Auto,
            GLEED_CHOICE_REQUIRED => ToolChoice::Required,
            GLEED_CHOICE_NAMED => ToolChoice::Named(tool),
            other => {
                let text = format_args!("choice {other}, the last one is {GLEED_CHOICE_NAMED}");
                return Err(Failure::new(status::E_VALUE, text).numbers(GLEED_CHOICE_NAMED, other));
            }
        };
        let flags = known_flags(options.call_flags, GLEED_CALLS_SINGLE)?;
        let is_thinking = options.thoughts & GLEED_THOUGHTS_OPEN != 0;
        Ok(Self { format, thoughts, is_thinking, parallel: flags & GLEED_CALLS_SINGLE == 0, choice, marks })
    }
}

/// The keywords of schemas that are ignored.
#[derive(Debug)]
pub(crate) struct Ignored<'a> {
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

/// Returns the options as the Rust API takes them.
pub(crate) fn converted<'a>(options: &gleed_grammar_options, ignored: &'a Ignored<'_>) -> Result<Options<'a>, Failure> {
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
    if options.kind > GLEED_GRAMMAR_TOOLS {
        return Err(wrong("kind", GLEED_GRAMMAR_TOOLS, options.kind));
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

pub(crate) fn source<'a>(kind: u32, text: &'a [u8], asked: &'a Asked<'_>) -> Source<'a> {
    let &Asked { format, thoughts, is_thinking, parallel, choice, ref marks } = asked;
    match kind {
        GLEED_GRAMMAR_TOOLS => Source::Tools(Calls {
            tools: text,
            format,
            choice,
            parallel,
            thoughts,
            is_thinking,
            marks: marks.as_slice(),
        }),
        GLEED_GRAMMAR_GBNF => Source::Gbnf(text),
        GLEED_GRAMMAR_REGEX => Source::Regex(text),
        _ => Source::Schema(text),
    }
}

/// Returns the bytes of a grammar with its head, if the scratch is large enough.
fn planned(source: Source<'_>, options: &Options<'_>, scratch: &mut [u32]) -> Result<usize, Failure> {
    match Grammar::plan(source, options, scratch)? {
        Planned::Scratch(needed) => Err(too_small(scratch.len(), needed)),
        Planned::Memory(bytes) => Ok(gleed_grammar::with_head(bytes)?),
    }
}

/// Returns the size and alignment of the memory of a grammar, in bytes.
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
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `size` and `align` are places for
        // results that nothing else uses.
        let layout = unsafe { out_layout(size, align) }?;
        // SAFETY: gleed.h demands of these arguments what `Inputs::new` asks for.
        let Inputs { text, scratch, given, ignored, asked } =
            unsafe { Inputs::new(text, text_len, scratch, scratch_len, options) }?;
        let options = converted(&given, &ignored)?;
        layout.write(planned(source(given.kind, text, &asked), &options, scratch)?, ALIGN);
        Ok(status::OK)
    })
}

/// Compiles a grammar into `memory`.
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
        // SAFETY: NULL and alignment are checked here. gleed.h demands the rest: `grammar` is a place for a result that
        // nothing else uses.
        let place = unsafe { out("grammar", grammar) }?;
        // SAFETY: gleed.h demands of these arguments what `Inputs::new` asks for.
        let Inputs { text, scratch, given, ignored, asked } =
            unsafe { Inputs::new(text, text_len, scratch, scratch_len, options) }?;
        let options = converted(&given, &ignored)?;
        let source = source(given.kind, text, &asked);
        let needed = planned(source, &options, scratch)?;
        // SAFETY: the size and alignment of the memory are checked here. gleed.h demands the rest: nothing else uses
        // `memory_len` bytes at `memory`, as long as the grammar or a matcher is used. So they are lent for as long as
        // they are used.
        let memory = unsafe { self::memory("memory", memory.cast(), memory_len, needed, ALIGN) }?;
        let (head, rest) = gleed_grammar::halves(memory);
        place.write(Object::place(head, Grammar::new(source, &options, scratch, rest)?)?);
        Ok(status::OK)
    })
}
