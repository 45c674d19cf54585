//! Copying, reading and writing blocks of keys and values.

use std::sync::PoisonError;

use bytemuck::{cast_slice, cast_slice_mut};
use gleed::device::BlockPart;

use super::GpuDevice;
use crate::error::GpuError;
use crate::hardware::{Buffer, Copy};
use crate::place::Place;
use crate::pool::Pool;

impl GpuDevice<'_, '_> {
    /// Makes the copies of blocks that no submit has made yet: those of a batch that was dropped.
    pub(super) fn copy_blocks(&self) -> Result<(), GpuError> {
        let copies = self.taken_copies()?;
        if copies.is_empty() { Ok(()) } else { self.gpu.hardware.submit_with(copies, [], []).map(|_| ()) }
    }

    pub(super) fn taken_copies(&self) -> Result<Vec<Copy<'_>>, GpuError> {
        let copies = std::mem::take(&mut *self.copies.lock().unwrap_or_else(PoisonError::into_inner));
        let both = copies.into_iter().map(|(group, from, to)| self.copies_of_block(group, from, to));
        Ok(both.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Returns the copies for a block, by way of another buffer: a device does not copy within one buffer.
    fn copies_of_block(&self, group: usize, from: u32, to: u32) -> Result<Vec<Copy<'_>>, GpuError> {
        let block = self.buffer(Place::Block)?;
        let mut copies = Vec::new();
        for part in self.pool(group)?.parts() {
            let (pool, bytes) = (self.buffer(part.place(group))?, part.bytes);
            let [from, to] = [from, to].map(|block| u64::from(block) * bytes);
            copies.extend([(pool, from, block, 0, bytes), (block, 0, pool, to, bytes)]);
        }
        Ok(copies)
    }

    fn pool(&self, group: usize) -> Result<&Pool, GpuError> {
        self.pools.get(group).ok_or(GpuError::Mismatch("layer groups"))
    }

    pub(super) fn read_words(&self, part: BlockPart, out: &mut [u32]) -> Result<(), GpuError> {
        let mut known = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|(group, block, _)| (*group, *block) != (part.group, part.block)) {
            let pool = self.pool(part.group)?;
            let mut words = vec![0; pool.layout.block_bytes / 4];
            self.copy_blocks()?;
            let bytes: &mut [u8] = cast_slice_mut(&mut words);
            for here in pool.parts() {
                if let Some((range, at)) = here.overlap(0, bytes.len() as u64) {
                    let from = self.buffer(here.place(part.group))?;
                    self.read_back(from, u64::from(part.block) * here.bytes + at, &mut bytes[range])?;
                }
            }
            *known = Some((part.group, part.block, words));
        }
        let words = known.as_ref().and_then(|(.., words)| words.get(part.word..part.word + out.len()));
        out.copy_from_slice(words.ok_or(GpuError::Mismatch("words of a block"))?);
        Ok(())
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn read_back(&self, from: &Buffer, at: u64, out: &mut [u8]) -> Result<(), GpuError> {
        self.gpu.hardware.read(from, at, out)
    }

    /// Fails, because a browser does not let a program wait.
    #[cfg(target_arch = "wasm32")]
    pub(super) fn read_back(&self, _: &Buffer, _: u64, _: &mut [u8]) -> Result<(), GpuError> {
        Err(GpuError::Unsupported { what: "blocks and states that are read in a browser" })
    }

    pub(super) fn write_words(&self, part: BlockPart, words: &[u32]) -> Result<(), GpuError> {
        self.forget_block();
        self.copy_blocks()?;
        let bytes: &[u8] = cast_slice(words);
        for here in self.pool(part.group)?.parts() {
            if let Some((range, at)) = here.overlap(part.word as u64 * 4, bytes.len() as u64) {
                let to = self.buffer(here.place(part.group))?;
                self.gpu.hardware.write(to, u64::from(part.block) * here.bytes + at, &bytes[range])?;
            }
        }
        Ok(())
    }
}
