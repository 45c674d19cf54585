//! `libgleed_hosted.a`: the functions of `include/gleed.h` with std, which brings the panic handler.

pub use gleed_ffi::*;
