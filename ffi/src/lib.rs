//! The C ABI of gleed, declared and specified in `include/gleed.h`.
//!
//! Every function follows the same rules. It returns a frozen number ([`status`]); details go to a
//! struct of the caller's ([`error`]). Pointers with lengths become slices in one place ([`ptr`]), which
//! refuses what can be recognised as wrong: NULL, misaligned, past the end of the address space. Outputs
//! are written only on success, and a call that fails changes nothing. There is no global or
//! thread-local state, and nothing here can panic: `bare/check.sh` proves it by linking.
#![cfg_attr(not(test), no_std)]
#![allow(non_camel_case_types)] // the types have the names that C sees
#![allow(clippy::result_large_err)] // a failure carries its text: there is nowhere else to put it
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

pub mod error;
pub mod ptr;
pub mod status;
mod version;

pub use version::{GLEED_ABI_VERSION, gleed_abi_version, gleed_arithmetic_version, gleed_status_text, gleed_version};
