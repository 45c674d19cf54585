//! The C ABI of gleed, declared and specified in `include/gleed.h`.
//!
//! Every function follows the same rules. It returns a frozen number ([`status`]); details go to a
//! struct of the caller's ([`error`]). Pointers with lengths become slices in one place ([`ptr`]), which
//! refuses what can be recognised as wrong: NULL, misaligned, past the end of the address space. Opaque
//! pointers lead to objects in the caller's memory that begin with a magic word ([`object`]). Outputs
//! are written only on success, and a call that fails changes nothing. There is no global or
//! thread-local state, and nothing here can panic: `bare/check.sh` proves it by linking.
#![cfg_attr(not(test), no_std)]
#![allow(non_camel_case_types)] // the types have the names that C sees
#![allow(clippy::result_large_err)] // a failure carries its text: there is nowhere else to put it
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

#[cfg(all(feature = "std", not(test)))]
extern crate std;

mod config;
mod convert;
mod engine;
pub mod error;
mod model;
pub mod object;
pub mod ptr;
mod sequence;
pub mod status;
mod version;

pub use config::{
    GLEED_KV_BASIC, GLEED_KV_F16, GLEED_KV_F32, GLEED_KV_OFF, GLEED_KV_PAGED, GLEED_KV_Q4_0, GLEED_KV_Q8_0,
    GLEED_KV_TYPES, gleed_config,
};
pub use engine::{HEAD, gleed_engine, gleed_engine_init, gleed_plan};
pub use model::{gleed_model, gleed_model_open, gleed_model_size};
pub use sequence::{gleed_decode_step, gleed_prefill, gleed_reset, gleed_seq, gleed_seq_close, gleed_seq_open};
pub use version::{GLEED_ABI_VERSION, gleed_abi_version, gleed_arithmetic_version, gleed_status_text, gleed_version};
