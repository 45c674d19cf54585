//! The rows of a batch, and the size of the largest batch.

use core::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::cache::SeqId;
pub(crate) use crate::device::Row;
use crate::kernels::Level;
use crate::kv::{MAX_GROUPS, Visibility};

impl Row {
    /// Returns a row at this position of an unspecified sequence, for counting units.
    pub(crate) fn at(position: usize) -> Self {
        Self { position: position as u32, ..Self::zeroed() }
    }

    pub(crate) fn new(seq: SeqId, position: usize, token: u32) -> Self {
        Self { sequence: seq.to_bits(), position: position as u32, token }
    }

    pub(crate) fn seq(&self) -> SeqId {
        SeqId::from_bits(self.sequence)
    }

    /// Returns whether this row is the successor of `other` in its sequence.
    pub(super) fn follows(&self, other: &Self) -> bool {
        self.sequence == other.sequence && other.position.checked_add(1) == Some(self.position)
    }
}

/// Rows that are computed together. The rows of a sequence are in the order of their positions, separately among
/// finished and unfinished rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'b> {
    pub(crate) rows: &'b [Row],
    /// Number of finished rows, which come first and go through all layers. Of the others only keys and values, or a
    /// state, are needed.
    pub(crate) finished: usize,
    /// Number of finished rows that have logits. They come first.
    pub(crate) logits: usize,
    /// Rows of each sequence, by the slot of the sequence.
    pub(crate) runs: &'b [Run],
}

/// The rows of a sequence: first the unfinished rows, then the finished ones, each the successor of the row before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Run {
    /// Index of the first unfinished row, and the number of unfinished rows.
    pub(crate) unfinished: [u32; 2],
    /// Index of the first finished row, and the number of finished rows.
    pub(crate) finished: [u32; 2],
}

impl Run {
    /// A run without rows.
    pub(crate) const EMPTY: Self = Self { unfinished: [0; 2], finished: [0; 2] };

    /// A run of one row, for counting units.
    pub(crate) const ONE: Self = Self { unfinished: [0; 2], finished: [0, 1] };

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.unfinished[1] as usize + self.finished[1] as usize
    }

    /// Returns the index in the batch of row `number` of the run.
    pub(super) fn row(&self, number: usize) -> usize {
        let [start, count] = self.unfinished.map(|number| number as usize);
        match number.checked_sub(count) {
            None => start + number,
            Some(number) => self.finished[0] as usize + number,
        }
    }
}

/// Some rows of one sequence, by their numbers in its run.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) run: Run,
    pub(super) numbers: Range<usize>,
}

impl Piece {
    /// Returns the sequence.
    pub(super) fn seq(&self, batch: Batch<'_>) -> Option<SeqId> {
        batch.rows.get(self.run.row(self.numbers.start)).map(Row::seq)
    }

    /// Returns whether the piece begins with the first row of the run.
    pub(super) fn begins(&self) -> bool {
        self.numbers.start == 0
    }

    /// Returns the indices of the piece's rows in the batch, in the order of their positions.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> + use<> {
        let run = self.run;
        self.numbers.clone().map(move |number| run.row(number))
    }
}

impl<'b> Batch<'b> {
    /// Returns the number of rows of a sequence. In an encoder these are all tokens of the sequence.
    pub(super) fn text_len(&self, seq: SeqId) -> usize {
        self.runs.get(seq.slot()).map_or(0, Run::len)
    }

    /// Returns the rows with the numbers `part`, as a piece of each sequence. Numbers count the rows sequence by
    /// sequence, in the order of positions.
    pub(super) fn pieces(&self, part: Range<usize>) -> impl Iterator<Item = Piece> + use<'b> {
        let mut before = 0;
        self.runs.iter().filter_map(move |&run| {
            let [start, end] = [part.start, part.end].map(|at| at.saturating_sub(before).min(run.len()));
            before += run.len();
            (start < end).then_some(Piece { run, numbers: start..end })
        })
    }
}

/// The largest batch that the buffers hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Capacity {
    pub(crate) rows: usize,
    pub(crate) logit_rows: usize,
    /// Number of tokens that a sequence can have.
    pub(crate) context: usize,
    /// Positions that the layers of each group see.
    pub(crate) visibility: [Visibility; MAX_GROUPS],
    pub(crate) sequences: usize,
    /// Number of adapters that can be loaded.
    pub(crate) adapters: usize,
    /// Largest rank of the adapters' matrices.
    pub(crate) adapter_rank: usize,
    pub(crate) workers: usize,
    pub(crate) level: Level,
}

impl Capacity {
    /// Returns the number of given hidden states that are kept of a sequence.
    pub(crate) fn given(&self) -> usize {
        if self.rows == 0 { 0 } else { self.rows.saturating_add(1) }
    }
}
