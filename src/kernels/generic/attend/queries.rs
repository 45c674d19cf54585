//! What attention is asked: the query heads of a few rows, and what becomes of their scores.

use core::ops::Range;

use super::partial::Partial;
use crate::kv::{CHUNK, Positions, Visibility};

/// Queries of a unit, where rows have no more: enough to make what is read and converted for all of them cheap.
pub(super) const MAX_QUERIES: usize = 32;

/// Multiplications of a unit at most, where a chunk for a row does not have more.
const UNIT: usize = 1 << 22;

/// Elements of keys that a unit reads at most, where a chunk does not have more.
const UNIT_KEYS: usize = 1 << 17;

/// Returns the number of rows of one sequence that attention takes at a time.
pub fn attend_rows(group: usize) -> usize {
    MAX_QUERIES.checked_div(group).unwrap_or(0).max(1)
}

/// Chunks that attention takes at a time, of `rows` rows.
pub fn attend_chunks(rows: usize, group: usize, head_dim: usize) -> usize {
    let multiplications = rows.saturating_mul(group).saturating_mul(head_dim).saturating_mul(2 * CHUNK);
    let chunks = UNIT.checked_div(multiplications).unwrap_or(0);
    chunks.min((UNIT_KEYS / CHUNK).checked_div(head_dim).unwrap_or(0)).max(1)
}

/// The query heads of successive rows of one sequence that share a KV head.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct Queries<'q> {
    /// The heads of a row, `[group, head_dim]`, are at the start of every `stride` elements.
    pub q: &'q [f32],
    /// Elements from one row to the next.
    pub stride: usize,
    /// The first of the rows in the output.
    pub row: usize,
    /// How many rows.
    pub rows: usize,
    /// Heads per row.
    pub group: usize,
    /// Elements per head.
    pub head_dim: usize,
    /// The KV head.
    pub head: usize,
    /// The absolute position of the first row; the others follow.
    pub position: usize,
    /// Which positions up to its own a row sees.
    pub visibility: Visibility,
    /// What becomes of products with keys.
    pub scores: Scores<'q>,
}

/// What becomes of the product of a query and a key: its score.
///
/// [Example](crate::kernels#example).
#[derive(Clone, Copy, Debug)]
pub struct Scores<'q> {
    /// What products are multiplied by.
    pub scale: f32,
    /// Scores s become `soft_cap * tanh(s / soft_cap)`; 0 leaves them as they are.
    pub soft_cap: f32,
    /// The slope of each head of the group, `[group]`: this times the distance from the query, negative on both sides,
    /// is added to scores. Empty where nothing is. (Press et al., "Train Short, Test Long", 2021.)
    pub slopes: &'q [f32],
}

impl Scores<'_> {
    /// Products times `scale`, and nothing else.
    pub const fn scaled(scale: f32) -> Self {
        Self { scale, soft_cap: 0.0, slopes: &[] }
    }

    /// Whether there is more than the scale.
    pub(super) fn are_adjusted(&self) -> bool {
        self.soft_cap > 0.0 || !self.slopes.is_empty()
    }
}

impl<'q> Queries<'q> {
    /// How many there are.
    pub(super) fn len(&self) -> Option<usize> {
        self.rows.checked_mul(self.group)
    }

    /// What is kept of a row.
    pub(super) fn partial(&self) -> Partial {
        Partial { group: self.group, head_dim: self.head_dim }
    }

    /// The row of query `index`, and which of its heads it is: queries are numbered row by row.
    pub(super) fn place(&self, index: usize) -> Option<(usize, usize)> {
        let row = index.checked_div(self.group)?;
        Some((row, index - row * self.group))
    }

    /// Query `index`.
    pub(super) fn query(&self, index: usize) -> Option<&'q [f32]> {
        let (row, head) = self.place(index)?;
        let start = row.checked_mul(self.stride)?.checked_add(head.checked_mul(self.head_dim)?)?;
        self.q.get(start..start.checked_add(self.head_dim)?)
    }

    /// What query `index` sees.
    pub(super) fn seen(&self, index: usize) -> Option<Positions> {
        Some(self.visibility.at(self.position(index)?))
    }

    /// What the queries of a range see together.
    pub(super) fn seen_together(&self, range: Range<usize>) -> Option<Positions> {
        let last = self.position(range.end.checked_sub(1)?)?;
        // Positions have successors.
        last.checked_add(1)?;
        Some(self.visibility.between(self.position(range.start)?, last))
    }

    /// The position of query `index`.
    pub(super) fn position(&self, index: usize) -> Option<usize> {
        self.position.checked_add(index.checked_div(self.group)?)
    }
}
