//! Checkpoints: states that are kept at positions, so that sequences can go back to them.

use bytemuck::{Pod, Zeroable};

/// No slot. As a current slot it stands for a state of zeros, as a next slot for none.
pub(super) const NO_SLOT: u32 = u32::MAX;

/// The owner of checkpoints whose sequence was closed.
pub(super) const NOBODY: u32 = u32::MAX;

/// A state that is kept at a position.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Checkpoint {
    /// Slot of the state, or [`NO_SLOT`] if this place is free.
    pub(super) slot: u32,
    /// Slot of the sequence that the checkpoint belongs to, or [`NOBODY`].
    pub(super) sequence: u32,
    pub(super) position: u32,
    /// Number of this checkpoint in the order in which all were made.
    pub(super) made: u32,
    /// 1 if the host asked for this checkpoint, which then does not give way to others.
    pub(super) kept: u32,
    pub(super) _pad: u32,
    /// Serial number of the cached block that ends here, or 0 if there is none.
    pub(super) serial: u64,
}

impl Checkpoint {
    pub(super) const FREE: Self =
        Self { slot: NO_SLOT, sequence: 0, position: 0, made: 0, kept: 0, _pad: 0, serial: 0 };

    pub(super) fn is_of(&self, sequence: usize) -> bool {
        self.slot != NO_SLOT && self.sequence as usize == sequence
    }

    /// Returns the position of a sequence's last checkpoint that is before position `below`.
    pub(super) fn last_before(points: &[Self], sequence: usize, below: u32) -> Option<u32> {
        let points = points.iter().filter(|point| point.is_of(sequence) && point.position < below);
        points.map(|point| point.position).max().filter(|&position| position > 0)
    }

    /// Returns whether this place is free, or the checkpoint in it gives way to others.
    pub(super) fn is_weak(&self) -> bool {
        self.slot == NO_SLOT || self.kept == 0
    }

    /// Returns the number of this checkpoint in the order in which all were made, or 0 if the place is free.
    pub(super) fn age(&self) -> u32 {
        if self.slot == NO_SLOT { 0 } else { self.made }
    }
}
