//! Zero-copy reader for GGUF files.
#![no_std]
#![forbid(unsafe_code)]
