//! WebAssembly, where the instructions are known when the program is compiled.

mod lanes;
pub(super) mod simd128;
