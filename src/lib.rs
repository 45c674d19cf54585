//! Gleed runs GGUF language models inside other programs: GGUF bytes in, tokens out.
//!
//! With an operating system, a [`Session`] opens a file and writes text:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut session = gleed::Session::open("examples/assets/gleed-tales-q8_0.gguf")?;
//! for piece in session.tell("Once upon a time")?.take(20) {
//!     print!("{}", piece?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Below it is the [`Engine`]. Open a [`Model`], [`Plan`] its memory, give it that memory, and put tokens in:
//!
//! ```
//! use gleed::{Engine, Limits, Model, Plan, host::AlignedBytes, sample::argmax};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let model = Model::open(&file)?; // The weights stay in the file's bytes.
//! let plan = Plan::new(&model, &Limits { context: 256, ..Limits::default() })?;
//! let mut memory = AlignedBytes::new(plan.bytes()); // An array of the program does as well.
//! let mut engine = Engine::new(&model, &plan, memory.bytes())?; // Nothing is allocated from here on.
//! let text = engine.open()?;
//! let mut token = argmax(engine.prefill(text, &[1, 414, 435, 261, 385])?)?; // "Once upon a time"
//! for next in [952, 384, 281, 261, 378, 428, 509, 387] {
//!     assert_eq!(token, next); // On every machine.
//!     token = argmax(engine.decode_step(text, token)?)?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The library is `no_std` and never allocates. The host gives it one piece of memory, whose exact size is known
//! beforehand. Its results have the same bits on every machine, for every number of threads and every way to cut the
//! work.
//!
//! # What to use
//!
//! **Begin with the [`guide`]**: five programs, which generate a text, chat, run a crowd of characters, save and load,
//! and work without a heap.
//!
//! | for | use |
//! |---|---|
//! | a text or a conversation, in ten lines | [`Session`] |
//! | many texts in one memory, steps as short as the program wants, no heap | [`Model`], [`Plan`], [`Limits`], [`Engine`], [`Budget`] |
//! | text to tokens and back; a token from logits | [`token`], [`sample`] |
//! | conversations: how a model wants them written, and what it has read already | [`turns`], [`conversation`] |
//! | calls of tools | [`tools`] |
//! | texts that follow a JSON Schema, a grammar or a regular expression | [`grammar`], [`writing`] |
//! | what sequences share; fork, rewind, save | [`cache`], [`Engine`] |
//! | several tokens at a time | [`guess`] |
//! | mapped files, threads, memory from the heap | `host` |
//!
//! # Features
//!
//! `std` (on by default) adds `host`: mapped files, a thread pool, an owned engine. `jinja` adds chat templates in
//! Jinja. `grammar` (on by default) adds [`grammar`]. Without some of `arch-*`, `quant-*`, `kv-*` and `level-*` (all on
//! by default) programs are smaller: each of these features is a family of architectures, block formats, element types
//! or instruction sets.
//!
//! # Layers
//!
//! Each layer uses only those above it.
//!
//! | layer | what |
//! |---|---|
//! | [`num`], [`error`], `sync` | rounding, elementary functions, hash; what can go wrong inside a computation; atomics and locks |
//! | [`quant`] | block formats: layout, dequantize, dot. The specification of the arithmetic |
//! | [`mem`], [`tensor`] | the caller's memory; views of weights |
//! | [`kv`] | keys and values: element types, tiles, blocks, what is visible |
//! | [`kernels`] | instruction sets; the floating-point environment |
//! | [`par`] | who runs units of work: a trait that the host implements |
//! | [`nn`] | parts of a network as functions on views: linear layer, rotary embedding, choice of experts |
//! | [`device`] | what a device needs to know, and the trait that it implements |
//! | [`cache`] | the KV cache: pools of blocks, block tables, copy-on-write, prefix cache, snapshots |
//! | `weights` | the data of a model: configuration, tensors by role, where they are in the file |
//! | `ops` | the operations of a program, one file each: attention is `src/ops/attend.rs` |
//! | [`program`] | the lists of operations, and the interpreter that runs them |
//! | [`model`] | architectures: from the keys of a file to a configuration and a program |
//! | [`token`], [`sample`] | text to tokens and back; from logits to a token |
//! | [`tools`] | calls of tools in what a model writes |
//! | [`grammar`] | feature `grammar`: JSON Schema, GBNF and regular expressions; which texts follow them |
//! | [`turns`] | how a conversation is written for a model |
//! | [`metrics`] | what an engine has done, in numbers |
//! | [`engine`] | plan, sequences, batches, steps of bounded work |
//! | [`conversation`] | which tokens of a list of messages a model has not read yet |
//! | [`writing`] | feature `grammar`: a sequence that writes a text under a grammar |
//! | [`guess`] | tokens that are guessed and checked together |
//! | `host` | feature `std`: a thread pool, mapped files, an owned engine |
//! | `session` | feature `std`: text in, text out, in ten lines |
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

#[cfg(all(feature = "std", not(test)))]
extern crate std;

#[macro_use]
pub mod error;

pub mod cache;
pub mod conversation;
pub mod device;
pub mod engine;
#[cfg(feature = "grammar")]
pub mod grammar;
pub mod guess;
pub mod guide;
#[cfg(feature = "std")]
pub mod host;
pub mod kernels;
pub mod kv;
pub mod mem;
pub mod metrics;
pub mod model;
pub mod nn;
pub mod num;
// Parts of it are used by recurrent layers alone.
#[cfg_attr(not(feature = "recurrent"), allow(dead_code))]
mod ops;
pub mod par;
pub mod program;
pub mod quant;
pub mod sample;
#[cfg(feature = "std")]
pub mod session;
mod sync;
pub mod tensor;
pub mod token;
pub mod tools;
pub mod turns;
mod weights;
#[cfg(feature = "grammar")]
pub mod writing;

// These are in the order in which a program uses them. The crate's page lists them in the same order.
#[cfg(feature = "std")]
pub use session::Session;

pub use model::Model;

pub use engine::{Engine, Limits, Plan};

pub use engine::{Budget, Deadline, EngineError, Logits, Pooling, Progress, Step, StreamError};

pub use cache::{KvElement, KvKind, KvType, SeqId, Window};
pub use metrics::Metrics;

/// The README's example, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The examples of the page about the cache, as tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/kv.md")]
struct KvPage;
