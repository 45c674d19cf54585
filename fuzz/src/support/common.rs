//! The models that the tests make, from there.
#![allow(dead_code, unused_imports)]

#[path = "../../../tests/common/gguf_writer.rs"]
pub mod gguf_writer;
#[path = "../../../tests/common/random.rs"]
pub mod random;
#[path = "../../../tests/common/scales.rs"]
pub mod scales;
#[path = "../../../tests/common/synthetic/mod.rs"]
pub mod synthetic;
