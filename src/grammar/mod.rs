//! Says byte by byte whether a text follows a JSON Schema, a grammar, a regular expression or a list of tools.
//!
//! [`Grammar`] compiles a [`Source`] into the caller's memory. [`Grammar::plan`] returns how many bytes that takes. A
//! [`Matcher`] is the state of one text under a grammar: which bytes may follow, whether the text may end, and which
//! bytes have to follow. A byte is allowed exactly when the text with this byte can be continued to a text of the
//! language. A schema that is not understood is refused with an error that names the keyword and its place.
//! `docs/structured.md` says what each keyword means.
//!
//! # Example
//!
//! ```
//! use gleed::grammar::{
//!     ErrorKind, Escapes, Grammar, GrammarError, JsonPointer, Limits, MatchError, Matcher, Options, Planned, Source, Whitespace,
//! };
//!
//! /// Memory that is aligned as Gleed wants it.
//! #[repr(align(64))]
//! struct Aligned([u8; 65536]);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let schema = br#"{"type":"object","properties":{"mood":{"enum":["calm","angry"]}},"required":["mood"]}"#;
//! let options = Options { whitespace: Whitespace::Compact, escapes: Escapes::Short, closed: true, ..Options::default() };
//! let mut scratch = Vec::new();
//! let bytes = loop {
//!     match Grammar::plan(Source::Schema(schema), &options, &mut scratch)? {
//!         Planned::Scratch(words) => scratch.resize(words, 0),
//!         Planned::Memory(bytes) => break bytes,
//!     }
//! };
//! let mut memory = Aligned([0; 65536]);
//! let grammar = Grammar::new(Source::Schema(schema), &options, &mut scratch, &mut memory.0[..bytes])?;
//!
//! let limits = Limits { items: 64, nodes: 64, depth: 16, past: 256 };
//! let mut state = Aligned([0; 65536]);
//! let needed = Matcher::plan(limits)?;
//! let mut matcher = Matcher::new(&grammar, limits, &mut state.0[..needed])?;
//! let mut forced = [0; 64];
//! let count = matcher.forced(&mut forced)?;
//! assert_eq!(&forced[..count], b"{\"mood\":\"");
//! assert_eq!(matcher.take_all(b"{\"mood\":\"calm\"")?, 14);
//! assert!(!matcher.may_end() && !matcher.take(b',')? && matcher.take(b'}')? && matcher.may_end());
//!
//! // What a program tells its user of a schema that is refused.
//! let refused = Grammar::plan(Source::Schema(br#"{"not":{}}"#), &options, &mut scratch);
//! assert_eq!(refused, Err(GrammarError { kind: ErrorKind::Unsupported("not"), at: 1 }));
//! assert_eq!(JsonPointer::new(br#"{"not":{}}"#, 1).to_string(), "/not");
//! assert_eq!(MatchError::TooDeep { limit: 16 }.to_string(), "calls are nested deeper than the limit of 16");
//! # Ok(())
//! # }
//! ```
//!
//! # Tokens
//!
//! A mask says which tokens of a vocabulary may follow:
//!
//! ```
//! use gleed::grammar::{Grammar, Limits, Matcher, Options, Planned, Source, TokenTrie, Vocabulary};
//!
//! struct Words(&'static [&'static str]);
//!
//! impl Vocabulary for Words {
//!     fn tokens(&self) -> u32 {
//!         self.0.len() as u32
//!     }
//!
//!     fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
//!         self.0.get(id as usize).into_iter().flat_map(|text| text.bytes()).for_each(f);
//!     }
//! }
//!
//! /// Memory that is aligned as Gleed wants it.
//! #[repr(align(64))]
//! struct Aligned([u8; 65536]);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let words = Words(&["yes", "no", "y", "es", "maybe", "yes!"]);
//! let mut sorted = vec![0; TokenTrie::scratch_len(&words)];
//! let mut memory = Aligned([0; 65536]);
//! let bytes = TokenTrie::plan(&words, &mut sorted)?;
//! let trie = TokenTrie::new(&words, &mut sorted, &mut memory.0[..bytes])?;
//!
//! let (mut scratch, mut compiled, mut state) = (vec![0; 10_000], Aligned([0; 65536]), Aligned([0; 65536]));
//! let source = Source::Regex(b"yes|no");
//! let Planned::Memory(bytes) = Grammar::plan(source, &Options::default(), &mut scratch)? else { return Err("scratch".into()) };
//! let grammar = Grammar::new(source, &Options::default(), &mut scratch, &mut compiled.0[..bytes])?;
//! let limits = Limits { items: 64, nodes: 64, depth: 16, past: 256 };
//! let bytes = Matcher::plan(limits)?;
//! let mut matcher = Matcher::new(&grammar, limits, &mut state.0[..bytes])?;
//!
//! let mut mask = vec![0; trie.mask_len()];
//! assert!(matcher.mask(&trie, usize::MAX, &mut mask)?);
//! assert_eq!(mask, [0b000111]);
//! assert!(matcher.accept(&words, 2)?);
//! assert!(matcher.mask(&trie, usize::MAX, &mut mask)?);
//! assert_eq!(mask, [0b001000]);
//!
//! // A state can be kept as bytes, and the last tokens can be taken back.
//! let mut saved = [0; 256];
//! let bytes = matcher.snapshot(&mut saved)?;
//! matcher.rewind(1)?;
//! assert!(matcher.accept(&words, 1)? && matcher.may_end());
//! matcher.restore(&saved[..bytes])?;
//! assert!(matcher.accept(&words, 3)? && matcher.may_end());
//! # Ok(())
//! # }
//! ```
//!
//! # Calls of tools
//!
//! The text is a reply of a model that may call a tool. It is free up to the mark that begins a call. Behind the mark
//! it is a call of a tool of the list, with arguments that satisfy the tool's schema.
//!
//! ```
//! use gleed::grammar::{Calls, Grammar, Limits, Mark, Marks, Matcher, Options, Planned, Source, ToolChoice};
//! use gleed::tools::CallFormat;
//!
//! /// Memory that is aligned as Gleed wants it.
//! #[repr(align(64))]
//! struct Aligned([u8; 65536]);
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tools = br#"[{"name": "roll", "parameters": {"type": "object",
//!     "properties": {"sides": {"type": "integer"}}, "required": ["sides"]}}]"#;
//! // For a model, `Marks::of` finds the marks that its tokenizer has as control tokens. Here all are text.
//! let marks = Marks::default();
//! assert_eq!(marks.as_slice(), &[] as &[Mark]);
//! let calls = Calls { choice: ToolChoice::Auto, marks: marks.as_slice(), ..Calls::new(tools, CallFormat::Hermes) };
//!
//! let (mut scratch, mut compiled, mut state) = (vec![0; 300_000], Aligned([0; 65536]), Aligned([0; 65536]));
//! let source = Source::Tools(calls);
//! let Planned::Memory(bytes) = Grammar::plan(source, &Options::default(), &mut scratch)? else { return Err("scratch".into()) };
//! let grammar = Grammar::new(source, &Options::default(), &mut scratch, &mut compiled.0[..bytes])?;
//! let limits = Limits { items: 64, nodes: 64, depth: 16, past: 256 };
//! let bytes = Matcher::plan(limits)?;
//! let mut matcher = Matcher::new(&grammar, limits, &mut state.0[..bytes])?;
//!
//! // While the text is free no mask is needed.
//! let begin = b"Let me roll. <tool_call>";
//! assert!(matcher.is_free() && matcher.may_end() && matcher.take_all(begin)? == begin.len());
//! assert!(!matcher.is_free() && !matcher.may_end());
//! let call = b"\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}\n</tool_call>";
//! assert_eq!(matcher.take_all(call)?, call.len());
//! assert!(matcher.is_free() && matcher.may_end());
//! # Ok(())
//! # }
//! ```
//!
//! # In pieces
//!
//! A schema may take longer than a frame of a game, and the tables of a large vocabulary take several frames. A
//! [`GrammarBuild`] and a [`TrieBuild`] make them in units of work. The host chooses the number of units of each call:
//!
//! ```
//! use gleed::grammar::{Grammar, GrammarBuild, Options, Source, TokenTrie, TrieBuild, Vocabulary};
//! # use gleed::mem::ALIGN;
//!
//! struct Numbers;
//!
//! impl Vocabulary for Numbers {
//!     fn tokens(&self) -> u32 {
//!         10_000
//!     }
//!
//!     fn each_byte(&self, id: u32, f: &mut dyn FnMut(u8)) {
//!         id.to_string().bytes().for_each(f);
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = Source::Schema(br#"{"properties":{"at":{"format":"date-time"},"of":{"pattern":"^[a-z]{3,40}$"}}}"#);
//! let mut scratch = vec![0; Grammar::scratch_len(source)];
//! let mut build = GrammarBuild::new(source, Options::default(), &mut scratch);
//! let mut frames = 1;
//! while !build.step(1)? {
//!     frames += 1;
//! }
//! # let mut memory = vec![0; build.bytes()? + ALIGN];
//! # let start = memory.as_ptr().align_offset(ALIGN);
//! # let memory = &mut memory[start..];
//! // `memory` has `build.bytes()` bytes.
//! build.place(memory)?;
//! while !build.step(1)? {
//!     frames += 1;
//! }
//! let grammar = build.finish()?;
//! assert!(frames > 1);
//!
//! let mut scratch = vec![0; TokenTrie::scratch_len(&Numbers)];
//! let mut build = TrieBuild::new(&Numbers, &mut scratch)?;
//! let mut frames = 1;
//! while !build.step(4)? {
//!     frames += 1;
//! }
//! # let mut memory = vec![0; build.bytes()? + ALIGN];
//! # let start = memory.as_ptr().align_offset(ALIGN);
//! # let memory = &mut memory[start..];
//! // `memory` has `build.bytes()` bytes.
//! build.place(memory)?;
//! while !build.step(4)? {
//!     frames += 1;
//! }
//! let trie = build.finish()?;
//! assert!(frames > 5 && trie.mask_len() == 313);
//! # Ok(())
//! # }
//! ```

mod alike;
mod anchors;
mod ast;
mod begin;
mod bounded;
mod build;
mod calls;
mod check;
mod class;
mod classes;
mod close;
mod code;
mod codec;
mod combine;
mod compile;
mod compiled;
mod decimal;
mod dfa;
mod dom;
mod error;
mod fill;
mod gbnf;
mod highest;
mod job;
mod json;
mod jump;
mod known;
mod lengths;
mod lower;
mod making;
mod mask;
mod matcher;
mod named;
mod nfa;
mod number;
mod pack;
mod past;
mod pointer;
mod reach;
mod regex;
mod rest;
mod rules;
mod schema;
mod scratch;
mod search;
mod seen;
mod snapshot;
mod sorted;
mod step;
mod tables;
mod tokens;
mod trie;
mod words;

pub use build::TrieBuild;
pub use calls::{Calls, Mark, Marks, ToolChoice};
pub use compile::{Escapes, Grammar, Options, Planned, Source, Whitespace};
pub use error::{ErrorKind, GrammarError, MatchError};
pub use making::GrammarBuild;
pub use matcher::Matcher;
pub use pointer::JsonPointer;
pub use tables::Limits;
pub use trie::{TokenTrie, TrieError, Vocabulary};
