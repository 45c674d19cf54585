//! Embeddable language-model inference: GGUF bytes in, tokens out.
//!
//! `no_std`, and it never allocates: the host hands it one piece of memory whose exact size is known
//! beforehand. The layers, each of which uses only those above it:
//!
//! | layer | what |
//! |---|---|
//! | [`num`] | rounding, elementary functions, hash |
//! | [`mem`], [`tensor`] | the caller's memory; views of weights |
//! | [`quant`] | block formats: layout, dequantize, dot. The specification of the arithmetic |
#![cfg_attr(not(test), no_std)]
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::unreachable)
)]

#[cfg(all(feature = "std", not(test)))]
extern crate std;

pub mod cache;
pub mod mem;
pub mod num;
pub mod ops;
pub mod par;
pub mod quant;
pub mod tensor;
pub mod token;
