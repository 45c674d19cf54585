//! The rows of a batch, and how large it can be.

use core::ops::Range;

use bytemuck::{Pod, Zeroable};

use crate::cache::SeqId;
pub(crate) use crate::device::Row;
use crate::kernels::Level;
use crate::kv::{MAX_GROUPS, Visibility};

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

/// Rows that are computed together. A sequence's rows are in the order of their positions, among those that are
/// finished and among the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch<'b> {
    pub(crate) rows: &'b [Row],
    /// The first so many rows go through all layers; of the others only keys and values are wanted.
    pub(crate) finished: usize,
    /// The first so many of these have logits.
    pub(crate) logits: usize,
    /// By the slot of a sequence: which rows are its own.
    pub(crate) runs: &'b [Run],
}

/// The rows of a sequence: those that are not finished, then the others, each the successor of the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Run {
    /// The first of the rows that are not finished, and their number.
    pub(crate) unfinished: [u32; 2],
    /// The same of the others.
    pub(crate) finished: [u32; 2],
}

impl Run {
    /// No rows.
    pub(crate) const EMPTY: Self = Self { unfinished: [0; 2], finished: [0; 2] };

    /// One row, to count units by.
    pub(crate) const ONE: Self = Self { unfinished: [0; 2], finished: [0, 1] };

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.unfinished[1] as usize + self.finished[1] as usize
    }

    /// The index in the batch of the run's row `number`.
    pub(super) fn row(&self, number: usize) -> usize {
        let [start, count] = self.unfinished.map(|number| number as usize);
        match number.checked_sub(count) {
            None => start + number,
            Some(number) => self.finished[0] as usize + number,
        }
    }
}

/// Rows of one sequence, by their numbers in its run.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    pub(super) run: Run,
    pub(super) numbers: Range<usize>,
}

impl Piece {
    /// The sequence.
    pub(super) fn seq(&self, batch: Batch<'_>) -> Option<SeqId> {
        batch.rows.get(self.run.row(self.numbers.start)).map(Row::seq)
    }

    /// Whether it begins with the first row of the run.
    pub(super) fn begins(&self) -> bool {
        self.numbers.start == 0
    }

    /// The indices of its rows in the batch, in the order of their positions.
    pub(super) fn rows(&self) -> impl Iterator<Item = usize> + use<> {
        let run = self.run;
        self.numbers.clone().map(move |number| run.row(number))
    }
}

impl<'b> Batch<'b> {
    /// Rows of a sequence: where a token sees those after it, all that the sequence has.
    pub(super) fn text_len(&self, seq: SeqId) -> usize {
        self.runs.get(seq.slot()).map_or(0, Run::len)
    }

    /// Rows `part` of the batch, counted sequence by sequence in the order of positions.
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

impl Capacity {
    /// Hidden states that are kept of a sequence, where they are given.
    pub(crate) fn given(&self) -> usize {
        if self.rows == 0 { 0 } else { self.rows.saturating_add(1) }
    }
}
