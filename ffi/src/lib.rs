//! The C ABI of gleed, declared and specified in `include/gleed.h`.
//!
//! Every function follows the same rules. It returns a status, a number whose meaning never changes ([`status`]).
//! Details of a failure go to a struct of the caller's ([`error`]). Pointers with lengths become slices in one place
//! ([`ptr`]), which refuses pointers that can be recognised as wrong: NULL, misaligned, past the end of the address
//! space. Structs that begin with their size are read and written in one place, too ([`versioned`]). Opaque pointers
//! lead to objects in the caller's memory that begin with a magic word ([`object`]). Outputs are written only on
//! success, and a call that fails changes nothing.
//!
//! The body of a function is one `boundary!` ([`error`]), which keeps panics inside and reports failures. The body
//! converts pointers in small `unsafe` blocks, works on references and slices, and writes results at its end.
//!
//! There is no global or thread-local state (std, where it is linked, has some of its own, which only a panic touches),
//! and nothing here can panic: `bare/check.sh` proves it by linking.
#![cfg_attr(not(test), no_std)]
#![allow(non_camel_case_types)] // the types have the names that C sees
#![allow(clippy::result_large_err)] // a failure carries its text: there is nowhere else to put it
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

#[cfg(all(feature = "std", not(test)))]
extern crate std;

mod adapter;
#[cfg(feature = "grammar")]
mod call_format;
#[cfg(feature = "grammar")]
mod calls;
mod config;
mod conversation;
mod conversation_save;
mod conversation_update;
mod convert;
mod desk;
mod detokenizer;
mod encode;
mod engine;
mod entry;
pub mod error;
mod executor;
#[cfg(feature = "grammar")]
mod grammar;
#[cfg(feature = "grammar")]
mod grammar_build;
mod guesses;
mod guesses_layer;
mod hidden;
mod kv;
#[cfg(feature = "grammar")]
mod matcher;
#[cfg(feature = "grammar")]
mod matcher_next;
#[cfg(feature = "grammar")]
mod matcher_state;
mod metrics;
mod model;
pub mod object;
mod plan;
mod policy;
mod prefix;
pub mod ptr;
mod sampler;
mod selftest;
mod sequence;
mod snapshot;
pub mod status;
mod step;
#[cfg(feature = "grammar")]
mod stops;
mod text;
mod tokenizer;
#[cfg(feature = "grammar")]
mod trie;
#[cfg(feature = "grammar")]
mod trie_build;
mod turns;
mod version;
pub mod versioned;
#[cfg(feature = "grammar")]
mod writing;
#[cfg(feature = "grammar")]
mod writing_next;

// These modules define the functions, structs and constants that the header declares.
pub use adapter::*;
#[cfg(feature = "grammar")]
pub use call_format::*;
#[cfg(feature = "grammar")]
pub use calls::*;
pub use config::*;
pub use conversation::*;
pub use conversation_save::*;
pub use conversation_update::*;
pub use desk::*;
pub use detokenizer::*;
pub use encode::*;
pub use engine::*;
pub use entry::*;
pub use executor::*;
#[cfg(feature = "grammar")]
pub use grammar::*;
#[cfg(feature = "grammar")]
pub use grammar_build::*;
pub use guesses::*;
pub use guesses_layer::*;
pub use hidden::*;
pub use kv::*;
#[cfg(feature = "grammar")]
pub use matcher::*;
#[cfg(feature = "grammar")]
pub use matcher_next::*;
#[cfg(feature = "grammar")]
pub use matcher_state::*;
pub use metrics::*;
pub use model::*;
pub use plan::*;
pub use policy::*;
pub use prefix::*;
pub use sampler::*;
pub use selftest::*;
pub use sequence::*;
pub use snapshot::*;
pub use step::*;
#[cfg(feature = "grammar")]
pub use stops::*;
pub use tokenizer::*;
#[cfg(feature = "grammar")]
pub use trie::*;
#[cfg(feature = "grammar")]
pub use trie_build::*;
pub use turns::*;
pub use version::*;
#[cfg(feature = "grammar")]
pub use writing::*;
#[cfg(feature = "grammar")]
pub use writing_next::*;
