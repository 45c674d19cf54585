//! The rows of a batch, and how large it can be.

use bytemuck::{Pod, Zeroable};

use crate::cache::SeqId;
use crate::kernels::Level;
use crate::kv::{MAX_GROUPS, Visibility};

/// A row of a batch: a token at a position of a sequence.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Row {
    /// Bits of the sequence's handle.
    sequence: u32,
    pub(crate) position: u32,
    pub(crate) token: u32,
}

impl Row {
    /// A token at this position of any sequence, to count units by.
    pub(crate) fn at(position: usize) -> Self {
        Self { position: position as u32, ..Self::zeroed() }
    }

    pub(crate) fn new(seq: SeqId, position: usize, token: u32) -> Self {
        Self { sequence: seq.to_bits(), position: position as u32, token }
    }

    pub(crate) fn seq(&self) -> SeqId {
        SeqId::from_bits(self.sequence)
    }

    /// Whether this row is the successor of `other` in its sequence.
    pub(super) fn follows(&self, other: &Self) -> bool {
        self.sequence == other.sequence && other.position.checked_add(1) == Some(self.position)
    }
}

/// Rows that are computed together. A sequence's rows are in the order of their positions, among those that are finished
/// and among the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'b> {
    pub(crate) rows: &'b [Row],
    /// The first so many rows go through all layers; of the others only keys and values are wanted.
    pub(crate) finished: usize,
    /// The first so many of these have logits.
    pub(crate) logits: usize,
}

/// The largest batch that the buffers hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) rows: usize,
    pub(crate) logit_rows: usize,
    /// Tokens that a sequence can have.
    pub(crate) context: usize,
    /// What the layers of each group see.
    pub(crate) visibility: [Visibility; MAX_GROUPS],
    pub(crate) sequences: usize,
    /// Adapters that can be loaded.
    pub(crate) adapters: usize,
    /// The largest rank of their matrices.
    pub(crate) adapter_rank: usize,
    pub(crate) workers: usize,
    pub(crate) level: Level,
}
