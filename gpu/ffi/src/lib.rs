//! The C ABI of `gleed-gpu`, declared and specified in `include/gleed_gpu.h`.
//!
//! The library has all functions of `include/gleed.h`, too. A program links it instead of `libgleed`, and an engine on
//! a GPU is a `gleed_engine` like any other. The rules of that header hold, except for what `gleed_gpu.h` says of
//! memory: drivers allocate, and so does this library while it opens a GPU.
#![allow(non_camel_case_types)] // the types have the names that C sees
#![allow(clippy::result_large_err)] // a failure carries its text: there is nowhere else to put it

mod decode;
mod engine;
mod failure;
mod opened;
mod plan;
mod slot;
pub mod status;

pub use decode::*;
pub use engine::*;
pub use gleed_ffi::*;
pub use opened::*;
pub use plan::*;
pub use slot::{Slot, gleed_gpu_model};
