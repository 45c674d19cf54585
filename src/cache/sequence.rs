//! Sequences and their handles.

use core::fmt;

use bytemuck::{Pod, Zeroable};

use super::list::{Linked, Links};

/// The id of imported tokens, whose keys and values were set from outside. It never equals a token.
pub const IMPORTED_TOKEN: u32 = u32::MAX;

/// A handle of an open sequence, never 0. It is not valid for a sequence that takes the same slot later.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SeqId(u32);

impl SeqId {
    const SLOT_BITS: u32 = 16;

    /// The largest number of sequences at a time.
    pub const MAX: usize = 1 << Self::SLOT_BITS;

    /// Returns the handle as a number, for other languages.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// Returns the handle with these bits. A wrong handle is refused where it is used.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    pub(super) fn new(slot: usize, generation: u32) -> Self {
        Self(generation << Self::SLOT_BITS | (slot as u32 & 0xffff))
    }

    pub(crate) fn slot(self) -> usize {
        (self.0 & 0xffff) as usize
    }

    pub(super) fn generation(self) -> u32 {
        self.0 >> Self::SLOT_BITS
    }
}

impl fmt::Debug for SeqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SeqId({}:{})", self.slot(), self.generation())
    }
}

/// A sequence: `len` committed tokens, and `reserved` more whose blocks are taken already.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Sequence {
    pub(super) len: u32,
    pub(super) reserved: u32,
    /// Number of sequences that this slot has had, counted from 1 to 2^16 - 1, then from 1 again.
    pub(super) generation: u32,
    pub(super) open: u32,
    /// Layer whose turn it is while rows are set from outside, layer by layer; 0 otherwise.
    pub(super) next_layer: u32,
    /// 1 while [`KvCache::make_room`](super::KvCache::make_room) considers closing the sequence, 2 if the host has
    /// refused that.
    pub(super) marked: u32,
    /// Neighbours in the list of open sequences.
    pub(super) links: Links,
}

impl Sequence {
    /// Returns whether the sequence has no unfinished work.
    pub(super) fn is_idle(&self) -> bool {
        self.reserved == 0 && self.next_layer == 0
    }
}

impl Linked for Sequence {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}
