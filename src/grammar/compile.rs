//! The public face of a compilation: source, options, plan, grammar.

use super::calls::{Calls, ToolChoice};
use super::compiled::Compiled;
use super::error::{ErrorKind, GrammarError};
use super::making::GrammarBuild;
use super::scratch::{MOST_SCRATCH, Result};
use crate::num::Xxh64;

/// The text of a grammar, and its kind.
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'t> {
    /// A JSON Schema. The texts are values in JSON.
    Schema(&'t [u8]),
    /// A grammar in the notation of llama.cpp. The texts are those of its rule `root`.
    Gbnf(&'t [u8]),
    /// A regular expression that the whole text follows.
    Regex(&'t [u8]),
    /// Tools that a model may call. The texts are whole replies.
    Tools(Calls<'t>),
}

impl<'t> Source<'t> {
    /// Returns the text. For tools it is their list.
    pub fn text(self) -> &'t [u8] {
        match self {
            Self::Schema(text) | Self::Gbnf(text) | Self::Regex(text) => text,
            Self::Tools(calls) => calls.tools,
        }
    }
}

/// What stands between the lexemes of a text in JSON. Nothing stands before the first or behind the last.
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whitespace {
    /// Nothing, a blank, or a line feed and up to 40 blanks or tabs.
    #[default]
    Bounded,
    /// Nothing.
    Compact,
    /// One blank behind each comma and colon, and nothing else.
    Spaced,
    /// Any number of blanks, tabs and line ends.
    Any,
}

/// Which escapes strings may have.
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Escapes {
    /// `\"`, `\\`, `\b`, `\f`, `\n`, `\r` and `\t`.
    #[default]
    Short,
    /// Also `\uXXXX`: of any character in free strings, of control characters in strings with a pattern, format or
    /// value.
    All,
}

/// How a grammar is compiled.
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options<'o> {
    /// White space of texts in JSON.
    pub whitespace: Whitespace,
    /// Escapes of strings in JSON.
    pub escapes: Escapes,
    /// Whether an object that declares `properties` has no other members, where its schema does not say.
    pub closed: bool,
    /// Whether `oneOf` means `anyOf` where its branches are not known to be disjoint, instead of being refused.
    pub one_of_as_any_of: bool,
    /// Keywords of schemas that are taken as if they were not there. `format` drops only formats that are unknown.
    pub ignore: &'o [&'o str],
    /// The most states of an automaton while it is made.
    pub states: u32,
    /// Whether the grammar knows how far the end of a text is, for
    /// [`Matcher::mask_within`](super::Matcher::mask_within). It takes twice the memory then.
    pub close: bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            whitespace: Whitespace::default(),
            escapes: Escapes::default(),
            closed: false,
            one_of_as_any_of: false,
            ignore: &[],
            states: 4096,
            close: false,
        }
    }
}

/// A compiled grammar in the caller's memory. It never changes, so any number of matchers and threads may use it.
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug)]
pub struct Grammar<'m> {
    words: &'m [u32],
}

impl<'m> Grammar<'m> {
    /// The most 32-bit words of scratch that a compilation uses.
    pub const MOST_SCRATCH: usize = MOST_SCRATCH;

    /// Returns how much scratch and memory [`Grammar::new`] needs. It compiles the grammar in `scratch`, whose contents
    /// do not matter. With an empty `scratch` it returns how much scratch to begin with.
    ///
    /// # Errors
    /// The grammar is refused, or takes more than 2^28 words of scratch.
    pub fn plan(source: Source<'_>, options: &Options<'_>, scratch: &mut [u32]) -> Result<Planned> {
        let given = scratch.len();
        match measure(source, options, scratch) {
            Err(GrammarError { kind: ErrorKind::ScratchTooSmall { .. }, .. }) if given < MOST_SCRATCH => {
                let first = Self::scratch_len(source);
                Ok(Planned::Scratch(given.saturating_mul(4).max(first).min(MOST_SCRATCH)))
            }
            measured => measured.map(Planned::Memory),
        }
    }

    /// Returns the 32-bit words of scratch that are enough for most grammars.
    pub fn scratch_len(source: Source<'_>) -> usize {
        source.text().len().saturating_mul(64).saturating_add(1 << 18).min(MOST_SCRATCH)
    }

    /// Compiles a grammar into `memory`, which starts at a multiple of [`crate::mem::ALIGN`]. [`GrammarBuild`] does the
    /// same in pieces, and need not measure twice.
    ///
    /// # Errors
    /// As [`Grammar::plan`], or `memory` does not suit it.
    pub fn new(source: Source<'_>, options: &Options<'_>, scratch: &mut [u32], memory: &'m mut [u8]) -> Result<Self> {
        let mut build = GrammarBuild::new(source, *options, scratch);
        build.step(usize::MAX)?;
        build.place(memory)?;
        build.step(usize::MAX)?;
        build.finish()
    }

    pub(super) fn made(words: &'m [u32]) -> Self {
        Self { words }
    }

    pub(super) fn compiled(&self) -> Compiled<'m> {
        Compiled::new(self.words)
    }
}

/// The result of [`Grammar::plan`].
///
/// [Example](crate::grammar#example).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {
    /// The scratch is too small. The next call needs this number of 32-bit words. It is enough for most grammars.
    Scratch(usize),
    /// The grammar takes this number of bytes of memory, and the given scratch is enough.
    Memory(usize),
}

fn measure(source: Source<'_>, options: &Options<'_>, scratch: &mut [u32]) -> Result<usize> {
    let mut build = GrammarBuild::new(source, *options, scratch);
    build.step(usize::MAX)?;
    build.bytes()
}

/// Returns the hash of a source and its options, to which the words of the compiled grammar are added.
pub(super) fn identity(source: Source<'_>, options: &Options<'_>) -> Xxh64 {
    let mut hash = Xxh64::new();
    let kind = match source {
        Source::Schema(_) => 0,
        Source::Gbnf(_) => 1,
        Source::Regex(_) => 2,
        Source::Tools(_) => 3,
    };
    let &Options { whitespace, escapes, closed, one_of_as_any_of, ignore, states, close: _ } = options;
    hash.update(&[kind, whitespace as u8, escapes as u8, closed.into(), one_of_as_any_of.into()]);
    hash.update(&states.to_le_bytes());
    let texts = ignore.iter().map(|keyword| keyword.as_bytes()).chain([source.text()]);
    texts.for_each(|text| {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text);
    });
    if let Source::Tools(calls) = source {
        let Calls { tools: _, format, choice, parallel, thoughts, is_thinking, marks } = calls;
        let named = if let ToolChoice::Named(name) = choice { name } else { "" };
        let (open, close) = thoughts.map_or(("", ""), |thoughts| (thoughts.open, thoughts.close));
        for text in [format.name(), named, open, close].into_iter().chain(marks.iter().map(|mark| mark.text)) {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        marks.iter().for_each(|mark| hash.update(&mark.token.to_le_bytes()));
        hash.update(&[parallel.into(), is_thinking.into(), u8::from(choice == ToolChoice::Required)]);
    }
    hash
}
