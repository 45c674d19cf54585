//! Models of any small size with random weights, as the tests of the core make them.

#[path = "../../../tests/common/gguf_writer.rs"]
pub mod gguf_writer;
#[path = "../../../tests/common/random.rs"]
pub mod random;
#[path = "../../../tests/common/scales.rs"]
pub mod scales;
#[path = "../../../tests/common/synthetic/mod.rs"]
pub mod synthetic;

/// Memory for an engine, aligned.
pub struct Memory(Vec<CacheLine>, usize);

#[repr(C, align(64))]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
struct CacheLine([u8; 64]);

impl Memory {
    pub fn new(bytes: usize) -> Self {
        Self(vec![CacheLine([0xA5; 64]); bytes.div_ceil(64)], bytes)
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.0)[..self.1]
    }
}
