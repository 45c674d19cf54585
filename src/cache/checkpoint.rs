//! States that are kept at positions, so that a sequence goes back to them.

use bytemuck::{Pod, Zeroable};

/// No slot: a state of zeros, or none that is being written.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// The owner of checkpoints whose sequence was closed.
pub(super) const NOBODY: u32 = u32::MAX;

/// A state that is kept at a position.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Checkpoint {
    /// [`NO_SLOT`] where the place is free.
    pub(super) slot: u32,
    /// The slot of the sequence that it belongs to.
    pub(super) sequence: u32,
    pub(super) position: u32,
    /// Counts checkpoints: the smallest was made first.
    pub(super) made: u32,
    /// 1 where the host asked for it: it does not give way to others.
    pub(super) kept: u32,
    pub(super) _pad: u32,
    /// The serial number of the cached block that ends here; 0 where there is none.
    pub(super) serial: u64,
}

impl Checkpoint {
    pub(super) const FREE: Self =
        Self { slot: NO_SLOT, sequence: 0, position: 0, made: 0, kept: 0, _pad: 0, serial: 0 };

    pub(super) fn is_of(&self, sequence: usize) -> bool {
        self.slot != NO_SLOT && self.sequence as usize == sequence
    }

    /// The position of the last one of a sequence that is before another position.
    pub(super) fn last_before(points: &[Self], sequence: usize, below: u32) -> Option<u32> {
        let points = points.iter().filter(|point| point.is_of(sequence) && point.position < below);
        points.map(|point| point.position).max().filter(|&position| position > 0)
    }

    /// Whether its place is free, or it gives way.
    pub(super) fn is_weak(&self) -> bool {
        self.slot == NO_SLOT || self.kept == 0
    }

    /// When it was made; 0 where the place is free.
    pub(super) fn age(&self) -> u32 {
        if self.slot == NO_SLOT { 0 } else { self.made }
    }
}
