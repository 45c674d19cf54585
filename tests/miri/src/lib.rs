//! Shared code of these tests: a model of one layer, and memory.
#![allow(dead_code, unused_imports)]

#[path = "../../common/gguf_writer.rs"]
pub mod gguf_writer;
#[path = "../../common/random.rs"]
pub mod random;
#[path = "../../common/scales.rs"]
pub mod scales;
#[path = "../../common/synthetic/mod.rs"]
pub mod synthetic;

use std::sync::LazyLock;

use synthetic::SyntheticModel;

/// Returns the bytes of a model of one layer and nine tokens. They are made only once, because making them takes Miri
/// as long as computing some tokens.
pub fn model() -> &'static [u8] {
    static FILE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let usual = SyntheticModel::llama();
        let sizes = SyntheticModel { hidden: 8, ffn: 8, layers: 1, heads: 2, kv_heads: 1, head_dim: 4, ..usual };
        SyntheticModel { vocab: 9, context: 32, ..sizes }.bytes()
    });
    &FILE
}

#[repr(C, align(64))]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct CacheLine([u8; 64]);

/// Memory that starts at a multiple of 64 bytes.
pub struct Memory(Vec<CacheLine>);

impl Memory {
    pub fn new(bytes: usize) -> Self {
        Self(vec![CacheLine([0xA5; 64]); bytes.div_ceil(64)])
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.0)
    }
}
