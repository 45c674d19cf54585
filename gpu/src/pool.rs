//! The pool of a layer group, cut by layers where it is larger than a kernel can see.

use gleed::device::KvLayout;

use crate::adapter::Limits;
use crate::error::GpuError;
use crate::place::Place;

/// A pool, and the number of its layers in a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) layout: KvLayout,
    each: usize,
}

/// The layers of a pool that lie in one buffer, as blocks of these layers only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// First layer of the part.
    pub(crate) first: usize,
    pub(crate) layers: usize,
    number: usize,
    /// Bytes of a block before this part.
    pub(crate) start: u64,
    /// Bytes of a block in this part.
    pub(crate) bytes: u64,
}

impl Pool {
    /// Cuts a pool into parts that a kernel can see.
    ///
    /// # Errors
    /// [`GpuError::TooLarge`] where one layer is too large.
    pub(crate) fn new(layout: KvLayout, limits: Limits) -> Result<Self, GpuError> {
        let layer = (layout.blocks * layer_bytes(&layout)) as u64;
        let each = usize::try_from(limits.binding / layer.max(1)).unwrap_or(usize::MAX).min(layout.layers.max(1));
        if each == 0 {
            return Err(GpuError::TooLarge { what: Place::Pool(0, 0).name(), bytes: layer, most: limits.binding });
        }
        Ok(Self { layout, each })
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> + use<> {
        let (layers, each, bytes) = (self.layout.layers, self.each, layer_bytes(&self.layout) as u64);
        (0..layers).step_by(each).enumerate().map(move |(number, first)| {
            let layers = each.min(layers - first);
            Part { first, layers, number, start: first as u64 * bytes, bytes: layers as u64 * bytes }
        })
    }

    /// Returns the part that has a layer.
    pub(crate) fn part_of(&self, layer: usize) -> Result<Part, GpuError> {
        self.parts()
            .find(|part| (part.first..part.first + part.layers).contains(&layer))
            .ok_or(GpuError::Mismatch("layers"))
    }
}

impl Part {
    pub(crate) fn place(&self, group: usize) -> Place {
        Place::Pool(group, self.number)
    }

    /// Returns which of `len` bytes of a block from `start` on lie in this part: their range in the bytes, and their
    /// offset in the block's part.
    pub(crate) fn overlap(&self, start: u64, len: u64) -> Option<(std::ops::Range<usize>, u64)> {
        let (from, to) = (start.max(self.start), (start + len).min(self.start + self.bytes));
        (from < to).then(|| ((from - start) as usize..(to - start) as usize, from - self.start))
    }
}

fn layer_bytes(layout: &KvLayout) -> usize {
    layout.block_bytes.checked_div(layout.layers).unwrap_or(0)
}
